//! A map task's step: the records of a few blocks, moved so that those of each *bucket* lie
//! together, and the buckets of each part.
//!
//! The blocks, which were read a moment ago, and the place that their records go to are both in the
//! cache, so that moving costs little. What it saves is much more: a reduce task then reads a few
//! records at a time that lie in one row, where it would have to fetch each from another page.
//! Nothing has to be noted beside the records, since their keys tell where a bucket ends
//! ([`sorted`](crate::sorted)). The more blocks are grouped together, the fewer rows a bucket has:
//! with many rows each is in a page that the processor has to look up again.
//!
//! A part may be cut into *slices*, ranges of as many buckets, so that it can be put out slice by
//! slice. What a *class*, a slice of a part, has of the blocks is one range of bytes, which goes on
//! at the beginning of the next buffer where one is full, and means the same wherever it lies. Of
//! records in one bucket, the earlier ones stay before the later ones.

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

/// Groups records by buckets.
pub struct Groups {
    plan: Plan,
    slices: NonZeroU32,
    /// For each bucket of each part, how many records it has, then where its next one goes.
    ends: Vec<Place>,
    /// The bucket of each record.
    buckets: Vec<u32>,
    /// Bytes of whole records that each buffer but the last is filled with.
    room: usize,
}

/// Where a record goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
struct Place {
    buffer: u32,
    /// The byte in it; less than there is room for.
    at: u32,
}

/// The buffers that records are to be moved to are too small, or one has 4 GiB and more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// How many records there are.
    pub records: usize,
    /// How many buffers there are.
    pub buffers: usize,
    /// Bytes of the shortest of them.
    pub bytes: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoom { records, buffers, bytes } = self;
        write!(f, "{records} records cannot be moved to {buffers} buffers of {bytes} bytes")
    }
}

impl Groups {
    /// Groups by this plan, each part of which is cut into so many slices.
    pub fn new(plan: Plan, slices: NonZeroU32) -> Groups {
        let ends = alloc::vec![Place::default(); plan.parts() * plan.buckets()];
        Groups { plan, slices, ends, buckets: Vec::new(), room: 0 }
    }

    /// How many classes there are: the slices of the first part, then those of the next one.
    pub fn classes(&self) -> usize {
        self.plan.parts() * self.slices.get() as usize
    }

    /// Copies records, whole ones, to `out`, grouped; gives their tally. They lie in stretches, of
    /// which one follows the other in the input, where the first record is the one at `first`.
    /// Bytes after a stretch's last whole record are not looked at. Each buffer is filled with as
    /// many records as the shortest one has room for, before the next one gets any.
    pub fn make<L: Layout>(
        &mut self,
        records: &[&[u8]],
        first: Position,
        out: &mut [&mut [u8]],
    ) -> Result<Tally, NoRoom> {
        let count: usize = records.iter().map(|it| it.len() / L::LENGTH).sum();
        let bytes = out.iter().map(|it| it.len()).min().unwrap_or(0);
        self.room = bytes / L::LENGTH * L::LENGTH;
        if count > bytes / L::LENGTH * out.len() || u32::try_from(bytes).is_err() {
            return Err(NoRoom { records: count, buffers: out.len(), bytes });
        }
        let tally = self.count::<L>(records, first);
        self.place::<L>();
        let room = self.room as u32;
        let mut later = self.buckets.get(AHEAD..).unwrap_or_default().iter();
        let mut buckets = self.buckets.iter();
        for records in records {
            for (record, bucket) in records.chunks_exact(L::LENGTH).zip(&mut buckets) {
                if let Some(later) = later.next() {
                    // Others may go there before it: then it goes right behind them.
                    let Place { buffer, at } = self.ends[*later as usize];
                    let place = out.get(buffer as usize).and_then(|it| it.get(at as usize..));
                    place.and_then(|it| it.get(..L::LENGTH)).map(L::prefetch_all);
                }
                let end = &mut self.ends[*bucket as usize];
                let at = end.at as usize;
                out[end.buffer as usize][at..at + L::LENGTH].copy_from_slice(record);
                end.at += L::LENGTH as u32;
                if end.at == room {
                    *end = Place { buffer: end.buffer + 1, at: 0 };
                }
            }
        }
        Ok(tally)
    }

    /// Notes the bucket of each record, counts how many each bucket has, and gives their tally.
    fn count<L: Layout>(&mut self, records: &[&[u8]], first: Position) -> Tally {
        let mut tally = Tally::default();
        let mut next = first;
        self.ends.fill(Place::default());
        self.buckets.clear();
        for records in records {
            self.buckets.extend(records.chunks_exact(L::LENGTH).map(|record| {
                // Of the records with a cut's key, the earlier ones are of the earlier part.
                let (_, bucket) = self.plan.place(Entry::new::<L>(record, next));
                next.0 = next.0.wrapping_add(1);
                self.ends[bucket].at += 1;
                tally.add(record);
                bucket as u32
            }));
        }
        tally
    }

    /// Has each bucket begin where the one before it ends: until it has been filled.
    fn place<L: Layout>(&mut self) {
        let (mut next, mut at) = (Place::default(), 0);
        for end in &mut self.ends {
            let count = mem::replace(end, next).at as usize;
            at += count * L::LENGTH;
            while count > 0 && at >= self.room {
                at -= self.room;
                next.buffer += 1;
            }
            next.at = at as u32;
        }
    }

    /// Where a class of the records that were moved last lies: in ascending buffers, by number, the
    /// bytes of each; at least one range, of which the first and the last may be empty.
    pub fn class(&self, class: usize) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let slices = self.slices.get() as usize;
        let first = (class / slices).saturating_mul(self.plan.buckets());
        let buckets = self.plan.slice(class % slices, self.slices);
        // No bucket ends where there is none.
        let end = |before: usize| {
            let last = first.saturating_add(before).checked_sub(1);
            last.and_then(|last| self.ends.get(last)).copied().unwrap_or_default()
        };
        let (start, last) = (end(buckets.start), end(buckets.end));
        let (start, room) = (start.min(last), self.room);
        (start.buffer..=last.buffer).map(move |buffer| {
            let from = if buffer == start.buffer { start.at as usize } else { 0 };
            let to = if buffer == last.buffer { last.at as usize } else { room };
            (buffer as usize, from..to)
        })
    }
}
