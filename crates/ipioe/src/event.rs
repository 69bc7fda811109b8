//! What an endpoint tells its owner, and why it refuses what its owner asks.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};

use crate::wire::Asker;

/// A call that this endpoint made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId {
    /// Who was called.
    pub node: NodeId,
    /// Which of the calls to it.
    pub number: u64,
}

/// A call that this endpoint's owner answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServingId {
    /// Who called.
    pub node: NodeId,
    /// Which incarnation of it.
    pub generation: Generation,
    /// Which of its calls.
    pub number: u64,
}

/// A call to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Who is called.
    pub to: NodeId,
    /// Which incarnation of it; `None` for the one that lives when the call is first sent.
    pub generation: Option<Generation>,
    /// Whose call it is.
    pub source_core: CoreId,
    /// Who shall do it.
    pub core: CoreId,
    /// Which service.
    pub service: u16,
    /// Which of its methods.
    pub method: u16,
    /// Whether the data are in the binary form.
    pub encoded: bool,
    /// Who of this node asks.
    pub asker: Asker,
    /// When the caller stops waiting.
    pub deadline: Instant,
}

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The callee said so. `Busy` means that it was not done.
    Answered {
        /// How it went there.
        status: Status,
        /// Whether the data are in the binary form.
        encoded: bool,
        /// The reply.
        data: Vec<u8>,
    },
    /// The incarnation that was called is gone. The call may have been done.
    Dead,
    /// No answer came before the deadline. The call may have been done.
    TimedOut,
}

/// Something that the owner should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Somebody calls; the owner answers once, by `Endpoint::reply`.
    Request {
        /// The call's name here.
        serving: ServingId,
        /// Whose call it is.
        source_core: CoreId,
        /// Who shall do it.
        core: CoreId,
        /// Which service.
        service: u16,
        /// Which of its methods.
        method: u16,
        /// Whether the data are in the binary form.
        encoded: bool,
        /// Who of the other node asks, as that node says.
        asker: Asker,
        /// When the caller stops waiting, by this node's clock.
        deadline: Instant,
        /// The arguments.
        data: Vec<u8>,
    },
    /// Nobody waits any more for the answer to this call.
    Cancelled {
        /// The call.
        serving: ServingId,
    },
    /// A call of the owner's ended.
    Ended {
        /// The call.
        call: CallId,
        /// How.
        end: End,
    },
    /// Gossip came.
    Gossip {
        /// From whom.
        from: NodeId,
        /// From which incarnation of it.
        generation: Generation,
        /// For whom.
        core: CoreId,
        /// Whether the data are in the binary form.
        encoded: bool,
        /// The message.
        data: Vec<u8>,
    },
    /// A broadcast came.
    Broadcast {
        /// From whom.
        from: NodeId,
        /// From which incarnation of it.
        generation: Generation,
        /// Whether the data are in the binary form.
        encoded: bool,
        /// The message.
        data: Vec<u8>,
    },
    /// A broadcast came from another node that has this one's number, or from a former life of this
    /// one.
    Namesake {
        /// The number.
        node: NodeId,
        /// Its generation.
        generation: Generation,
        /// Where its frame came from.
        address: MacAddress,
        /// Whether the data are in the binary form.
        encoded: bool,
        /// The message.
        data: Vec<u8>,
    },
    /// A node proved for the first time that it lives.
    Met {
        /// Which.
        node: NodeId,
        /// Its incarnation.
        generation: Generation,
    },
    /// A node that had been met has a later incarnation. Calls to the old one end as
    /// [`End::Dead`].
    Restarted {
        /// Which.
        node: NodeId,
        /// The incarnation that is gone.
        old: Generation,
        /// The one that lives.
        new: Generation,
    },
    /// A node that had been met says that it ends. Calls to it end as [`End::Dead`].
    Left {
        /// Which.
        node: NodeId,
        /// The incarnation that ends.
        generation: Generation,
    },
    /// A peer knows a later incarnation of this very node: this one talks to nobody who does. The
    /// owner begins anew with a generation above it.
    Outdated {
        /// The generation that the peer knows.
        known: Generation,
    },
}

/// Why a call or a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is longer than `wire::MAX_MESSAGE`, or a broadcast than a frame.
    TooLong,
    /// It is for this node itself, or for node zero.
    NotAPeer,
    /// Its deadline has passed.
    Late,
    /// `Limits::calls`, `Limits::bytes` or `Limits::queue` are reached: later there is room.
    Full,
    /// `Limits::peers` are known, and all of them are in use.
    TooManyPeers,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::TooLong => "the message is too long: send it in parts, or as a bulk transfer",
            Refused::NotAPeer => "the destination is this node itself, or no node",
            Refused::Late => "the deadline has passed",
            Refused::Full => "too much is waiting: try again later",
            Refused::TooManyPeers => "more nodes than the endpoint's limit: raise it",
        })
    }
}

impl core::error::Error for Refused {}

/// Why an answer was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplyRefused {
    /// Nobody waits for it any more, or it was answered before.
    Gone,
    /// It is longer than `wire::MAX_MESSAGE`. The call still waits for an answer.
    TooLong,
}

impl fmt::Display for ReplyRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplyRefused::Gone => "nobody waits for this answer",
            ReplyRefused::TooLong => "the answer is too long: send it as a bulk transfer",
        })
    }
}

impl core::error::Error for ReplyRefused {}
