//! Buffers of the pool between nodes: to a *mailbox* of a node, with a *label* that says what each
//! is.

use alloc::vec::Vec;

use nile_abi::Part;
use nile_bosml::Buffer;
use nile_stl::{CallResult, Caller, Record, service};

use crate::network::{Counter, Identity};

/// A buffer that came to a mailbox.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Came {
    /// From whom; node 0 if this node is in no cluster.
    pub from: Identity,
    /// What its sender calls it.
    pub label: u64,
    /// The buffer, for the caller to claim.
    pub buffer: Buffer,
}

/// Bytes of a buffer of the node's pool that its owner keeps, and neither changes nor gives up
/// before the call that names them has ended.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which buffer.
    pub buffer: u32,
    /// Its generation.
    pub generation: u32,
    /// Where they begin in the buffer.
    pub start: u32,
    /// How many.
    pub bytes: u32,
}

impl From<Part> for Piece {
    fn from(part: Part) -> Piece {
        let Part { index: buffer, generation, start, bytes } = part;
        Piece { buffer, generation, start, bytes }
    }
}

impl From<Piece> for Part {
    fn from(piece: Piece) -> Part {
        let Piece { buffer: index, generation, start, bytes } = piece;
        Part { index, generation, start, bytes }
    }
}

/// Buffers of the pool to mailboxes of any node.
#[service(subsystem = "network", capability = "bulk", layer = micro)]
pub trait Bulk {
    /// Sends a buffer of the pool to a mailbox of a node, 0 for this one; over when it is there.
    /// The buffer is gone, however it ends.
    #[stl_k]
    async fn send(
        &self,
        caller: &Caller,
        to: Identity,
        mailbox: u64,
        label: u64,
        buffer: Buffer,
    ) -> CallResult<()>;

    /// Sends pieces of buffers that the caller keeps, as one buffer, to a mailbox of another node;
    /// over when they are there. `Invalid` if they are more than a buffer, or for this node.
    #[stl_k]
    async fn send_pieces(
        &self,
        caller: &Caller,
        to: Identity,
        mailbox: u64,
        label: u64,
        pieces: Vec<Piece>,
    ) -> CallResult<()>;

    /// Opens a mailbox for the calling core, until it closes it or its incarnation ends.
    #[stl_k]
    fn open(&self, caller: &Caller, mailbox: u64) -> CallResult<()>;

    /// Closes a mailbox of the calling core.
    #[stl_k]
    fn close(&self, caller: &Caller, mailbox: u64) -> CallResult<()>;

    /// What came first to a mailbox of the calling core; waits until something has.
    #[stl_k(reply = "came")]
    async fn next(&self, caller: &Caller, mailbox: u64) -> CallResult<Came>;

    /// What the protocol has counted in this incarnation of the node, and how many frames of which
    /// protocol this core's interface has carried.
    #[stl_k(reply = "counters", allow(operator, peer))]
    fn counters(&self) -> CallResult<Vec<Counter>>;
}
