//! A store read from its disk: both halves of the log are read; the later one whose checkpoint is
//! whole is what the store was.
//!
//! A log ends where a record is missing, torn or of an earlier log: power failed there. But each
//! record says how many before it were durable. If one that is found later says that the missing
//! one was, the disk has lost what it had kept, and the store is damaged, not merely interrupted.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::NodeId;
use nile_ipioe::checksum::Checksum;

use crate::extent::{Extent, Range, UNIT};
use crate::record::{Found, Kind, MOST_RECORD, Record};
use crate::store::Store;
use crate::table::Table;

/// One a nanosecond for centuries.
const MOST_GENERATIONS: u64 = u64::MAX / 2;

/// Why a store cannot be mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MountError {
    /// Neither half of the log has a whole checkpoint: the disk has lost it.
    NoStore,
    /// The disk has lost or changed a record that it had said was durable.
    Lost {
        /// Which record of its half.
        index: u32,
    },
    /// Records contradict each other.
    Contradiction,
    /// The log has been written anew more often than its generations can be counted. No disk lives
    /// that long: the extent holds what was made up.
    UsedUp,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MountError::NoStore => write!(f, "neither half of the store's log is whole"),
            MountError::Lost { index } => {
                write!(f, "the disk has lost record {index} of the store's log, which was durable")
            }
            MountError::UsedUp => {
                write!(f, "the store's log has used up its generations")
            }
            MountError::Contradiction => {
                write!(f, "the records of the store's log contradict each other")
            }
        }
    }
}

impl core::error::Error for MountError {}

/// One half of the log, as far as it was read.
#[derive(Debug, Default)]
struct Half {
    table: Table,
    generation: u64,
    /// Records that hold, one after the other from the first.
    records: u32,
    /// The checksum of the last of them.
    previous: u32,
    is_sealed: bool,
    /// The chain has ended.
    is_over: bool,
    is_contradictory: bool,
    /// The highest generation in the chain, and how many records of that it says were durable.
    says: (u64, u32),
    /// The highest generation among the records behind the chain, and how many records of that
    /// were durable.
    behind: (u64, u32),
}

impl Half {
    fn see(&mut self, record: &Record<'_>) {
        let header = &record.header;
        let is_next = header.index == self.records
            && header.previous == self.previous
            && (self.records == 0 || header.generation == self.generation);
        self.is_over |= !is_next;
        if self.is_over {
            self.behind = self.behind.max((header.generation, header.durable));
            return;
        }
        self.says = self.says.max((header.generation, header.durable));
        self.generation = header.generation;
        self.records += 1;
        self.previous = record.checksum;
        self.is_sealed |= record.kind == Kind::Sealed;
        self.is_contradictory |= self.is_contradictory || self.table.replay(record).is_err();
    }
}

/// Reads a store, and then gives it.
#[derive(Debug)]
pub struct Recovery {
    node: NodeId,
    extent: Extent,
    checksum: Checksum,
    done: Vec<Half>,
    half: Half,
    /// How much of the half was read.
    read: u64,
}

impl Recovery {
    /// Of the store in `extent`, which is this node's; computes CRC-32C with `checksum`.
    pub fn new(node: NodeId, extent: Extent, checksum: Checksum) -> Recovery {
        Recovery { node, extent, checksum, done: Vec::new(), half: Half::default(), read: 0 }
    }

    /// What to read of the disk next, and to give to [`take`](Self::take); `None` when all is
    /// read.
    pub fn next(&self) -> Option<Range> {
        let half = self.done.len() as u64;
        let left = self.extent.log_bytes - self.read;
        let at = self.extent.start + half * self.extent.log_bytes + self.read;
        (half < 2).then(|| Range { at, bytes: left.min(MOST_RECORD as u64) })
    }

    /// What was read, all of it.
    pub fn take(&mut self, bytes: &[u8]) {
        let Some(asked) = self.next() else { return };
        let is_last = self.read + asked.bytes == self.extent.log_bytes;
        let bytes = &bytes[..bytes.len().min(asked.bytes as usize)];
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match Record::find(rest, self.extent.identity, self.checksum) {
                Found::Record(record) => {
                    at += record.log_bytes();
                    self.half.see(&record);
                }
                // It is read again from where it begins.
                Found::Longer if at > 0 && !is_last => break,
                Found::Longer | Found::Nothing => {
                    at += UNIT as usize;
                    self.half.is_over = true;
                }
            }
        }
        // If fewer bytes came than were asked for, the rest counts as nothing.
        self.read += if bytes.len() < asked.bytes as usize { asked.bytes } else { at as u64 };
        if self.read >= self.extent.log_bytes {
            self.read = 0;
            self.done.push(core::mem::take(&mut self.half));
        }
    }

    /// The store. Its first step is a checkpoint into the other half, so that nothing is ever
    /// written behind records of which it does not know.
    pub fn finish(mut self) -> Result<Store, MountError> {
        let later = |(at, half): (usize, &Half)| (half.is_sealed).then_some((half.generation, at));
        let (_, chosen) =
            self.done.iter().enumerate().filter_map(later).max().ok_or(MountError::NoStore)?;
        // Generations go to the halves in turns.
        let generation = self.done[chosen].generation;
        if generation % 2 != (chosen as u64 + 1) % 2 {
            return Err(MountError::Contradiction);
        }
        if generation >= MOST_GENERATIONS {
            return Err(MountError::UsedUp);
        }
        let [own, other] = [chosen, 1 - chosen].map(|at| &self.done[at]);
        if own.behind > (generation, own.records) {
            return Err(MountError::Lost { index: own.records });
        }
        // The next checkpoint may have been begun there, but nothing of it was durable.
        if other.behind.max(other.says) > (generation + 1, 0) {
            return Err(MountError::Lost { index: 0 });
        }
        let mut half = self.done.swap_remove(chosen);
        if half.is_contradictory {
            return Err(MountError::Contradiction);
        }
        half.table.close();
        if half.table.sizes().log_bytes() + UNIT > self.extent.log_bytes {
            return Err(MountError::Contradiction);
        }
        let free = half.table.free(self.extent.data_units()).ok_or(MountError::Contradiction)?;
        Ok(Store::recovered(self.node, self.extent, self.checksum, generation, half.table, free))
    }
}
