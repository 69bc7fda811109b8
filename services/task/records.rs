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
    /// Names the attempt, the cut or the export in all calls about it.
    pub ticket: u64,
    /// What the job's code is given. Of every kind but `NOTHING`, `STOP` and `END`.
    pub arguments: Vec<String>,
    /// Of `SAMPLE` and `MAP` the split, of `REDUCE` and `EXPORT` the partition.
    pub index: u32,
    /// How many map tasks the job has.
    pub maps: u32,
    /// How many reduce tasks, and so partitions, it has.
    pub reducers: u32,
    /// How many datasets it reads.
    pub inputs: u32,
    /// Of `SAMPLE` and `MAP`: which of these datasets.
    pub dataset: u32,
    /// Of `SAMPLE` and `MAP`: the split's first block in that dataset.
    pub first_block: u32,
    /// Of `SAMPLE` and `MAP`: how many blocks the split has. Of `CUT`: how many samples there are.
    pub blocks: u32,
    /// Of `MAP`, `REDUCE` and `EXPORT`: the bounds of partitions, if the job's code has cut any.
    pub bounds: Blob,
    /// Of `MAP`: outputs are not kept in memory but written as sorted runs, by `spill`.
    pub spill: bool,
    /// Of `MAP`: pieces go to other nodes, too. Outputs of one partition each go there at once.
    pub shared: bool,
    /// Bytes of the pool that the job may use on this node.
    pub memory: u64,
    /// Of `EXPORT`: what is to be exported, with the ranges of the partition alone. Its buffers
    /// are views.
    pub output: Output,
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
    /// Make bytes of a piece for another node: `exported`, then `finished`.
    pub const EXPORT: u32 = 5;
    /// The job is over: return.
    pub const END: u32 = 6;
    /// The attempt or the cut of this ticket is off: drop what it has made.
    pub const STOP: u32 = 7;
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

/// Bytes of a partition in one of an output's buffers.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The partition.
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
    /// What the job's code wants to know of it where it is read in memory; at most 16 KiB.
    pub note: Blob,
    /// How other nodes get it: one of [`far`].
    pub far: u32,
}

/// What other nodes get of an output.
pub mod far {
    /// The bytes of the ranges, one after the other, each of them whole in one buffer.
    pub const RANGES: u32 = 0;
    /// What the job's code makes of it, on a command `EXPORT`.
    pub const EXPORTS: u32 = 1;
    /// The output as it is, with its ranges and its note. It is of one partition alone.
    pub const WHOLE: u32 = 2;
}

/// What a reduce attempt takes next. One map attempt may give several, which may come in any order
/// with those of others; an empty piece gives none.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// One of [`source`].
    pub kind: u32,
    /// The map task that it comes of.
    pub map: u32,
    /// Of `SHARED` the output's buffers, which are views. The others are the package's, to be
    /// claimed: of `WHOLE` the output's, of `OWN` the bytes, one buffer after the other.
    pub buffers: Vec<Buffer>,
    /// Of `SHARED` and `WHOLE`: what this partition has of them.
    pub pieces: Vec<Range>,
    /// Of `SHARED` and `WHOLE`: the output's note.
    pub note: Blob,
    /// Of `RUN`: its number in calls of `run`.
    pub run: u64,
    /// Its bytes in all.
    pub bytes: u64,
}

/// The kinds of sources.
pub mod source {
    /// All have been given.
    pub const ALL: u32 = 0;
    /// An output of this node, in memory where its maker left it.
    pub const SHARED: u32 = 1;
    /// Bytes that came from another node: what the output's ranges have, or its code exported.
    pub const OWN: u32 = 2;
    /// A sorted run that was spilled, in blocks.
    pub const RUN: u32 = 3;
    /// An output of another node, as its maker left it.
    pub const WHOLE: u32 = 4;
}

/// The most bytes of an output's note.
pub const MOST_NOTE: usize = 16 << 10;

/// The most bytes that `beyond` gives.
pub const MOST_BEYOND: u32 = 48 << 10;
