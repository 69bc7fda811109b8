//! What masters and workers say to each other, and workers among themselves.
//!
//! Every message names the job; one between a master and a worker names the master's epoch and the
//! session. What is of an earlier epoch or session is not heard.

use alloc::boxed::Box;
use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_bosml::Blob;
use nile_stl_macros::Record;

use crate::end::{Failure, Summary};
use crate::id::{AttemptId, Epoch, JobId, PieceId, Session, WorkerId};
use crate::job::{Job, MOST_SLICES, MOST_SPLITS, Split};
use crate::lane::{Batch, Item};

/// A master to a worker.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct ToWorker {
    /// The job.
    pub job: JobId,
    /// The master's epoch.
    pub epoch: Epoch,
    /// The session.
    pub session: Session,
    /// The machine of the worker that the master has heard in this session; 0 before. Orders are
    /// for it alone.
    pub machine: u32,
    /// The master's node, where answers go.
    pub master: NodeId,
    /// Whether to answer even if there is nothing to say.
    pub ask: bool,
    /// The orders.
    pub orders: Batch<Order>,
}

/// A worker to a master.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct ToMaster {
    /// The job.
    pub job: JobId,
    /// The epoch that the worker obeys. If it is a later one, the receiver is superseded.
    pub epoch: Epoch,
    /// The session.
    pub session: Session,
    /// The worker.
    pub worker: WorkerId,
    /// Which of its machines for this job it is.
    pub machine: u32,
    /// The attempt that runs, if any does.
    pub running: Option<RunningAttempt>,
    /// The notes.
    pub notes: Batch<Note>,
}

/// An attempt that runs.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct RunningAttempt {
    /// The attempt.
    pub attempt: AttemptId,
    /// How many bytes it has read.
    pub bytes: u64,
}

/// One thing that a worker is to do.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Order {
    /// This is the job. It comes before the first attempt.
    Job(Box<Job>),
    /// These are the bounds of partitions. They come before the first attempt that needs them.
    Plan(Plan),
    /// Run this attempt.
    Assign {
        /// The attempt.
        attempt: AttemptId,
        /// What it works on.
        work: Work,
    },
    /// Run it no more.
    Cancel(AttemptId),
    /// The output or the part of this attempt is not needed.
    Drop(AttemptId),
    /// Where outputs of map tasks are that the running reduce attempt needs.
    Outputs(Vec<Location>),
    /// The job is over: the parts of these attempts are of its output, the rest is not needed.
    End(Vec<AttemptId>),
}

/// What an attempt works on.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Work {
    /// A part of the input.
    Split(Split),
    /// The pieces of this many map tasks.
    Pieces(#[range(0..=MOST_SPLITS)] u32),
}

/// The bounds of partitions. Outputs of two plans never go into one part.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Plan {
    /// The master that has cut it.
    pub epoch: Epoch,
    /// The bounds.
    pub bounds: Bounds,
}

/// Bounds as the job's code has cut them, and in how many *slices* it takes each partition.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Bounds {
    /// What only the job's own code reads.
    pub bytes: Blob,
    /// How many pieces of each output a partition has: those of the first slice are fetched first,
    /// and those of a later one when the job's code is about to take them. From 1 to
    /// [`MOST_SLICES`](crate::MOST_SLICES).
    #[range(1..=MOST_SLICES)]
    pub slices: u32,
}

/// Where an output of a map task is.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Location {
    /// The attempt that made it.
    pub output: AttemptId,
    /// Who has it.
    pub at: WorkerId,
}

/// One thing that a worker has to say.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Note {
    /// It has this plan from an earlier session.
    Plan(Plan),
    /// It has this output or part from an earlier session, of the plan of this epoch.
    Held {
        /// The attempt.
        attempt: AttemptId,
        /// The epoch of its plan.
        plan: Epoch,
        /// What it has done.
        summary: Summary,
    },
    /// It has said all that it has, and waits for work.
    Ready,
    /// An attempt is done.
    Done {
        /// The attempt.
        attempt: AttemptId,
        /// What it has done.
        summary: Summary,
    },
    /// An attempt came to nothing.
    Failed {
        /// The attempt.
        attempt: AttemptId,
        /// Why.
        failure: Failure,
    },
    /// An attempt was cancelled and has stopped.
    Stopped(AttemptId),
    /// A reduce attempt has all its pieces, and needs no map task any more.
    Gathered(AttemptId),
    /// An output that a reduce attempt needs cannot be had.
    Missing {
        /// Where it is said to be.
        location: Location,
        /// Why it cannot be had.
        lack: Lack,
    },
    /// It knows that the job is over, and has kept nothing but the parts of the output.
    Over,
}

/// Why a piece cannot be had.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Lack {
    /// It did not come, however often it was asked for.
    Late,
    /// Who is said to have it does not.
    Gone,
}

/// A worker to another worker of the job.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Peer {
    /// `from` asks for a piece, for its reduce attempt `by`.
    Fetch {
        /// The job.
        job: JobId,
        /// Which piece.
        piece: PieceId,
        /// For which attempt.
        by: AttemptId,
        /// Who asks.
        from: WorkerId,
    },
    /// There is no such piece here.
    Missing {
        /// The job.
        job: JobId,
        /// Which piece.
        piece: PieceId,
        /// Who has asked for it.
        by: AttemptId,
    },
}

/// About how many bytes the name of an attempt has.
const ATTEMPT: usize = 20;

impl Item for Order {
    fn weight(&self) -> usize {
        match self {
            Order::Job(job) => 96 + 4 * job.keepers.len() + job.text_bytes(),
            Order::Plan(plan) => 16 + plan.bounds.bytes.0.len(),
            Order::Assign { work: Work::Split(split), .. } => ATTEMPT + 28 + 4 * split.nodes.len(),
            Order::Assign { .. } | Order::Cancel(_) | Order::Drop(_) => ATTEMPT + 8,
            Order::Outputs(outputs) => 2 * ATTEMPT * outputs.len(),
            Order::End(parts) => ATTEMPT * parts.len() + 8,
        }
    }
}

impl Item for Note {
    fn weight(&self) -> usize {
        match self {
            Note::Plan(plan) => 16 + plan.bounds.bytes.0.len(),
            Note::Held { summary, .. } | Note::Done { summary, .. } => {
                ATTEMPT + 48 + summary.sample.0.len()
            }
            Note::Failed { failure, .. } => ATTEMPT + 8 + failure.text.len(),
            _ => 2 * ATTEMPT,
        }
    }
}
