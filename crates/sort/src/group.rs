//! A map task's step: the records of a block, moved so that those of each *bucket* lie together,
//! and the buckets of each part.
//!
//! The block, which was read a moment ago, and the place that its records go to are both in the
//! cache, so that moving costs little. What it saves is much more: a reduce task then reads a few
//! records at a time that lie in one row, where it would have to fetch each from another page.
//! Nothing has to be noted beside the records, since their keys tell where a bucket ends
//! ([`sorted`](crate::sorted)).
//!
//! A part may be cut into *slices*, ranges of as many buckets, so that it can be put out slice by
//! slice. What a *class*, a slice of a part, has of a block is one range of bytes, which means the
//! same wherever it lies. Of records in one bucket, the earlier ones stay before the later ones.

use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::num::NonZeroU32;
use core::ops::Range;

use crate::entry::{Entry, Position};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::tally::Tally;

/// Records whose places are on their way while one is moved.
const AHEAD: usize = 48;

/// Groups records by buckets, block by block.
pub struct Groups {
    plan: Plan,
    slices: NonZeroU32,
    /// For each bucket of each part, how many records it has, then the byte at which its next one
    /// goes.
    ends: Vec<u32>,
    /// The bucket of each record of the block.
    buckets: Vec<u32>,
}

/// The memory that records are to be moved to is too small, or has 4 GiB and more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// How many records there are.
    pub records: usize,
    /// Bytes of that memory.
    pub bytes: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoom { records, bytes } = self;
        write!(f, "{records} records cannot be moved to a buffer of {bytes} bytes")
    }
}

impl Groups {
    /// Groups by this plan, each part of which is cut into so many slices.
    pub fn new(plan: Plan, slices: NonZeroU32) -> Groups {
        let ends = alloc::vec![0; plan.parts() * plan.buckets()];
        Groups { plan, slices, ends, buckets: Vec::new() }
    }

    /// How many classes there are: the slices of the first part, then those of the next one.
    pub fn classes(&self) -> usize {
        self.plan.parts() * self.slices.get() as usize
    }

    /// Copies records, whole ones, to the beginning of `out`, grouped; gives their tally. They lie
    /// in two stretches, of which one follows the other in the input, where the first record is
    /// the one at `first`. Bytes after a stretch's last whole record are not looked at.
    pub fn make<L: Layout>(
        &mut self,
        records: [&[u8]; 2],
        first: Position,
        out: &mut [u8],
    ) -> Result<Tally, NoRoom> {
        let count = records.iter().map(|it| it.len() / L::LENGTH).sum();
        let bytes = out.len();
        let out = match out.get_mut(..count * L::LENGTH) {
            Some(out) if u32::try_from(bytes).is_ok() => out,
            _ => return Err(NoRoom { records: count, bytes }),
        };
        let tally = self.count::<L>(records, first);
        let mut end = 0;
        for count in &mut self.ends {
            // Where the bucket begins, until it has been filled.
            end += mem::replace(count, end) * L::LENGTH as u32;
        }
        let mut later = self.buckets.get(AHEAD..).unwrap_or_default().iter();
        let mut buckets = self.buckets.iter();
        for records in records {
            for (record, bucket) in records.chunks_exact(L::LENGTH).zip(&mut buckets) {
                if let Some(later) = later.next() {
                    // Others may go there before it: then it goes right behind them.
                    let place = out.get(self.ends[*later as usize] as usize..);
                    place.and_then(|it| it.get(..L::LENGTH)).map(L::prefetch_all);
                }
                let end = &mut self.ends[*bucket as usize];
                let start = *end as usize;
                out[start..start + L::LENGTH].copy_from_slice(record);
                *end += L::LENGTH as u32;
            }
        }
        Ok(tally)
    }

    /// Notes the bucket of each record, counts how many each bucket has, and gives their tally.
    fn count<L: Layout>(&mut self, records: [&[u8]; 2], first: Position) -> Tally {
        let mut tally = Tally::default();
        let mut next = first;
        self.ends.fill(0);
        self.buckets.clear();
        for records in records {
            self.buckets.extend(records.chunks_exact(L::LENGTH).map(|record| {
                // Of the records with a cut's key, the earlier ones are of the earlier part.
                let (_, bucket) = self.plan.place(Entry::new::<L>(record, next));
                next.0 = next.0.wrapping_add(1);
                self.ends[bucket] += 1;
                tally.add(record);
                bucket as u32
            }));
        }
        tally
    }

    /// Where a class of the last block lies, in bytes: empty for a class that there is not.
    pub fn class(&self, class: usize) -> Range<usize> {
        let slices = self.slices.get() as usize;
        self.range(class / slices, self.plan.slice(class % slices, self.slices))
    }

    /// Where all slices of a part of the last block lie, in bytes: empty for a part that there is
    /// not.
    pub fn part(&self, part: usize) -> Range<usize> {
        self.range(part, 0..self.plan.buckets())
    }

    fn range(&self, part: usize, buckets: Range<usize>) -> Range<usize> {
        if part >= self.plan.parts() {
            return 0..0;
        }
        let first = part * self.plan.buckets();
        let end = |before: usize| match (first + before).checked_sub(1) {
            Some(last) => self.ends[last] as usize,
            None => 0,
        };
        end(buckets.start)..end(buckets.end)
    }
}
