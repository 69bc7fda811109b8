//! Names of transfers, and what happens to them.

use core::fmt;

use nile_abi::{CoreId, Generation, NodeId, Status};

/// A transfer that this endpoint sends; never given twice by an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutgoingId(pub(crate) u32);

impl OutgoingId {
    /// The transfer's number on the wire.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A transfer that this endpoint receives; never given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IncomingId {
    /// The node that sends it.
    pub from: NodeId,
    /// The incarnation that sends it.
    pub generation: Generation,
    /// The number that the sender has given it.
    pub number: u32,
}

/// A transfer of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transfer {
    /// One that it sends.
    Out(OutgoingId),
    /// One that it receives.
    In(IncomingId),
}

impl From<OutgoingId> for Transfer {
    fn from(id: OutgoingId) -> Transfer {
        Transfer::Out(id)
    }
}

impl From<IncomingId> for Transfer {
    fn from(id: IncomingId) -> Transfer {
        Transfer::In(id)
    }
}

/// What is to be sent, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Send {
    /// The node that is to receive it.
    pub to: NodeId,
    /// Its incarnation; `None` for the one that answers.
    pub generation: Option<Generation>,
    /// The core here that sends.
    pub source_core: CoreId,
    /// The core there that is to receive.
    pub core: CoreId,
    /// What the two cores know the transfer by.
    pub tag: u64,
    /// What they know of it besides.
    pub label: u64,
    /// Bytes in all, all of them ready to be read; `None` for a stream, of which
    /// [`Endpoint::offer`](crate::Endpoint::offer) and
    /// [`Endpoint::finish`](crate::Endpoint::finish) say more.
    pub total: Option<u64>,
}

/// What happened to a transfer. The last of each is either `Finished` or `Failed`, never both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A core of another node wants to send: to be accepted or refused.
    Announced {
        /// The transfer.
        transfer: IncomingId,
        /// The core there that sends.
        source_core: CoreId,
        /// The core here that is to receive.
        core: CoreId,
        /// What the two cores know the transfer by.
        tag: u64,
        /// What they know of it besides.
        label: u64,
        /// Bytes in all, unless it is a stream whose end is not known yet.
        total: Option<u64>,
    },
    /// More of it has arrived: so many bytes from its start, without gaps. At the sender these
    /// need not be kept any longer.
    Progress {
        /// The transfer.
        transfer: Transfer,
        /// Bytes from its start.
        bytes: u64,
    },
    /// All of it has arrived, each byte once.
    Finished {
        /// The transfer.
        transfer: Transfer,
        /// Bytes in all.
        bytes: u64,
    },
    /// It is over, and not all of it is known to have arrived.
    Failed {
        /// The transfer.
        transfer: Transfer,
        /// Why.
        why: Why,
    },
}

/// Why a transfer ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The incarnation at the other end is gone.
    Dead,
    /// Nothing was heard of it for too long.
    Timeout,
    /// The other end has refused or cancelled it, and says why.
    Cancelled(Status),
    /// It was cancelled here.
    CancelledHere(Status),
    /// The memory at this end is gone.
    MemoryGone,
}

impl Why {
    /// What a caller is told: the end of a transfer as the end of a call.
    pub fn status(self) -> Status {
        match self {
            Why::Dead => Status::Dead,
            Why::Timeout => Status::Timeout,
            Why::Cancelled(status) | Why::CancelledHere(status) => status,
            Why::MemoryGone => Status::NotFound,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Dead => f.write_str("the other end has restarted; start the transfer anew"),
            Why::Timeout => f.write_str("nothing was heard of the other end for too long"),
            Why::Cancelled(status) => write!(f, "the other end has cancelled it: {status}"),
            Why::CancelledHere(status) => write!(f, "it was cancelled here: {status}"),
            Why::MemoryGone => f.write_str("the memory at this end is gone"),
        }
    }
}

impl core::error::Error for Why {}

/// Why a transfer was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// As many transfers as the limits permit are being sent, or as many peers are known; try
    /// again when one has ended.
    Busy,
    /// The incarnation of the node that was named is known to be gone.
    Dead,
    /// A node sends itself nothing.
    Here,
    /// The link's frames have no room for data.
    SmallFrames,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Busy => "as many transfers as permitted are under way; try again later",
            Refused::Dead => "that incarnation of the node is gone; find the node anew",
            Refused::Here => "the receiver is on this node; share memory instead",
            Refused::SmallFrames => "the link's frames are too small for bulk transfer",
        })
    }
}

impl core::error::Error for Refused {}

/// The memory of a transfer is gone: its owner has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory of the transfer is gone")
    }
}

impl core::error::Error for Gone {}
