//! Free space of an extent: ranges of units, first fit, neighbours joined.

use alloc::collections::BTreeMap;

use crate::extent::UNIT;

/// How much space there is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// For blocks, in all.
    pub total: u64,
    /// Not used by any dataset or draft; the last of it is for [`RECORDS`].
    pub free: u64,
    /// The longest piece of that.
    pub longest: u64,
    /// Of half of the log, which lists the datasets.
    pub log: u64,
    /// Of that, what new datasets can take, but for [`RECORDS`].
    pub log_free: u64,
}

/// What the names of job records begin with: they may take the last units of a store, which all
/// else leaves to them. A job that has filled the disk could not end otherwise.
pub const RECORDS: &str = ".jobs/";

/// One unit of so many is left to records, but not more than this many: two of the longest.
const SHARE_OF_RECORDS: u32 = 64;
const MOST_FOR_RECORDS: u32 = (16 << 20) / UNIT as u32;

/// The free ranges: their first units, and how many.
#[derive(Clone, Debug)]
pub(crate) struct Free {
    ranges: BTreeMap<u32, u32>,
    total: u32,
    /// In all ranges.
    units: u32,
}

impl Free {
    pub fn new(units: u32) -> Free {
        let ranges = (units > 0).then_some((0, units)).into_iter().collect();
        Free { ranges, total: units, units }
    }

    /// How many are free for datasets of a name.
    pub fn units_for(&self, name: &str) -> u32 {
        match name.starts_with(RECORDS) {
            true => self.units,
            false => {
                let kept = (self.total / SHARE_OF_RECORDS).min(MOST_FOR_RECORDS);
                self.units.saturating_sub(kept)
            }
        }
    }

    /// Takes `units` from the first range that has so many; gives the first.
    pub fn take(&mut self, units: u32) -> Option<u32> {
        let (start, length) = self.ranges.iter().find(|it| *it.1 >= units)?;
        let (start, length) = (*start, *length);
        self.cut(start, length, start, units);
        Some(start)
    }

    /// Takes exactly these units; `false` if they are not all free.
    #[must_use]
    pub fn claim(&mut self, start: u32, units: u32) -> bool {
        let Some((first, length)) = self.ranges.range(..=start).next_back() else { return false };
        let (first, length) = (*first, *length);
        let end = u64::from(start) + u64::from(units);
        let fits = units > 0 && end <= u64::from(first) + u64::from(length);
        if fits {
            self.cut(first, length, start, units);
        }
        fits
    }

    /// Takes `units` from `start` out of the range of `length` at `first`, which has them.
    fn cut(&mut self, first: u32, length: u32, start: u32, units: u32) {
        self.units -= units;
        self.ranges.remove(&first);
        let before = start - first;
        let after = length - before - units;
        if before > 0 {
            self.ranges.insert(first, before);
        }
        if after > 0 {
            self.ranges.insert(start + units, after);
        }
    }

    /// Gives back what was taken.
    pub fn give(&mut self, start: u32, units: u32) {
        self.units += units;
        let (mut start, mut units) = (start, units);
        let before = self.ranges.range(..start).next_back();
        if let Some((first, length)) = before.map(|(first, length)| (*first, *length)) {
            debug_assert!(first + length <= start, "{start} was free already");
            if first + length == start {
                self.ranges.remove(&first);
                (start, units) = (first, units + length);
            }
        }
        if let Some(length) = self.ranges.remove(&(start + units)) {
            units += length;
        }
        self.ranges.insert(start, units);
    }

    /// In bytes: free in all ranges, and in the longest.
    pub fn bytes(&self) -> (u64, u64) {
        let longest = self.ranges.values().max().copied().unwrap_or(0);
        (u64::from(self.units) * UNIT, u64::from(longest) * UNIT)
    }

    /// In bytes, used and free.
    pub fn total(&self) -> u64 {
        u64::from(self.total) * UNIT
    }
}
