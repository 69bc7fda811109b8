//! What calls of the dataset service carry.

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};
use nile_bosml::Blob;
use nile_stl::Record;

/// Who decides whether a dataset is committed.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decider {
    /// The node that has the draft.
    Here,
    /// A node in one incarnation.
    Node {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        generation: Generation,
    },
    /// The record of a job. A mount leaves the dataset as it is.
    Job {
        /// Where the record is kept, as the job has it; 0 if this is not known.
        keepers: u32,
    },
    /// The keepers of its name. A mount leaves the dataset as it is.
    Name,
}

/// Where a block is sent.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The node, zero for the one that sends.
    pub node: u32,
    /// The mailbox on it.
    pub mailbox: u64,
    /// What the block is called there.
    pub label: u64,
}

/// A draft that was begun.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Its number on this core.
    pub draft: u64,
    /// Bytes of each of its blocks but the last.
    pub block_bytes: u32,
    /// The node that has it.
    pub node: u32,
}

/// A dataset of this node's store.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// The epoch of its job.
    pub epoch: u64,
    /// The attempt in that.
    pub attempt: u32,
    /// Whether it is committed; else only prepared.
    pub committed: bool,
    /// Bytes of all its blocks.
    pub bytes: u64,
    /// How many blocks it has.
    pub blocks: u32,
    /// How many of them are here.
    pub here: u32,
    /// How many nodes hold each block.
    pub copies: u8,
    /// Who decides whether it is committed.
    pub owner: Decider,
}

/// A block of a dataset.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct BlockEntry {
    /// Its length.
    pub bytes: u32,
    /// The hash of its bytes, as [`nile_store::Block::of`] takes it.
    pub checksum: u32,
    /// The nodes that hold it.
    pub nodes: Vec<u32>,
}

/// A part of a dataset's bytes.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The bytes; fewer than asked for where the block or the dataset ends.
    pub bytes: Blob,
}

/// Some of a dataset's blocks.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRange {
    /// The first of them.
    pub first: u32,
    /// How many; as many as there is room for at once if they are more.
    pub count: u32,
}

/// A place in a file that a program has handed to the node.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFile {
    /// The file's name.
    pub file: u64,
    /// Bytes from its start.
    pub at: u64,
}

/// Blocks that went to a file.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// How many.
    pub blocks: u32,
    /// Bytes of them together.
    pub bytes: u64,
}

/// A note of this node's store.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct NoteEntry {
    /// Its key.
    pub key: String,
    /// Its value, which is not empty.
    pub value: Blob,
}

/// How much space a store has, in bytes.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceEntry {
    /// For blocks, in all.
    pub total: u64,
    /// Not used by any dataset or draft.
    pub free: u64,
    /// The longest piece of that.
    pub longest: u64,
    /// Of the log, which lists the datasets: some 50 bytes for each beside its name, and 20 for
    /// each of its blocks.
    pub log: u64,
    /// Of that, what new datasets can take.
    pub log_free: u64,
    /// Bytes of the longest block that can be written here: those of a buffer of the node's pool.
    pub block_bytes: u32,
}

/// How a disk and its store are.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// What the machine calls the disk.
    pub disk: String,
    /// Its bytes.
    pub bytes: u64,
    /// What is wrong with it.
    pub fault: DiskFault,
    /// The same in words; empty if nothing is.
    pub why: String,
}

/// Why a disk has no store that can be used.
#[derive(Record, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DiskFault {
    /// It has one.
    #[default]
    None,
    /// Nothing was ever written to it.
    Blank,
    /// Its label is damaged, or it has something else.
    Label,
    /// Its label is of another version of the format.
    Version,
    /// It is shorter than it was.
    Cut,
    /// The store's log is damaged.
    Log,
    /// The device does not do what it is asked.
    Device,
    /// It is another node's.
    Foreign,
    /// It is encrypted, and not with the key that is there.
    Key,
}

/// Blocks of a dataset that were read again.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// How many blocks were looked at, whether they are here or elsewhere.
    pub looked: u32,
    /// The numbers of those that are here and are not what was written.
    pub damaged: Vec<u32>,
}
