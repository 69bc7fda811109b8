//! What calls of the name service carry.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::Record;

/// What a name means.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct NameEntry {
    /// How often the name has changed; it only rises. 0: nobody has ever heard of it.
    pub stamp: u64,
    /// What is under it.
    pub kind: NameKind,
    /// The epoch of the dataset, or the number of the job.
    pub epoch: u64,
    /// The attempt of the dataset.
    pub attempt: u32,
    /// How many parts a job's output has.
    pub parts: u32,
    /// Bytes of all blocks.
    pub bytes: u64,
    /// How many blocks there are.
    pub blocks: u32,
    /// On how many nodes each of them is.
    pub copies: u32,
    /// The nodes that were given the dataset; of an output none are named.
    pub nodes: Vec<u32>,
}

/// What is under a name.
#[derive(Record, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NameKind {
    /// There is nothing of this name.
    #[default]
    Absent,
    /// A dataset.
    Dataset,
    /// A job makes its output under this name.
    Making,
    /// The output of a job, in parts.
    Output,
}

/// What a name has to mean for a change of it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameExpectation {
    /// What is expected.
    pub kind: Expected,
    /// The stamp, or the number of the job.
    pub number: u64,
}

/// The kinds of expectations.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Nothing.
    Absent,
    /// What it has meant since it had a stamp.
    Stamp,
    /// Anything.
    Any,
    /// That a job makes its output.
    Making,
}

impl NameExpectation {
    /// That the name has a stamp.
    pub fn stamp(stamp: u64) -> NameExpectation {
        NameExpectation { kind: Expected::Stamp, number: stamp }
    }
}

/// How an operation on a name ended.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct NameAnswer {
    /// How it ended.
    pub outcome: NameOutcome,
    /// What the name means now; nothing if it is not known.
    pub entry: NameEntry,
    /// The keepers that did not answer, if too few did.
    pub missing: Vec<u32>,
}

/// The ends of operations on names.
#[derive(Record, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NameOutcome {
    /// It was read, or changed.
    #[default]
    Done,
    /// It was not changed: the name is not what was expected.
    Refused,
    /// It was neither read nor changed: most of the keepers did not answer.
    NoMajority,
    /// Most of the keepers did not answer in the midst: it may have been changed, or be later.
    Unknown,
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
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct NamePage {
    /// The names.
    pub names: Vec<NamedEntry>,
    /// The last name that was looked at: what comes next is behind it.
    pub last: String,
    /// Whether there are more behind that.
    pub more: bool,
    /// The keepers that did not answer, if too few did: then there are no names.
    pub missing: Vec<u32>,
}
