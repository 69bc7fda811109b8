//! What attempts and jobs come to.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_bosml::Blob;
use nile_stl_macros::Record;

use crate::id::{AttemptId, Epoch, TaskId, WorkerId};
use crate::job::MOST_REDUCERS;

/// What an attempt has done. The sums of records and of checksums over tasks wrap.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Summary {
    /// Bytes that it read.
    pub read: u64,
    /// Bytes that it wrote.
    pub written: u64,
    /// Records of a map task's input, or of a reduce task's output.
    pub records: u64,
    /// The sum of the checksums of these records.
    pub checksum: u64,
    /// Bytes that it had to put on disk because they did not fit its memory.
    pub spilled: u64,
    /// What a sample task has found; only the job's own code reads it.
    pub sample: Blob,
}

/// Why an attempt came to nothing.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Failure {
    /// What was at fault.
    pub fault: Fault,
    /// What happened, for people.
    pub text: String,
}

/// What was at fault when an attempt failed.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Fault {
    /// The job's code: it panicked or gave an error. This is tried a few times.
    Code,
    /// No copy of the input could be read now, or the core whose store it wrote to has ended; it is
    /// tried again, until a block counts as lost.
    Input,
    /// The node's disk is full, or too few nodes have disks for the copies that are wanted; it is
    /// tried a few times, elsewhere if there is an elsewhere.
    Space,
}

/// How a job ends, once.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum End {
    /// The output has these parts, one for each partition, in their order.
    Published(#[range(0..=MOST_REDUCERS)] Vec<Part>),
    /// There is no output.
    Failed(JobError),
}

/// A part of a job's output: what one reduce attempt has written.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Part {
    /// The attempt.
    pub attempt: AttemptId,
    /// Who has run it.
    pub at: WorkerId,
    /// Bytes of the part.
    pub bytes: u64,
    /// Records of the part.
    pub records: u64,
    /// The sum of their checksums.
    pub checksum: u64,
}

/// Blocks of the input, one after the other, of which no living node has a copy.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Lost {
    /// Which of the job's input datasets, from 0.
    pub dataset: u16,
    /// The first block, from 0.
    pub block: u32,
    /// How many blocks.
    pub blocks: u32,
}

/// The most runs of lost blocks that an error names.
pub const MOST_LOST: usize = 64;

/// Why a job has no output.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum JobError {
    /// No living node has a copy of these blocks: the first ones, if they are very many.
    LostBlocks(#[range(0..=MOST_LOST)] Vec<Lost>),
    /// A task failed by itself again and again; this is the last time.
    Task {
        /// The task.
        task: TaskId,
        /// Why it failed.
        failure: Failure,
    },
    /// Records were lost or made: those read and those written have other numbers or checksums.
    Invalid {
        /// What was read.
        read: Sums,
        /// What was written.
        written: Sums,
    },
    /// There was no worker for too long.
    NoWorkers,
    /// It was cancelled.
    Cancelled,
}

/// What all records come to.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Sums {
    /// How many.
    pub records: u64,
    /// The sum of their checksums.
    pub checksum: u64,
}

/// What the job's record says to a master that wants to end it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The job has ended, in this way.
    Ended(End),
    /// The job has a later master.
    Superseded(Epoch),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::LostBlocks(lost) => self.write_lost(f, lost, &[]),
            JobError::Task { task, failure } => write!(f, "{task} failed: {}", failure.text),
            JobError::Invalid { read, written } => write!(
                f,
                "{} records with checksum {:x} were read, but {} with {:x} were written",
                read.records, read.checksum, written.records, written.checksum
            ),
            JobError::NoWorkers => write!(f, "there is no worker core: start a node that has one"),
            JobError::Cancelled => write!(f, "cancelled"),
        }
    }
}

impl core::error::Error for JobError {}

impl JobError {
    /// What happened, for people who know the datasets of the job's input by these names.
    pub fn text(&self, input: &[String]) -> String {
        struct Named<'a>(&'a JobError, &'a [String]);
        impl fmt::Display for Named<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    JobError::LostBlocks(lost) => self.0.write_lost(f, lost, self.1),
                    error => error.fmt(f),
                }
            }
        }
        alloc::format!("{}", Named(self, input))
    }

    fn write_lost(
        &self,
        f: &mut fmt::Formatter<'_>,
        lost: &[Lost],
        input: &[String],
    ) -> fmt::Result {
        write!(f, "no living node has a copy of ")?;
        for (place, Lost { dataset, block, blocks }) in lost.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            match blocks {
                0 | 1 => write!(f, "{comma}block {block} of ")?,
                _ => {
                    write!(f, "{comma}blocks {block} to {} of ", block.saturating_add(blocks - 1))?
                }
            }
            match input.get(usize::from(*dataset)) {
                Some(name) => write!(f, "{name}")?,
                None => write!(f, "dataset {dataset} of the input")?,
            }
        }
        write!(f, ": restart the nodes that had them, or put the input again")
    }
}
