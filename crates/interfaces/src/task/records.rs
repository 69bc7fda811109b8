//! What calls of the task service carry.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::{Blob, Buffer};
use nile_stl::Record;

/// What the package is to do next. Which fields count depends on `kind`; the others are empty.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// One of [`kind`].
    pub kind: u32,
    /// Names the attempt or the cut in all calls about it.
    pub ticket: u64,
    /// What the job's code is given. Of every kind but `NOTHING`, `STOP` and `END`.
    pub arguments: Vec<String>,
    /// Of `SAMPLE` and `MAP` the split, of `REDUCE` the partition.
    pub index: u32,
    /// How many map tasks the job has.
    pub maps: u32,
    /// How many reduce tasks, and so partitions, it has.
    pub reducers: u32,
    /// Of `MAP` and `REDUCE`: how many slices each partition has.
    pub slices: u32,
    /// How many datasets it reads.
    pub inputs: u32,
    /// Of `SAMPLE` and `MAP`: which of these datasets.
    pub dataset: u32,
    /// Of `SAMPLE` and `MAP`: the split's first block in that dataset.
    pub first_block: u32,
    /// Of `SAMPLE` and `MAP`: how many blocks the split has. Of `CUT`: how many samples there are.
    pub blocks: u32,
    /// Of `MAP` and `REDUCE`: the bounds of partitions, if the job's code has cut any.
    pub bounds: Blob,
    /// Of `MAP`: outputs are not kept in memory but written as sorted runs, by `spill`.
    pub spill: bool,
    /// Of `MAP`: how many buffers outputs may have that are kept in memory.
    pub keeps: u32,
    /// Of `MAP` and `CUT`: pieces go to other nodes, too.
    pub shared: bool,
    /// Bytes of the pool that the job may use on this node.
    pub memory: u64,
}

/// The kinds of commands.
pub mod kind {
    /// There is nothing to do now; only if the package did not want to wait.
    pub const NOTHING: u32 = 0;
    /// Look at a few records of a split: `block`, then `sampled`, then `done`.
    pub const SAMPLE: u32 = 1;
    /// Read a split and leave a piece for every partition: `block`, `beyond`, `keep` or `spill`,
    /// then `done`.
    pub const MAP: u32 = 2;
    /// Take a partition's pieces and write a part: `source`, `run`, `write`, then `done`.
    pub const REDUCE: u32 = 3;
    /// Cut bounds from samples: `sample`, then `cut`.
    pub const CUT: u32 = 4;
    /// The job is over: return.
    pub const END: u32 = 5;
    /// The attempt or the cut of this ticket is off: drop what it has made.
    pub const STOP: u32 = 6;
}

/// A block of a split, or of a sorted run.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its buffer, which is the package's: to be claimed. It has room for more bytes than the
    /// block, and is claimed at its whole length.
    pub buffer: Buffer,
    /// Bytes of the block.
    pub bytes: u32,
    /// Where in its dataset it begins; of a run, where in the run.
    pub at: u64,
    /// Whether there is another after it.
    pub more: bool,
}

/// A few bytes.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The bytes.
    pub bytes: Blob,
}

/// Bytes of a partition, or of a slice of one, in one of an output's buffers.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The partition or, counted through all partitions, the slice.
    pub partition: u32,
    /// Which of the output's buffers, from 0.
    pub buffer: u32,
    /// Where in it they begin.
    pub start: u32,
    /// How many.
    pub bytes: u32,
}

/// What a map attempt has made, or a part of it.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// The buffers that it is in, which are given up.
    pub buffers: Vec<Buffer>,
    /// What each partition has of them.
    pub pieces: Vec<Range>,
    /// What the job's code wants to know of it where it is read; at most 16 KiB.
    pub note: Blob,
    /// What other nodes get of it: one of [`far`].
    pub far: u32,
}

/// What other nodes get of an output.
pub mod far {
    /// Its ranges.
    pub const RANGES: u32 = 0;
    /// Its ranges, which may come as one output with those of the next one, if that is of this
    /// kind, too, and has the same note.
    pub const JOINED: u32 = 1;
    /// Its buffers, whole.
    pub const WHOLE: u32 = 2;
}

impl Output {
    /// About how many bytes of a message tell of it.
    pub fn described(&self) -> usize {
        const EACH: usize = 16;
        self.note.0.len() + EACH * (self.buffers.len() + self.pieces.len())
    }
}

/// What a reduce attempt takes next. One map attempt may give several, in the order in which it has
/// kept them, but with those of others between them; an empty piece gives none, and what was kept
/// on another node as [`far::JOINED`] may come as one.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// One of [`source`].
    pub kind: u32,
    /// The map task that it comes of.
    pub map: u32,
    /// Of `SHARED` the output's buffers, which are views. Of `OWN` others, into which these or its
    /// ranges were copied: they are the package's, to be claimed.
    pub buffers: Vec<Buffer>,
    /// Of `SHARED` and `OWN`: what this partition has of them.
    pub pieces: Vec<Range>,
    /// Of `SHARED` and `OWN`: the output's note.
    pub note: Blob,
    /// Of `RUN`: its number in calls of `run`.
    pub run: u64,
    /// Its bytes in all.
    pub bytes: u64,
}

/// The kinds of sources.
pub mod source {
    /// All of this slice have been given.
    pub const ALL: u32 = 0;
    /// An output of this node, in memory where its maker left it.
    pub const SHARED: u32 = 1;
    /// An output of another node: its buffers, or its ranges, each whole in one buffer.
    pub const OWN: u32 = 2;
    /// A sorted run that was spilled, in blocks.
    pub const RUN: u32 = 3;
}

/// The most bytes of an output's note.
pub const MOST_NOTE: usize = 16 << 10;

/// The most bytes that `beyond` gives.
pub const MOST_BEYOND: u32 = 48 << 10;
