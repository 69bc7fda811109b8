//! The service that runs jobs, as the command meets it.

use std::time::Duration;

use crate::failure::Failure;

#[cfg(test)]
pub mod fake;
pub mod service;

pub use nile_interfaces::job::records::JobPhase;
/// A job to submit.
pub use nile_interfaces::job::records::JobRequest as Request;

/// How far a job is.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What is done now.
    pub phase: JobPhase,
    /// Map tasks that are done, of how many.
    pub maps: (u32, u32),
    /// Reduce tasks that are done, of how many.
    pub reduces: (u32, u32),
    /// Bytes that were read and written so far.
    pub bytes: u64,
    /// Attempts that were made again.
    pub retries: u32,
    /// Bytes that had no room in memory and were put on disk in between.
    pub spilled: u64,
    /// The longest part over the mean one.
    pub imbalance: f64,
    /// The phases so far.
    pub phases: Vec<Phase>,
    /// From the submission to the first task.
    pub first_task: Option<Duration>,
    /// What it waits for, if it does.
    pub waits: String,
    /// How it ended, once it has.
    pub end: Option<End>,
}

/// A phase of a job that is over, or under way.
#[derive(Clone, PartialEq, Debug)]
pub struct Phase {
    pub name: &'static str,
    pub took: Duration,
    /// Bytes that were read in it.
    pub bytes: u64,
}

/// When what of a job ran. Moments are counted from its submission.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// When it had ended.
    pub until: Duration,
    /// Its phases: name, beginning, end.
    pub phases: Vec<(&'static str, Duration, Duration)>,
    /// Attempts in the order in which they began.
    pub attempts: Vec<Attempt>,
    /// Attempts that the service had no room for.
    pub lost: u64,
}

/// An attempt that a worker core has made of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub node: u32,
    pub core: u16,
    /// `sample`, `map` or `reduce`.
    pub kind: &'static str,
    /// Which task of this sort, from 0.
    pub task: u64,
    /// Which attempt of the task, from 1.
    pub number: u64,
    pub begun: Duration,
    pub ended: Duration,
    /// `done`, or what else came of it.
    pub outcome: &'static str,
    /// Bytes that it has read.
    pub read: u64,
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Its output is there.
    Done { records: u64, checksum: u64 },
    /// It came to nothing, for this reason.
    Failed(String),
}

/// What can be asked of the service.
pub trait Jobs {
    /// Has it begin a job; the job's number. A wrong request if the job cannot be.
    fn submit(&mut self, request: &Request) -> Result<u64, Failure>;

    /// How far a job is, as soon as it has ended or has more phases than the `seen` ones that are
    /// known; after `wait`, at most a second, in any case. Fails when someone presses Ctrl-C.
    fn news(&mut self, job: u64, seen: usize, wait: Duration) -> Result<State, Failure>;

    /// Has it end a job.
    fn cancel(&mut self, job: u64) -> Result<(), Failure>;

    /// Lets time go by. Fails when someone presses Ctrl-C.
    fn rest(&mut self, span: Duration) -> Result<(), Failure>;

    /// From now on Ctrl-C ends nothing.
    fn insist(&mut self);
}
