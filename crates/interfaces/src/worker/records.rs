//! What calls of the worker service carry.

use alloc::vec::Vec;

use nile_bosml::Blob;
use nile_stl::Record;

use crate::task::records::Output;

/// A worker core in its present incarnation, as jobs name it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its node.
    pub node: u32,
    /// The node's incarnation.
    pub life: u32,
    /// The core.
    pub core: u16,
    /// The core's incarnation.
    pub generation: u32,
}

/// A sorted run on a disk of the node that has it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEntry {
    /// The core whose store has it.
    pub store: u16,
    /// The draft that it is in.
    pub draft: u64,
    /// Its first block.
    pub first: u32,
    /// How many blocks.
    pub blocks: u32,
    /// Bytes in all.
    pub bytes: u64,
}

/// A piece, or some of it, as it comes to who has asked for it.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Outputs.
    pub outputs: Vec<Delivered>,
    /// Sorted runs.
    pub runs: Vec<RunEntry>,
    /// How many buffers were sent to the mailbox, in all.
    pub buffers: u32,
    /// Which of the calls about this piece it is, from 0. Who asks again while a piece comes is
    /// told of it again, and takes no call twice.
    pub call: u32,
    /// Whether there will be more.
    pub more: bool,
}

/// One partition's share of an output.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    /// Of an output of this node: its buffers are views. Of another node's, there are none here.
    pub output: Output,
    /// Of another node's: how many of the buffers that were sent to the mailbox are its, in their
    /// order, the first output's first. Its ranges are in these.
    pub own: u32,
}

/// A block of a draft.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct DraftBlock {
    /// The core whose store has it.
    pub store: u16,
    /// The draft.
    pub draft: u64,
    /// Which of its blocks.
    pub block: u32,
}

/// Bounds that were cut.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The bounds.
    pub bounds: Blob,
    /// How many slices partitions have.
    pub slices: u32,
}

/// What comes of asking for a piece.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Whoever has asked will be told, or has it.
    Nothing,
    /// It is on its way.
    Coming,
    /// It was on its way and got lost: what came of it is worth nothing.
    Lost,
    /// It is not here.
    Missing,
}
