//! What a job is asked to do, and what it is checked for before it starts.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_abi::NodeId;

use crate::id::JobId;

/// The most reduce tasks of a job: their bounds have to fit a message.
pub const MOST_REDUCERS: u32 = 2048;

/// The most bytes of a job's bounds, and of all its names and arguments.
pub const MOST_BOUNDS: usize = 32 << 10;

/// The most bytes of what one sample task finds.
pub const MOST_SAMPLE: usize = 16 << 10;

/// The most splits of a job.
pub const MOST_SPLITS: usize = 1 << 20;

/// A job, as it was submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its name among all jobs of the cluster.
    pub id: JobId,
    /// What it is called.
    pub name: String,
    /// The package with its code.
    pub package: String,
    /// What its code is given.
    pub arguments: Vec<String>,
    /// The datasets that it reads.
    pub input: Vec<String>,
    /// The dataset that it makes.
    pub output: String,
    /// How many reduce tasks, and so partitions; at least 1.
    pub reducers: u32,
    /// Of how many splits samples are taken to cut the partitions; 0 for jobs that have no bounds,
    /// or have them fixed.
    pub samples: u32,
    /// Bytes of memory of each worker.
    pub memory: u64,
    /// Whether what it writes are the records that it reads, in another order, so that their
    /// number and their checksum have to be the same.
    pub conserves: bool,
}

/// A part of the input that one map task reads: a block of a dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// Which of the job's input datasets, from 0.
    pub dataset: u16,
    /// Which block of it, from 0.
    pub block: u32,
    /// Its length in bytes.
    pub bytes: u64,
    /// The nodes that have copies.
    pub nodes: Vec<NodeId>,
}

/// Why a job is not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It has no reduce task.
    NoReducers,
    /// It has more reduce tasks than there are workers, or than a job can have.
    TooManyReducers {
        /// How many.
        asked: u32,
        /// How many there can be.
        most: u32,
    },
    /// Its names and arguments do not fit a message.
    TooLong {
        /// Bytes of them.
        bytes: usize,
    },
    /// Its input has too many blocks.
    TooManySplits {
        /// How many.
        asked: usize,
    },
}

impl Job {
    /// Whether the job can run over `splits` blocks by `workers` worker cores.
    pub fn check(&self, splits: usize, workers: u32) -> Result<(), Refused> {
        let most = workers.min(MOST_REDUCERS);
        if self.reducers == 0 {
            return Err(Refused::NoReducers);
        }
        if self.reducers > most {
            return Err(Refused::TooManyReducers { asked: self.reducers, most });
        }
        if splits > MOST_SPLITS {
            return Err(Refused::TooManySplits { asked: splits });
        }
        match self.text_bytes() {
            bytes if bytes > MOST_BOUNDS => Err(Refused::TooLong { bytes }),
            _ => Ok(()),
        }
    }

    /// Bytes of its names and arguments in a message.
    pub(crate) fn text_bytes(&self) -> usize {
        let names = [&self.name, &self.package, &self.output];
        let texts = names.into_iter().chain(&self.arguments).chain(&self.input);
        texts.map(|text| text.len() + 2).sum()
    }

    /// Whether partitions are cut from samples.
    pub fn is_sampled(&self) -> bool {
        self.samples > 0 && self.reducers > 1
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NoReducers => write!(f, "a job without reducers writes nothing: ask for 1"),
            Refused::TooManyReducers { asked, most } => {
                write!(f, "{asked} reducers, but there are worker cores for {most}")
            }
            Refused::TooLong { bytes } => {
                write!(f, "{bytes} bytes of names and arguments, but {MOST_BOUNDS} fit a message")
            }
            Refused::TooManySplits { asked } => {
                write!(f, "{asked} blocks of input, but a job has at most {MOST_SPLITS}")
            }
        }
    }
}

impl core::error::Error for Refused {}
