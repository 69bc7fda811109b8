//! Finds an entry's part, and in it its *bucket*: a range of keys that is small enough to be
//! sorted in a processor's cache.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ops::Range;

use crate::entry::Entry;
use crate::sample::Cuts;

/// Bits of the key that say which part it belongs to, most of the time.
const TABLE_BITS: u32 = 12;

/// Stands in the table where cuts lie among the keys with the same first bits.
const MIXED: u32 = u32::MAX;

/// Parts, and the buckets that each is divided into.
#[derive(Clone, Debug)]
pub struct Plan {
    cuts: Vec<Entry>,
    parts: Vec<Keys>,
    /// For each value of the key's first bits, the part of all entries that begin so, or `MIXED`.
    table: Vec<u32>,
    buckets: u32,
}

/// A part's keys, by their first eight bytes, and what maps them to buckets.
#[derive(Clone, Copy, Debug)]
struct Keys {
    least: u64,
    /// Buckets for each key above the least, as a fraction of 2^64.
    scale: u64,
}

impl Plan {
    /// Divides each part of `cuts` into `buckets` buckets of equal ranges of keys.
    pub fn new(cuts: &Cuts, buckets: NonZeroU32) -> Plan {
        let buckets = buckets.get();
        let (least, greatest) = cuts.range();
        let starts = [least].into_iter().chain(cuts.cuts().iter().copied());
        let ends = cuts.cuts().iter().copied().chain([greatest]);
        let keys = |(start, end): (Entry, Entry)| {
            let keys = u128::from(end.prefix().saturating_sub(start.prefix())) + 1;
            let scale = ((u128::from(buckets) << 64) / keys).min(u64::MAX.into()) as u64;
            Keys { least: start.prefix(), scale }
        };
        let parts = starts.zip(ends).map(keys).collect();
        let part = |first: u64| {
            let least = u128::from(first) << (128 - TABLE_BITS);
            let ends = [least, least | (u128::MAX >> TABLE_BITS)];
            let [first, last] = ends.map(|end| cuts.part(Entry::from_bytes(end.to_le_bytes())));
            if first == last { first as u32 } else { MIXED }
        };
        let table = (0..1 << TABLE_BITS).map(part).collect();
        Plan { cuts: cuts.cuts().to_vec(), parts, table, buckets }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// How many buckets each part has.
    pub fn buckets(&self) -> usize {
        self.buckets as usize
    }

    /// The buckets of a part that are in this slice of it, if it is cut into so many: about as many
    /// in each. None in a slice that there is not.
    pub fn slice(&self, slice: usize, slices: NonZeroU32) -> Range<usize> {
        let slices = slices.get() as usize;
        let first = |slice: usize| (slice * self.buckets()).div_ceil(slices).min(self.buckets());
        first(slice)..first(slice + 1)
    }

    /// For each bucket of a part, the least of the keys that belong to it and to none before, by
    /// their first eight bytes; zero for the first. Buckets that no key reaches are left out.
    pub fn starts(&self, part: usize) -> impl Iterator<Item = u64> + use<> {
        self.starts_of(part, 0, NonZeroU32::MIN)
    }

    /// The same of those buckets that are in a slice of the part, of so many.
    pub fn starts_of(
        &self,
        part: usize,
        slice: u32,
        slices: NonZeroU32,
    ) -> impl Iterator<Item = u64> + use<> {
        let keys = self.parts.get(part).copied().unwrap_or(Keys { least: 0, scale: 0 });
        let starts = self.slice(slice as usize, slices).map(move |bucket| match bucket {
            0 => Some(0),
            _ => {
                let above = ((bucket as u128) << 64).div_ceil(keys.scale.max(1).into());
                u64::try_from(above).ok()?.checked_add(keys.least)
            }
        });
        starts.map_while(|start| start)
    }

    /// The part of `entry` and, counted through all parts, its bucket. Buckets ascend as their
    /// entries do.
    #[inline(always)]
    pub fn place(&self, entry: Entry) -> (usize, usize) {
        let first = (entry.prefix() >> (64 - TABLE_BITS)) as usize;
        // No comparison with the next cut: of random keys half would be on its other side, and the
        // processor would guess wrong as often.
        let part = match self.table[first & ((1 << TABLE_BITS) - 1)] {
            MIXED => self.cuts.partition_point(|cut| *cut <= entry),
            part => part as usize,
        };
        (part, self.place_in(part, entry))
    }

    #[inline(always)]
    fn place_in(&self, part: usize, entry: Entry) -> usize {
        let keys = self.parts[part];
        let above = entry.prefix().saturating_sub(keys.least);
        let bucket = ((u128::from(above) * u128::from(keys.scale)) >> 64) as usize;
        part * self.buckets() + bucket.min(self.buckets() - 1)
    }
}
