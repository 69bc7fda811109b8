//! Names of jobs, masters, workers, tasks, attempts and pieces.

use core::fmt;

use nile_abi::{CoreId, Generation, NodeId};
use nile_stl_macros::Record;

/// The most nodes that keep the record of a job.
pub const MOST_KEEPERS: usize = 4;

/// A job. Never given twice in a cluster.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct JobId(pub u64);

/// Which of a job's masters is meant: each has a higher epoch than those before. It is a round, and
/// the rank of the keeper of the job's [`Record`](crate::Record) that runs the master: no two
/// keepers ever take the same.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Epoch(pub u64);

/// Which conversation of a master with a worker is meant: each begins with what the worker has,
/// and is begun anew when the worker was silent for too long.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Session(pub u32);

/// One incarnation of a worker core.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[record(crate = nile_bosml)]
pub struct WorkerId {
    /// Its node.
    pub node: NodeId,
    /// The node's incarnation.
    pub life: Generation,
    /// The core.
    pub core: CoreId,
    /// The core's incarnation.
    pub generation: Generation,
}

/// What sort of task it is.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[record(crate = nile_bosml)]
pub enum Kind {
    /// Reads a few records of a split, from which the bounds of partitions are cut.
    Sample,
    /// Reads a split and leaves a piece of output for every partition.
    Map,
    /// Takes its partition's piece of every map task and writes a part of the job's output.
    Reduce,
}

/// A task of a job.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[record(crate = nile_bosml)]
pub struct TaskId {
    /// What sort of task.
    pub kind: Kind,
    /// The split, or, of a reduce task, the partition.
    pub index: u32,
}

/// One try to do a task. Never given twice: a master counts the attempts of a task, and no two
/// masters of a job have one epoch.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[record(crate = nile_bosml)]
pub struct AttemptId {
    /// The master that had it run.
    pub epoch: Epoch,
    /// The task.
    pub task: TaskId,
    /// Which of this master's attempts of the task, from 1.
    pub number: u32,
}

/// What one map attempt has for one partition.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[record(crate = nile_bosml)]
pub struct PieceId {
    /// The map attempt.
    pub output: AttemptId,
    /// The partition.
    pub partition: u32,
}

impl Epoch {
    /// Before any master.
    pub const NONE: Epoch = Epoch(0);

    /// That of a job's first master, which runs on the first keeper.
    pub const FIRST: Epoch = Epoch(1 << Epoch::RANK_BITS);

    /// Bits of the keeper's rank.
    const RANK_BITS: u32 = 2;

    /// The first epoch after this one that is of the keeper of `rank`, from 0.
    #[must_use]
    pub fn after(self, rank: usize) -> Epoch {
        let round = (self.0 >> Self::RANK_BITS).saturating_add(1);
        Epoch(round << Self::RANK_BITS | (rank % MOST_KEEPERS) as u64)
    }

    /// The rank of the keeper that runs this master.
    pub fn rank(self) -> usize {
        self.0 as usize % MOST_KEEPERS
    }
}

impl AttemptId {
    /// The number that tells the part of this reduce attempt from those of others of its
    /// partition, in the version of its dataset. None after thousands of masters or of attempts.
    pub fn version(self) -> Option<u32> {
        let epoch = u16::try_from(self.epoch.0).ok()?;
        let number = u16::try_from(self.number).ok()?;
        Some(u32::from(epoch) << 16 | u32::from(number))
    }
}

impl TaskId {
    /// The task's place in a table of the tasks of its sort.
    pub fn place(self) -> usize {
        self.index as usize
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "j{}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}.{}{}", self.node, self.life, self.core, self.generation)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Sample => "sample",
            Kind::Map => "map",
            Kind::Reduce => "reduce",
        };
        write!(f, "{kind} {}", self.index)
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} attempt {}.{}", self.task, self.epoch, self.number)
    }
}

impl fmt::Display for PieceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "piece {} of {}", self.partition, self.output)
    }
}
