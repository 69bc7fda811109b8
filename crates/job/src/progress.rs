//! What a master tells of its job while it runs.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{AttemptId, WorkerId};

/// How far a job is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// What is done now.
    pub phase: Phase,
    /// Map tasks whose output is there, of how many.
    pub maps: (u32, u32),
    /// Reduce tasks whose part is there, of how many.
    pub reduces: (u32, u32),
    /// What every busy worker does, and bytes that its attempt has read.
    pub running: Vec<(WorkerId, AttemptId, u64)>,
    /// What was counted.
    pub counters: Counters,
}

/// What a job's master is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It asks workers what they have from a former master's time.
    Inheriting,
    /// Samples are taken and bounds are cut.
    Sampling,
    /// Map tasks run.
    Mapping,
    /// Reduce tasks run.
    Reducing,
    /// The end is recorded and told.
    Ending,
    /// It has ended.
    Over,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Inheriting => "inheriting",
            Phase::Sampling => "sampling",
            Phase::Mapping => "mapping",
            Phase::Reducing => "reducing",
            Phase::Ending => "ending",
            Phase::Over => "over",
        })
    }
}

/// What a master has counted. What former masters of the job counted is not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Attempts that were started.
    pub attempts: u32,
    /// Attempts that were started because an earlier one came to nothing or its output was lost.
    pub retries: u32,
    /// Attempts that were started beside a slow one.
    pub second_tries: u32,
    /// Map tasks that were given to a node that has their input.
    pub local: u32,
    /// Outputs and parts that were taken over from a former master's time, or from before a
    /// worker was held for lost.
    pub inherited: u32,
    /// Workers that were silent for too long.
    pub lost_workers: u32,
    /// Workers whose incarnation ended.
    pub gone_workers: u32,
    /// Bytes that tasks have read.
    pub read: u64,
    /// Bytes that tasks have written.
    pub written: u64,
    /// Bytes that tasks had to put on disk because they did not fit their memory.
    pub spilled: u64,
    /// The longest part's bytes over the mean part's, in thousandths; 0 until all are there.
    pub imbalance: u32,
    /// Entries of queues that were looked at: it grows with the number of tasks and of workers,
    /// not with their product.
    pub steps: u64,
}
