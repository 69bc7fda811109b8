//! What a name stands for, and which change made it so.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_stl_macros::Record;
use nile_store::Version;

/// The most nodes that an entry names.
pub const MOST_NODES: usize = 16;

/// What a name stands for at one time.
#[derive(Record, Clone, PartialEq, Eq, Hash, Debug)]
#[record(crate = nile_bosml)]
pub struct Entry {
    /// How many changes of the name led here. Zero: there was none.
    pub stamp: u64,
    /// The change that made this: a number that its maker has drawn, and that is not zero.
    pub change: u64,
    /// What the name stands for.
    pub what: What,
}

/// What a name stands for.
#[derive(Record, Clone, PartialEq, Eq, Hash, Debug)]
#[record(crate = nile_bosml)]
pub enum What {
    /// Nothing.
    Absent,
    /// A dataset.
    Dataset {
        /// Which of this name.
        version: Version,
        /// What it consists of.
        facts: Facts,
    },
    /// The output of a job, which is being made.
    Making {
        /// The job's number.
        job: u64,
    },
    /// The output of a job.
    Output {
        /// The job's number.
        job: u64,
        /// How many parts it has.
        parts: u32,
        /// What it consists of.
        facts: Facts,
    },
}

/// What is told of a dataset without asking who holds it.
#[derive(Record, Clone, PartialEq, Eq, Hash, Debug)]
#[record(crate = nile_bosml)]
pub struct Facts {
    /// Its length in bytes.
    pub bytes: u64,
    /// How many blocks it has.
    pub blocks: u32,
    /// On how many nodes each block is.
    pub copies: u8,
    /// Nodes that hold it: at most [`MOST_NODES`].
    #[range(0..=MOST_NODES)]
    pub nodes: Vec<NodeId>,
}

/// What must be true of a name for a change to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// Nothing.
    Any,
    /// It stands for nothing.
    Absent,
    /// Its last change has this stamp.
    Stamp(u64),
    /// It is the output that this job is making.
    Making(u64),
}

impl Entry {
    /// That of a name that nobody has ever changed.
    pub const NEVER: Entry = Entry { stamp: 0, change: 0, what: What::Absent };
}

impl Expect {
    /// Whether it is true.
    pub fn holds(self, entry: &Entry) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => entry.what == What::Absent,
            Expect::Stamp(stamp) => entry.stamp == stamp,
            Expect::Making(job) => entry.what == What::Making { job },
        }
    }
}
