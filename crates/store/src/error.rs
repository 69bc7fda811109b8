//! Why a store cannot do what it was asked.

use core::fmt;

use crate::manifest::Version;
use crate::note::LONGEST_NOTE;

/// Something was not done, and nothing of it was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// There is no such dataset here, or not any more.
    NotFound,
    /// There is no such draft, or not any more.
    NoDraft,
    /// A draft or a dataset of this name and version is there already.
    Exists,
    /// This or a later epoch of the name is committed: what an earlier master does comes too late.
    Fenced {
        /// What is committed.
        committed: Version,
    },
    /// No free range is long enough, or only the space is left that job records have.
    Full {
        /// Bytes that were asked for, in whole units.
        wanted: u64,
        /// Bytes that are free for it, in pieces that may be shorter.
        free: u64,
    },
    /// The log has no room for so many blocks more, or for a note: take larger blocks, or remove
    /// datasets.
    CatalogueFull {
        /// Bytes of log that the manifest or the note needs.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The length or the number of a block is not possible, or another one has it.
    BadBlock,
    /// The value of a note is too long.
    LongNote {
        /// Its bytes.
        bytes: usize,
    },
    /// There are none, too many, or one node has two.
    BadCopies,
    /// The manifest says of a block something else than the draft.
    Mismatch {
        /// The first such block.
        block: u32,
    },
    /// The disk failed. What the store was doing may have happened or not; mounting it again
    /// tells, and until then nothing more is written.
    Disk(DiskFailed),
}

/// The disk could not read, write or flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskFailed;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound => write!(f, "no such dataset"),
            Error::NoDraft => write!(f, "no such draft, or it was aborted"),
            Error::Exists => write!(f, "the name is taken"),
            Error::Fenced { committed } => {
                write!(f, "too late: {committed} of this name is committed")
            }
            Error::Full { wanted, free } => {
                write!(f, "disk full: {wanted} bytes wanted in one piece, {free} free in all")
            }
            Error::CatalogueFull { wanted, free } => write!(
                f,
                "the store's log is full: {wanted} bytes wanted, {free} free; remove datasets, or \
                 take larger blocks"
            ),
            Error::BadBlock => write!(f, "a block of this number or length is not possible"),
            Error::LongNote { bytes } => {
                write!(f, "a note of {bytes} bytes is too long: the most are {LONGEST_NOTE}")
            }
            Error::BadCopies => write!(f, "a block has 1 to 16 copies, each on another node"),
            Error::Mismatch { block } => {
                write!(f, "block {block} is not what the manifest says of it")
            }
            Error::Disk(failed) => failed.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl fmt::Display for DiskFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the disk failed, or is full; the store is opened again: try later")
    }
}

impl core::error::Error for DiskFailed {}
