//! A map task's step: an entry of each record of a block, grouped by part and bucket.
//!
//! A block is what fits a buffer, so that both passes over it, one that counts and one that
//! writes, find it in the cache. The entries may lie behind the records in the same buffer:
//! [`room`] says how many records leave room for that. Where a group of entries ends is not noted
//! anywhere, since the entries themselves tell ([`sorted`](crate::sorted)); only where each part
//! ends must be known, and travels beside the block.

use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::ops::Range;

use crate::entry::{Entry, Position};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::tally::Tally;

/// How many records with their entries fit so many bytes: at most [`Entry::MOST_PACKED`].
pub const fn room<L: Layout>(bytes: usize) -> usize {
    let records = bytes / (L::LENGTH + Entry::PACKED);
    if records < Entry::MOST_PACKED { records } else { Entry::MOST_PACKED }
}

/// Makes entries, block by block.
pub struct Index {
    plan: Plan,
    /// For each bucket of each part, how many entries it has, then where its next one goes.
    ends: Vec<u32>,
    /// The bucket of each record of the block.
    buckets: Vec<u32>,
}

/// The memory for entries is too small, or the block too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// Records of the block.
    pub records: usize,
    /// Entries that there is room for.
    pub entries: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoom { records, entries } = self;
        write!(f, "a block of {records} records has room for {entries} entries")
    }
}

impl Index {
    /// Makes entries by this plan.
    pub fn new(plan: Plan) -> Index {
        let ends = alloc::vec![0; plan.parts() * plan.buckets()];
        Index { plan, ends, buckets: Vec::new() }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.plan.parts()
    }

    /// Writes the entries of `records`, whole records of which the first is the input's `first`,
    /// to the beginning of `entries`, and gives the tally of the records. Bytes after the last
    /// whole record are not looked at.
    pub fn make<L: Layout>(
        &mut self,
        records: &[u8],
        first: Position,
        entries: &mut [u8],
    ) -> Result<Tally, NoRoom> {
        let (slots, _) = entries.as_chunks_mut::<{ Entry::PACKED }>();
        let count = records.len() / L::LENGTH;
        let slots = match slots.get_mut(..count) {
            Some(slots) if count <= Entry::MOST_PACKED => slots,
            _ => {
                let entries = slots.len().min(Entry::MOST_PACKED);
                return Err(NoRoom { records: count, entries });
            }
        };
        let mut tally = Tally::default();
        self.ends.fill(0);
        self.buckets.resize(count, 0);
        let records = records.chunks_exact(L::LENGTH).enumerate();
        for (((at, record), bucket), slot) in records.clone().zip(&mut self.buckets).zip(&*slots) {
            // Entries go all over their memory: its lines are on their way when they are written.
            L::prefetch(&slot[0]);
            let position = Position(first.0.wrapping_add(at as u64));
            let (_, place) = self.plan.place(Entry::new::<L>(record, position));
            self.ends[place] += 1;
            *bucket = place as u32;
            tally.add(record);
        }
        let mut end = 0;
        for count in &mut self.ends {
            // Where the bucket begins, until it has been filled.
            end += mem::replace(count, end);
        }
        for ((at, record), bucket) in records.zip(&self.buckets) {
            let slot = &mut self.ends[*bucket as usize];
            slots[*slot as usize] = Entry::new::<L>(record, Position(at as u64)).pack();
            *slot += 1;
        }
        Ok(tally)
    }

    /// Where in the entries of the last block a part lies, in bytes: empty for a part that there
    /// is not.
    pub fn part(&self, part: usize) -> Range<usize> {
        let end = |parts: usize| {
            let last = (parts * self.plan.buckets()).checked_sub(1);
            last.and_then(|last| self.ends.get(last)).map_or(0, |end| *end as usize * Entry::PACKED)
        };
        end(part)..end(part + 1).max(end(part))
    }
}
