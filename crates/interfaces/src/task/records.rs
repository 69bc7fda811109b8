//! What calls of the task service carry.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::{Blob, Buffer};
use nile_stl::Record;

/// What the package is to do next. Which fields count depends on `kind`; the others are empty.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// What.
    pub kind: CommandKind,
    /// Names the attempt or the cut in all calls about it.
    pub ticket: u64,
    /// What the job's code is given. Of every kind but `Nothing`, `Stop` and `End`.
    pub arguments: Vec<String>,
    /// Of `Sample` and `Map` the split, of `Reduce` the partition.
    pub index: u32,
    /// How many map tasks the job has.
    pub maps: u32,
    /// How many reduce tasks, and so partitions, it has.
    pub reducers: u32,
    /// Of `Map` and `Reduce`: how many slices each partition has.
    pub slices: u32,
    /// How many datasets it reads.
    pub inputs: u32,
    /// Of `Sample` and `Map`: which of these datasets.
    pub dataset: u32,
    /// Of `Sample` and `Map`: the split's first block in that dataset.
    pub first_block: u32,
    /// Of `Sample` and `Map`: how many blocks the split has. Of `Cut`: how many samples there are.
    pub blocks: u32,
    /// Of `Map` and `Reduce`: the bounds of partitions, if the job's code has cut any.
    pub bounds: Blob,
    /// Of `Map`: outputs are not kept in memory but written as sorted runs, by `spill`.
    pub spill: bool,
    /// Of `Map`: how many buffers outputs may have that are kept in memory.
    pub keeps: u32,
    /// Of `Map`: how many outputs may be kept. On other nodes each has buffers of its own, however
    /// small it is.
    pub outputs: u32,
    /// Of `Map` and `Cut`: pieces go to other nodes, too.
    pub shared: bool,
    /// Bytes of the pool that the job may use on this node, if not all.
    pub memory: Option<u64>,
}

/// The kinds of commands.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandKind {
    /// There is nothing to do now; only if the package did not want to wait.
    Nothing,
    /// Look at a few records of a split: `block`, then `sampled`, then `done`.
    Sample,
    /// Read a split and leave a piece for every partition: `block`, `beyond`, `keep` or `spill`,
    /// then `done`.
    Map,
    /// Take a partition's pieces and write a part: `source`, `run`, `write`, then `done`.
    Reduce,
    /// Cut bounds from samples: `sample`, then `cut`.
    Cut,
    /// The job is over: return.
    End,
    /// The attempt or the cut of this ticket is off: drop what it has made.
    Stop,
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
    /// What other nodes get of it.
    pub far: Far,
}

/// What other nodes get of an output that is kept in memory, if they ask for a partition of it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Far {
    /// The partition's ranges.
    #[default]
    Ranges,
    /// The partition's ranges, which may come as one output with those of others that are joined
    /// and have the same note: for what means the same however it is divided into outputs. A
    /// sorted stream does not.
    Joined,
    /// All of its buffers: for what is read in other places than the ranges, too.
    Whole,
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
/// on another node as [`Far::Joined`] may come as one.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// All of this slice have been given.
    All,
    /// An output of this node, in memory where its maker left it: its buffers are views.
    Shared(Piled),
    /// An output of another node: its buffers, or its ranges, each whole in one buffer. They are
    /// the package's, to be claimed.
    Own(Piled),
    /// A sorted run that was spilled, in blocks.
    Run {
        /// The map task that it comes of.
        map: u32,
        /// Its number in calls of `run`.
        run: u64,
        /// Its bytes in all.
        bytes: u64,
    },
}

/// What a partition has of an output.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Piled {
    /// The map task that it comes of.
    pub map: u32,
    /// The buffers that it is in.
    pub buffers: Vec<Buffer>,
    /// What this partition has of them.
    pub pieces: Vec<Range>,
    /// The output's note.
    pub note: Blob,
}

/// What a failure is the fault of.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The job's code, or what it was asked to do.
    Code,
    /// The input, or what a map task has left, could not be read.
    Input,
    /// The space on a disk, or the memory.
    Space,
}

/// The most bytes of an output's note.
pub const MOST_NOTE: usize = 16 << 10;

/// The most bytes that `beyond` gives.
pub const MOST_BEYOND: u32 = 48 << 10;
