//! A map task's step where pieces go to other nodes: the records of a block, moved so that those of
//! each *class* lie together, with their entries behind them. A class is a part, or one of the
//! *slices* that parts are cut into, ranges of as many buckets, so that a part can be put out slice
//! by slice.
//!
//! What a class has of a block is one range of bytes, which can be copied anywhere: so many
//! records, then as many entries, grouped by bucket. The position of an entry is its record's place
//! in the range, so nothing else has to travel with it. Of records with equal keys, the earlier
//! ones stay before the later ones.

use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU32;
use core::ops::Range;

use crate::entry::{Entry, Position};
use crate::index::{NoRoom, room};
use crate::layout::Layout;
use crate::plan::Plan;
use crate::sorted::Block;
use crate::tally::Tally;

/// Groups records by classes, block by block.
pub struct Groups {
    plan: Plan,
    /// The class of each bucket.
    classes: Vec<u32>,
    /// For each bucket, how many entries it has, then where its next one goes.
    ends: Vec<u32>,
    /// For each class, where its range begins, and the end of the last one; and how many records
    /// of it were moved.
    starts: Vec<u32>,
    moved: Vec<u32>,
    /// The bucket of each record of the block.
    buckets: Vec<u32>,
}

impl Groups {
    /// Groups by this plan, each part of which is cut into so many slices.
    pub fn new(plan: Plan, slices: NonZeroU32) -> Groups {
        let all = plan.parts() * plan.buckets();
        let count = plan.parts() * slices.get() as usize;
        let class = |bucket: usize| {
            let (part, bucket) = (bucket / plan.buckets(), bucket % plan.buckets());
            part as u32 * slices.get() + plan.slice_of(bucket, slices)
        };
        let classes = (0..all).map(class).collect();
        Groups {
            plan,
            classes,
            ends: alloc::vec![0; all],
            starts: alloc::vec![0; count + 1],
            moved: alloc::vec![0; count],
            buckets: Vec::new(),
        }
    }

    /// How many classes there are: the slices of the first part, then those of the next one.
    pub fn classes(&self) -> usize {
        self.moved.len()
    }

    /// Copies records, whole ones, to the beginning of `out`, grouped and with their entries; gives
    /// their tally. They lie in two stretches, of which one follows the other in the input, where
    /// the first record is the one at `first`.
    pub fn make<L: Layout>(
        &mut self,
        records: [&[u8]; 2],
        first: Position,
        out: &mut [u8],
    ) -> Result<Tally, NoRoom> {
        let room = room::<L>(out.len());
        let count = records.iter().map(|it| it.len() / L::LENGTH).sum();
        if count > room || u32::try_from(out.len()).is_err() {
            return Err(NoRoom { records: count, entries: room });
        }
        let mut tally = Tally::default();
        self.ends.fill(0);
        self.buckets.clear();
        let mut next = first;
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
        self.lay_out(L::LENGTH as u32);
        let mut buckets = self.buckets.iter();
        for records in records {
            for (record, bucket) in records.chunks_exact(L::LENGTH).zip(&mut buckets) {
                let class = self.classes[*bucket as usize] as usize;
                let place = &mut self.moved[class];
                let at = self.starts[class] as usize + *place as usize * L::LENGTH;
                out[at..at + L::LENGTH].copy_from_slice(record);
                let entry = Entry::new::<L>(record, Position((*place).into()));
                *place += 1;
                let at = &mut self.ends[*bucket as usize];
                let slot = &mut out[*at as usize..*at as usize + Entry::PACKED];
                slot.copy_from_slice(&entry.pack());
                *at += Entry::PACKED as u32;
            }
        }
        Ok(tally)
    }

    /// Decides where classes begin, and where the entries of each bucket go.
    fn lay_out(&mut self, length: u32) {
        self.moved.fill(0);
        for (count, class) in self.ends.iter().zip(&self.classes) {
            self.moved[*class as usize] += count;
        }
        let mut end = 0;
        for (start, count) in self.starts.iter_mut().zip(&self.moved) {
            *start = end;
            end += count * (length + Entry::PACKED as u32);
        }
        if let Some(last) = self.starts.last_mut() {
            *last = end;
        }
        let (mut next, mut before) = (0, None);
        for (count, class) in self.ends.iter_mut().zip(&self.classes) {
            if before != Some(*class) {
                let class = *class as usize;
                next = self.starts[class] + self.moved[class] * length;
                before = Some(class as u32);
            }
            next += mem::replace(count, next) * Entry::PACKED as u32;
        }
        self.moved.fill(0);
    }

    /// Where a class of the last block lies, in bytes: empty for a class that there is not.
    pub fn class(&self, class: usize) -> Range<usize> {
        match self.starts.get(class..class + 2) {
            Some([start, end]) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }
}

/// What a class has of a block, as [`Groups::make`] left it; bytes after its last whole record and
/// entry are not looked at.
pub fn grouped<L: Layout>(range: &[u8]) -> Block<'_> {
    let count = room::<L>(range.len());
    let (records, rest) = range.split_at(count * L::LENGTH);
    Block { records, entries: &rest[..count * Entry::PACKED] }
}
