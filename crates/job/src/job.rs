//! What a job is asked to do, and what it is checked for before it starts.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_abi::NodeId;
use nile_stl_macros::Record;

use crate::id::JobId;
use crate::share::Share;

/// The most reduce tasks of a job: their bounds, and the list of its parts, have to fit a message.
pub const MOST_REDUCERS: u32 = 1024;

/// The most bytes of a job's bounds, and of all its names and arguments.
pub const MOST_BOUNDS: usize = 32 << 10;

/// The most slices of a partition.
pub const MOST_SLICES: u32 = 64;

/// The most bytes of what one sample task finds.
pub const MOST_SAMPLE: usize = 16 << 10;

/// The most nodes that a job is kept to.
pub const MOST_NODES: usize = 256;

/// The most splits of a job.
pub const MOST_SPLITS: usize = 1 << 20;

/// A job, as it was submitted.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
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
    /// On how many nodes the output is to be, at least 1.
    pub copies: u32,
    /// The nodes that keep the job's record, by their ranks.
    pub keepers: Vec<NodeId>,
    /// Of how many splits samples are taken to cut the partitions; 0 for jobs that have no bounds,
    /// or have them fixed.
    pub samples: u32,
    /// Bytes of memory that the job may use on each node, if not all.
    pub memory: Option<u64>,
    /// Bytes of its input.
    pub bytes: u64,
    /// Blocks of its input.
    pub blocks: u32,
    /// Whether what it writes are the records that it reads, in another order, so that their
    /// number and their checksum have to be the same.
    pub conserves: bool,
    /// For how many seconds an attempt's code may neither take nor give anything before it has
    /// failed, if there is such a time.
    pub task_timeout: Option<u32>,
    /// Its claim to workers that other jobs want, too.
    pub share: Share,
    /// The nodes whose workers may work on it; none: all of them.
    pub on: Vec<NodeId>,
}

/// A part of the input that one map task reads: some blocks of a dataset, one after the other.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Split {
    /// Which of the job's input datasets, from 0.
    pub dataset: u16,
    /// Its first block, from 0.
    pub block: u32,
    /// How many blocks.
    pub blocks: u32,
    /// Their length in bytes.
    pub bytes: u64,
    /// The nodes that have copies of all of them.
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
    /// Its input has too many splits.
    TooManySplits {
        /// How many.
        asked: usize,
    },
    /// It is kept to more nodes than a job can be.
    TooManyNodes {
        /// How many.
        asked: usize,
    },
}

impl Job {
    /// Whether the job can run over `splits` splits by `workers` worker cores.
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
        if self.on.len() > MOST_NODES {
            return Err(Refused::TooManyNodes { asked: self.on.len() });
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

    /// What the manifests of the output's parts name as the generation of their owner, as they have
    /// no other: two of the record's keepers, a majority together; the one keeper of a job that has
    /// one; 0 if the names of the nodes are too long.
    pub fn keepers_in_manifest(&self) -> u32 {
        let mut names = self.keepers.iter().map(|node| u16::try_from(node.0).unwrap_or(0));
        match (names.next(), names.next()) {
            (Some(one), None) => u32::from(one) << 16,
            (Some(one @ 1..), Some(other @ 1..)) => u32::from(one) << 16 | u32::from(other),
            _ => 0,
        }
    }

    /// Whether bounds are cut from samples. A single partition may have some, too: they tell the
    /// job's code what the input is like.
    pub fn is_sampled(&self) -> bool {
        self.samples > 0
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
                write!(f, "{asked} splits of input, but a job has at most {MOST_SPLITS}")
            }
            Refused::TooManyNodes { asked } => {
                write!(f, "it is kept to {asked} nodes, and a job to at most {MOST_NODES}")
            }
        }
    }
}

impl core::error::Error for Refused {}
