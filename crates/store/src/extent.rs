//! Where a store is on its disk, and what it asks of that.

use alloc::vec::Vec;

use crate::error::Error;
use crate::store::Ticket;

/// Everything that a store reads, writes or reserves begins at a multiple of this many bytes: a
/// multiple of every usual sector, so that no write ever shares a sector with an earlier one.
pub const UNIT: u64 = 4096;

/// The most units of an extent: 16 TiB.
pub const MOST_UNITS: u64 = u32::MAX as u64;

/// Bytes as whole units.
pub(crate) fn whole_units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}

/// A part of a disk that is one store: the two halves of the log, then blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its first byte on the disk, a multiple of [`UNIT`].
    pub start: u64,
    /// Its length in bytes, a multiple of [`UNIT`].
    pub bytes: u64,
    /// The length of one half of the log in bytes, a multiple of [`UNIT`].
    pub log_bytes: u64,
    /// Tells its records apart from what stood there before: no other extent of this disk has it,
    /// nor had it.
    pub identity: u64,
}

/// The shortest half of a log.
pub const LEAST_LOG: u64 = 64 * UNIT;

/// A half that a store of small datasets has room in, on disks of which it is no more than a 512th.
const USUAL_LOG: u64 = 2 << 20;

impl Extent {
    /// An extent whose log suits its length: room for blocks of 64 KiB and more in two copies, and
    /// for datasets by the thousand. `None` if it is not in whole units, too short, too long, or
    /// ends beyond 2^63.
    pub fn new(start: u64, bytes: u64, identity: u64) -> Option<Extent> {
        let log_bytes = (bytes / 2048).max(USUAL_LOG.min(bytes / 512)).max(LEAST_LOG);
        let log_bytes = log_bytes.next_multiple_of(UNIT);
        Extent { start, bytes, log_bytes, identity }.checked()
    }

    /// The same, if its numbers fit each other.
    pub(crate) fn checked(self) -> Option<Extent> {
        let whole = [self.start, self.bytes, self.log_bytes].iter().all(|it| it % UNIT == 0);
        let end = self.start.checked_add(self.bytes)?;
        let fits = self.bytes / UNIT <= MOST_UNITS && end <= 1 << 63;
        // The smallest log has a checkpoint of no dataset and room for one more.
        let has_log = self.log_bytes >= 8 * UNIT && self.log_bytes < self.bytes / 2;
        (whole && fits && has_log).then_some(self)
    }

    /// The first byte of the blocks on the disk.
    pub(crate) fn data(&self) -> u64 {
        self.start + 2 * self.log_bytes
    }

    /// The length of the part for blocks, in units.
    pub(crate) fn data_units(&self) -> u32 {
        // An extent has at most MOST_UNITS.
        ((self.bytes - 2 * self.log_bytes) / UNIT) as u32
    }
}

/// A range of the disk that belongs to a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Range {
    /// Its first byte on the disk, a multiple of [`UNIT`].
    pub at: u64,
    /// Its length in bytes, a multiple of [`UNIT`]; the block may end before.
    pub bytes: u64,
}

/// Something to be done to the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write bytes; both numbers are multiples of [`UNIT`].
    Write {
        /// Where on the disk.
        at: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Make everything durable whose write has ended, the caller's writes of blocks included.
    Flush,
    /// Nobody wants these bytes any more: what the disk lies on may have the room back. Nothing
    /// depends on whether it does.
    Discard(Range),
}

/// What a store wants or has to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Do this, and then call [`Store::completed`](crate::Store::completed).
    Disk(Step),
    /// What a ticket stands for has ended.
    Done(Ticket, Result<(), Error>),
}
