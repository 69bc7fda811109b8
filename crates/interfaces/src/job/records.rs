//! What calls of the job service carry.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_stl::Record;

/// A job that is asked for.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct JobRequest {
    /// What it is called.
    pub name: String,
    /// The package with its code: a dataset that has the file, or a package that nodes were
    /// started with.
    pub package: String,
    /// What its code is given.
    pub arguments: Vec<String>,
    /// The datasets that it reads: each one dataset, or all parts of another job's output.
    pub input: Vec<String>,
    /// What it makes.
    pub output: String,
    /// How many reduce tasks it has, and so how many parts its output has.
    pub reducers: u32,
    /// Of how many splits samples are taken to cut partitions.
    pub samples: u32,
    /// Bytes of pool that it may use on each node, if not all.
    pub memory: Option<u64>,
    /// On how many nodes its output is to be, if not on one.
    pub copies: Option<u32>,
    /// Whether it only reorders records, so that their number and checksum have to stay.
    pub conserves: bool,
    /// For how many seconds an attempt's code may neither take nor give anything before it has
    /// failed, if there is such a time.
    pub task_timeout: Option<u32>,
    /// By which policy it gets workers that other jobs want, too.
    pub policy: JobPolicy,
    /// The nodes whose workers may work on it; none: all of them.
    pub on: Vec<u32>,
}

/// By which policy a job gets workers that other jobs want, too.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobPolicy {
    /// Who has had the least time of them for its weight.
    Fair {
        /// What it weighs, from 1 to 10,000.
        weight: u32,
    },
    /// Who is to be done first; before all fair ones.
    EarliestDeadline {
        /// In how many milliseconds after its begin it is to be done.
        deadline_ms: u64,
    },
    /// Who came first, and only it, of those that say so; behind all others.
    Fifo,
}

impl JobPolicy {
    /// What a job weighs of which nothing is said.
    pub const USUAL_WEIGHT: u32 = 100;

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            JobPolicy::Fair { .. } => "fair",
            JobPolicy::EarliestDeadline { .. } => "earliest_deadline",
            JobPolicy::Fifo => "fifo",
        }
    }
}

impl Default for JobPolicy {
    fn default() -> JobPolicy {
        JobPolicy::Fair { weight: JobPolicy::USUAL_WEIGHT }
    }
}

/// What is done for a job, in the order in which it comes to that.
#[derive(Record, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum JobPhase {
    /// It has no master, but once had one, or is to have one.
    #[default]
    Waiting,
    /// Other jobs are before it.
    Queued,
    /// It begins, unless others do, too.
    Next,
    /// Its master asks workers what they have from a former master's time.
    Inheriting,
    /// Samples are taken and bounds are cut.
    Sampling,
    /// Map tasks run.
    Mapping,
    /// Reduce tasks run.
    Reducing,
    /// Its end is recorded, and its output shown.
    Ending,
    /// It has ended.
    Over,
}

impl JobPhase {
    /// All of them.
    pub const ALL: [JobPhase; 9] = [
        JobPhase::Waiting,
        JobPhase::Queued,
        JobPhase::Next,
        JobPhase::Inheriting,
        JobPhase::Sampling,
        JobPhase::Mapping,
        JobPhase::Reducing,
        JobPhase::Ending,
        JobPhase::Over,
    ];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            JobPhase::Waiting => "waiting",
            JobPhase::Queued => "queued",
            JobPhase::Next => "next",
            JobPhase::Inheriting => "inheriting",
            JobPhase::Sampling => "sampling",
            JobPhase::Mapping => "mapping",
            JobPhase::Reducing => "reducing",
            JobPhase::Ending => "ending",
            JobPhase::Over => "over",
        }
    }
}

impl fmt::Display for JobPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a job has ended, and how.
#[derive(Record, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum JobEnd {
    /// It has not.
    #[default]
    Open,
    /// It has made its output.
    Made,
    /// It has failed, or was cancelled.
    Failed,
}

impl JobEnd {
    /// Whether it has not ended.
    pub fn is_open(self) -> bool {
        self == JobEnd::Open
    }
}

/// One phase of a job.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct PhaseEntry {
    /// Which.
    pub name: JobPhase,
    /// How long it took, or has taken, in microseconds.
    pub us: u64,
    /// Bytes that tasks read in it.
    pub bytes: u64,
}

/// A worker that is busy.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct WorkerEntry {
    /// Its node.
    pub node: u32,
    /// Its core.
    pub core: u16,
    /// What sort of task it runs.
    pub kind: AttemptKind,
    /// The split, or, of a reduce task, the partition.
    pub task: u32,
    /// Which attempt of the task it is, from 1.
    pub attempt: u32,
    /// Bytes that it has read for that.
    pub bytes: u64,
}

/// A part of a job's output.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct PartEntry {
    /// The node that wrote it.
    pub node: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
}

