//! What calls of the name service carry.

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_stl::Record;

/// What a name means at one time.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct NameEntry {
    /// How often the name has changed; it only rises. 0: nobody has ever heard of it.
    pub stamp: u64,
    /// What is under it.
    pub meaning: Meaning,
}

/// What is under a name.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// There is nothing of this name.
    #[default]
    Absent,
    /// A dataset.
    Dataset {
        /// The epoch of its version.
        epoch: u64,
        /// The attempt of its version.
        attempt: u32,
        /// What it consists of.
        facts: Facts,
    },
    /// A job makes its output under this name.
    Making {
        /// The job's number.
        job: u64,
    },
    /// The output of a job, in parts.
    Output {
        /// The job's number.
        job: u64,
        /// How many parts it has.
        parts: u32,
        /// What they consist of together.
        facts: Facts,
    },
}

/// What is told of a dataset without asking who holds it.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Bytes of all blocks.
    pub bytes: u64,
    /// How many blocks there are.
    pub blocks: u32,
    /// On how many nodes each of them is.
    pub copies: u8,
    /// The nodes that were given the dataset; of an output none are named.
    pub nodes: Vec<NodeId>,
}

impl Meaning {
    /// Of a dataset or an output: what there is to read.
    pub fn facts(&self) -> Option<&Facts> {
        match self {
            Meaning::Dataset { facts, .. } | Meaning::Output { facts, .. } => Some(facts),
            Meaning::Absent | Meaning::Making { .. } => None,
        }
    }
}

/// What a name has to mean for a change of it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameExpectation {
    /// Nothing.
    Absent,
    /// What it has meant since it had this stamp.
    Stamp(u64),
    /// Anything.
    Any,
    /// That the job of this number makes its output.
    Making(u64),
}

/// How an operation on a name ended.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub enum NameAnswer {
    /// It was read, or changed: it means this.
    Done(NameEntry),
    /// It was not changed: the name is not what was expected, but this.
    Refused(NameEntry),
    /// It was neither read nor changed: these keepers did not answer, and are most of them.
    NoMajority(Vec<NodeId>),
    /// Most of the keepers did not answer in the midst: it may have been changed, or be later.
    /// These are missing.
    Unknown(Vec<NodeId>),
}

/// A name and what it means.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct NamedEntry {
    /// The name.
    pub name: String,
    /// What it means.
    pub entry: NameEntry,
}

/// Some names, in their order.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub enum NamePage {
    /// Those that mean something.
    Names {
        /// The names.
        names: Vec<NamedEntry>,
        /// The last name that was looked at, if there are more behind it.
        more_behind: Option<String>,
    },
    /// There are none to be had: these keepers did not answer, and are most of them.
    NoMajority(Vec<NodeId>),
}
