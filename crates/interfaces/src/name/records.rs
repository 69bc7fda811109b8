//! What calls of the name service carry.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::Record;

/// What a name means.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct NameEntry {
    /// How often the name has changed; it only rises. 0: nobody has ever heard of it.
    pub stamp: u64,
    /// One of [`kind`].
    pub kind: u32,
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

/// The kinds of [`NameEntry::kind`].
pub mod kind {
    /// There is nothing of this name.
    pub const ABSENT: u32 = 0;
    /// A dataset.
    pub const DATASET: u32 = 1;
    /// A job makes its output under this name.
    pub const MAKING: u32 = 2;
    /// The output of a job, in parts.
    pub const OUTPUT: u32 = 3;
}

/// What a name has to mean for a change of it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameExpectation {
    /// One of [`expected`].
    pub kind: u32,
    /// The stamp, or the number of the job.
    pub number: u64,
}

/// The kinds of [`NameExpectation::kind`].
pub mod expected {
    /// Nothing.
    pub const ABSENT: u32 = 0;
    /// What it has meant since it had a stamp.
    pub const STAMP: u32 = 1;
    /// Anything.
    pub const ANY: u32 = 2;
    /// That a job makes its output.
    pub const MAKING: u32 = 3;
}

impl NameExpectation {
    /// That the name has a stamp.
    pub fn stamp(stamp: u64) -> NameExpectation {
        NameExpectation { kind: expected::STAMP, number: stamp }
    }
}

/// How an operation on a name ended.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct NameAnswer {
    /// One of [`outcome`].
    pub outcome: u32,
    /// What the name means now; nothing if it is not known.
    pub entry: NameEntry,
    /// The keepers that did not answer, if too few did.
    pub missing: Vec<u32>,
}

/// The outcomes of [`NameAnswer::outcome`].
pub mod outcome {
    /// It was read, or changed.
    pub const DONE: u32 = 0;
    /// It was not changed: the name is not what was expected.
    pub const REFUSED: u32 = 1;
    /// It was neither read nor changed: most of the keepers did not answer.
    pub const NO_MAJORITY: u32 = 2;
    /// Most of the keepers did not answer in the midst: it may have been changed, or be later.
    pub const UNKNOWN: u32 = 3;
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