/// How far a job is.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct ProgressEntry {
    /// Its number.
    pub job: u64,
    /// What it is called.
    pub name: String,
    /// What it makes.
    pub output: String,
    /// The node of its master, if it has one now.
    pub master: Option<u32>,
    /// What is done now.
    pub phase: JobPhase,
    /// Map tasks that are done.
    pub maps_done: u32,
    /// Map tasks.
    pub maps: u32,
    /// Reduce tasks that are done.
    pub reduces_done: u32,
    /// Reduce tasks.
    pub reduces: u32,
    /// Bytes that tasks have read.
    pub read: u64,
    /// Bytes that tasks have written.
    pub written: u64,
    /// Bytes that had no room in memory.
    pub spilled: u64,
    /// Attempts that were started.
    pub attempts: u32,
    /// Those of them that were because an earlier one came to nothing.
    pub retries: u32,
    /// Those of them that were beside a slow one.
    pub second_tries: u32,
    /// Map tasks that were given to a node with their input.
    pub local: u32,
    /// What was taken over from former masters.
    pub inherited: u32,
    /// The longest part over the mean one, in thousandths.
    pub imbalance: u32,
    /// From the submission to the first task, in microseconds, once there is one.
    pub first_task_us: Option<u64>,
    /// From the submission to the end, or until now, in microseconds. After a master was lost,
    /// from the time of the next one.
    pub total_us: u64,
    /// The phases so far.
    pub phases: Vec<PhaseEntry>,
    /// The workers that are busy; the first hundreds of them.
    pub workers: Vec<WorkerEntry>,
    /// Whether it has ended, and how.
    pub ended: JobEnd,
    /// Why it has failed, or what it waits for.
    pub error: String,
    /// Records of its output.
    pub records: u64,
    /// The sum of their checksums.
    pub checksum: u64,
    /// The parts of its output.
    pub parts: Vec<PartEntry>,
}

/// A job in time. Moments are microseconds after its submission, or after its present master began,
/// by the clock of that master's node.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct TimelineEntry {
    /// The node of its last master.
    pub master: u32,
    /// When it ended; now, if it has not.
    pub until_us: u64,
    /// The phases so far.
    pub phases: Vec<SpanEntry>,
    /// Attempts from the place that was asked for, as many as fit a reply, in the order in which
    /// they began.
    pub attempts: Vec<AttemptEntry>,
    /// How many attempts are kept.
    pub kept: u32,
    /// How many there was no room for.
    pub lost: u32,
}

/// A phase in time.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct SpanEntry {
    /// Which.
    pub name: JobPhase,
    /// When it began.
    pub begun_us: u64,
    /// When it ended.
    pub ended_us: u64,
}

/// An attempt in time, as the master saw it: from when it gave it to a worker to when it heard that
/// it was over.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct AttemptEntry {
    /// The worker's node.
    pub node: u32,
    /// The worker's core.
    pub core: u16,
    /// What sort of task.
    pub kind: AttemptKind,
    /// The split, or, of a reduce task, the partition.
    pub task: u32,
    /// Which attempt of the task it is, from 1.
    pub attempt: u32,
    /// When it began.
    pub begun_us: u64,
    /// When it was over; if it was not, when the job ended, or now.
    pub ended_us: u64,
    /// What came of it.
    pub outcome: AttemptOutcome,
    /// Bytes that it has read.
    pub read: u64,
}

/// What sort of task an attempt is of.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptKind {
    /// Reads a few records of a split, from which the bounds of partitions are cut.
    Sample,
    /// Reads a split and leaves a piece of output for every partition.
    Map,
    /// Takes its partition's piece of every map task and writes a part of the output.
    Reduce,
}

impl AttemptKind {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            AttemptKind::Sample => "sample",
            AttemptKind::Map => "map",
            AttemptKind::Reduce => "reduce",
        }
    }
}

/// What came of an attempt.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    /// Nothing yet, or the job ended before it.
    Open,
    /// It was done.
    Done,
    /// It came to nothing.
    Failed,
    /// It was called off.
    Stopped,
    /// It was lost with its worker.
    Lost,
}

impl AttemptOutcome {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            AttemptOutcome::Open => "open",
            AttemptOutcome::Done => "done",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Stopped => "stopped",
            AttemptOutcome::Lost => "lost",
        }
    }
}

/// A job of the list.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct JobEntry {
    /// Its number.
    pub job: u64,
    /// What it is called.
    pub name: String,
    /// What it makes.
    pub output: String,
    /// Its phase.
    pub phase: JobPhase,
    /// The node of its master, if this is known.
    pub master: Option<u32>,
    /// Whether it has ended, and how.
    pub ended: JobEnd,
    /// By which policy it gets workers that others want, too.
    pub policy: JobPolicy,
    /// The node that took it in: the one that it was submitted to, or one for it that has a disk.
    pub submitted_to: u32,
    /// Map tasks that are done, as far as its master has said.
    pub maps_done: u32,
    /// Map tasks.
    pub maps: u32,
    /// Reduce tasks that are done.
    pub reduces_done: u32,
    /// Reduce tasks.
    pub reduces: u32,
}

/// A worker core of the cluster.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerPlace {
    /// Its node.
    pub node: u32,
    /// The core.
    pub core: u16,
}
