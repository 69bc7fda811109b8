//! What is due when.

use alloc::collections::BTreeSet;
use core::time::Duration;

use nile_abi::{Instant, NodeId, Window};

use crate::settings::{FIRST_HELLO, TELL};

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

impl Timer {
    /// How much later than due it may be.
    fn slack(self) -> Duration {
        match self {
            Timer::Call(..) | Timer::Entry(..) => Duration::ZERO,
            // A callee that is not told remembers a little longer.
            Timer::Tell(_) | Timer::Partial(..) => TELL,
            Timer::Greet(_) => FIRST_HELLO / 4,
        }
    }
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

    /// When the next has to be seen to, and those that may be with it: what calls wait for is
    /// exact, and the rest may be late.
    pub fn next_window(&self) -> Option<Window> {
        let mut next: Option<Window> = None;
        for (at, timer) in &self.0 {
            if next.is_some_and(|next| next.until() <= *at) {
                break;
            }
            let window = Window::within(*at, timer.slack());
            next = Some(next.map_or(window, |next| next.first_of(window)));
        }
        next
    }

    /// Takes one that is due.
    pub fn pop(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
