//! Who is in the cluster.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Caller, Record, service};

use crate::network::Identity;

/// The most members of one reply.
pub const MOST_MEMBERS: usize = 1000;

/// Another node that has this one's number.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct NamesakeEntry {
    /// Where its frames come from.
    pub address: String,
    /// Its generation.
    pub generation: u32,
}

/// A node of the cluster.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct MemberEntry {
    /// Which.
    pub identity: Identity,
    /// How it is.
    pub state: MemberState,
    /// How often its directory has changed, as far as this node has it.
    pub version: u32,
}

/// How a node is, as far as the one that says so knows.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// It lives.
    Alive,
    /// It does not answer, and has a while to say that it lives.
    Suspect,
    /// It is held for dead.
    Down,
}

/// The nodes of the cluster.
#[service(subsystem = "network", capability = "membership", layer = low)]
pub trait Gossip {
    /// The nodes that are known, the dead of the last minutes among them, in the order of their
    /// numbers: those behind `after`, at most a thousand. Fewer: there are no more.
    #[stl_k(reply = "members", allow(operator, peer))]
    fn members(&self, after: u32) -> CallResult<Vec<MemberEntry>>;

    /// Whether a node lives in a generation, as far as this one knows.
    #[stl_k(reply = "lives", allow(operator, peer))]
    fn lives(&self, node: u32, generation: u32) -> CallResult<bool>;

    /// Other nodes that have this one's number, as far as it has heard of them in the last minutes.
    #[stl_k(reply = "namesakes", allow(operator, peer))]
    fn namesakes(&self) -> CallResult<Vec<NamesakeEntry>>;

    /// Leaves the cluster in order: the others learn at once that this node is gone.
    #[stl_k(allow(operator, peer))]
    fn leave(&self, caller: &Caller) -> CallResult<()>;
}

impl GossipClient {
    /// Every node that is known. Each page is a call.
    pub async fn everyone(&self) -> CallResult<Vec<MemberEntry>> {
        let mut all: Vec<MemberEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |it| it.identity.node);
            let more = self.members(after).await?;
            let is_last = more.len() < MOST_MEMBERS;
            all.extend(more);
            if is_last {
                return Ok(all);
            }
        }
    }
}
