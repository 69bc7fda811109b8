//! What is due when.

use alloc::collections::BTreeSet;

use nile_abi::{Instant, NodeId};

/// Something that is due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A call of ours: to be sent again, or over.
    Call(NodeId, u64),
    /// A call of a peer's: its reply to be sent again, or over.
    Entry(NodeId, u64),
    /// A hello to a node that somebody waits for.
    Greet(NodeId),
    /// The ends of calls, to be told to their callee.
    Tell(NodeId),
    /// Gossip whose rest has not come.
    Partial(NodeId, u32),
}

/// All timers, the next first.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub fn set(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub fn clear(&mut self, at: Instant, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
