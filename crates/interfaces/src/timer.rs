//! What the timers of a core do, and which of them wait.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

use crate::timer_source::SourceEntry;

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

/// What can end a core's sleep.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Sources {
    /// The name of the one that it has.
    pub used: String,
    /// All of them.
    pub sources: Vec<SourceEntry>,
}

/// The timers of a core.
#[service(subsystem = "timers", capability = "core timers", layer = low)]
pub trait Timer {
    /// How many, and what became of them.
    #[stl_k(reply = "counts", allow(operator, peer))]
    fn counts(&self) -> CallResult<TimerCounts>;

    /// The timers of the machine that this core can be woken by, and which it is woken by.
    #[stl_k(reply = "sources", allow(operator, peer))]
    fn sources(&self) -> CallResult<Sources>;

    /// Has the core be woken by the cheapest of them that is late by at most `resolution_ns` and
    /// waits for at least `longest_ms` at once. All deadlines stay. `NotFound` if none will do.
    #[stl_k(reply = "source", allow(operator, peer))]
    async fn choose(&self, resolution_ns: u64, longest_ms: u64) -> CallResult<SourceEntry>;

    /// The same for the one of this name.
    #[stl_k(reply = "source", allow(operator, peer))]
    fn take(&self, source: String) -> CallResult<SourceEntry>;

    /// By when those that wait fire, in nanoseconds since the node's start: the next 64 at most.
    #[stl_k(reply = "nanos", allow(operator, peer))]
    fn list(&self) -> CallResult<Vec<u64>>;
}
