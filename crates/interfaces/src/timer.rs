//! What the timers of a core do, and which of them wait.

use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

/// The most timers of a list.
pub const MOST_LISTED: usize = 64;

/// What the timers of a core have done since its incarnation began.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct TimerCounts {
    /// Timers that were armed.
    pub armed: u64,
    /// Those that have fired.
    pub fired: u64,
    /// Those of them that needed no wake of their own: they have fired before their end.
    pub coalesced: u64,
    /// Those that wait.
    pub waiting: u64,
    /// Interrupts by the core's timer, since the node started: in all incarnations.
    pub interrupts: u64,
    /// Interrupts of any cause that came while it slept, counted alike.
    pub wakes: u64,
}

/// The timers of a core.
#[service(subsystem = "timers", capability = "core timers", layer = low)]
pub trait Timer {
    /// How many, and what became of them.
    #[stl_k(reply = "counts", allow(operator, peer))]
    fn counts(&self) -> CallResult<TimerCounts>;

    /// By when those that wait fire, in nanoseconds since the node's start: the next 64 at most.
    #[stl_k(reply = "nanos", allow(operator, peer))]
    fn list(&self) -> CallResult<Vec<u64>>;
}
