//! Map tasks of which other nodes want a good part: each partition's records move to buffers of
//! their own, with their entries behind them, so that a piece leaves as it is and comes as what a
//! reduce task of the same node would read.

use alloc::vec::Vec;

use nile_sort::index::room;
use nile_sort::{Entry, Index, Position, Tally, Tera};
use nile_tasks::{Done, Far, Outcome, Task};
use nile_user::PoolBuffer;

use super::bounds::{plan, position};
use super::output::Indexed;
use crate::records::{self, LENGTH, rest, skipped};

/// Blocks of a split for each partition, at least: the last buffer of each is half empty.
const LEAST_BLOCKS: u32 = 4;

/// Whether a map task is to move its records.
pub fn pays(task: &Task<'_>) -> bool {
    task.is_shared() && !task.spills() && task.blocks() / task.partitions() >= LEAST_BLOCKS
}

/// Leaves the records of each partition in blocks of their own.
pub fn map(task: &Task<'_>) -> Outcome<Done> {
    let mut split = Split::new(task)?;
    records::blocks(task, |block| {
        split.begin(block.at);
        split.take(&block.buffer[..block.bytes])
    })?;
    split.end()
}

/// A split on its way through.
struct Split<'t, 's> {
    task: &'t Task<'s>,
    index: Index,
    lots: Vec<Lot<'s>>,
    /// The position of the first record, once a block has come, and of the next one.
    first: Option<Position>,
    next: Position,
    /// Bytes that come next and belong to another split.
    skip: usize,
    /// A record that a block has cut, so far.
    cut: Vec<u8>,
}

/// One partition's records.
#[derive(Default)]
struct Lot<'s> {
    indexed: Indexed<'s>,
    /// The buffer that is filled, and how many bytes of it hold records; those that may.
    open: Option<PoolBuffer<'s>>,
    filled: usize,
    most: usize,
    /// Records before those of the open buffer.
    before: u64,
}

impl<'t, 's> Split<'t, 's> {
    fn new(task: &'t Task<'s>) -> Outcome<Split<'t, 's>> {
        let index = Index::new(plan(task)?);
        let lots = (0..index.parts()).map(|_| Lot::default()).collect();
        let (first, next, skip, cut) = (None, Position(0), 0, Vec::new());
        Ok(Split { task, index, lots, first, next, skip, cut })
    }

    /// A block comes that begins there in its dataset.
    fn begin(&mut self, at: u64) {
        if self.first.is_none() {
            self.next = position(self.task.dataset(), at);
            (self.first, self.skip) = (Some(self.next), skipped(at));
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Outcome {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let mut bytes = &bytes[skipped..];
        if !self.cut.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(LENGTH - self.cut.len()));
            self.cut.extend_from_slice(now);
            bytes = later;
            if self.cut.len() < LENGTH {
                return Ok(());
            }
            let whole = core::mem::take(&mut self.cut);
            self.put(&whole)?;
        }
        let mut records = bytes.chunks_exact(LENGTH);
        for record in &mut records {
            self.put(record)?;
        }
        self.cut.extend_from_slice(records.remainder());
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, record: &[u8]) -> Outcome {
        let part = self.index.part_of(Entry::new::<Tera>(record, self.next));
        self.next.0 += 1;
        let lot = &mut self.lots[part];
        if lot.filled == lot.most {
            self.change(part)?;
        }
        let lot = &mut self.lots[part];
        if let Some(buffer) = &mut lot.open {
            buffer[lot.filled..lot.filled + LENGTH].copy_from_slice(record);
            lot.filled += LENGTH;
        }
        Ok(())
    }

    /// A partition goes on with another buffer.
    #[cold]
    fn change(&mut self, part: usize) -> Outcome {
        self.close(part)?;
        let buffer = self.task.buffer()?;
        let lot = &mut self.lots[part];
        (lot.filled, lot.most) = (0, room::<Tera>(buffer.len()) * LENGTH);
        lot.open = Some(buffer);
        Ok(())
    }

    /// Makes the entries of a partition's open buffer. Positions are told from the split's first
    /// record on: within a partition they are in the order of the input, and no two are the same.
    fn close(&mut self, part: usize) -> Outcome {
        let (task, lot) = (self.task, &mut self.lots[part]);
        let records = lot.filled / LENGTH;
        let Some(buffer) = lot.open.take().filter(|_| records > 0) else { return Ok(()) };
        if lot.indexed.is_full(1) {
            lot.indexed.keep(task, Far::Whole)?;
        }
        let first = Position(self.first.map_or(0, |first| first.0) + lot.before);
        lot.before += records as u64;
        (lot.filled, lot.most) = (0, 0);
        lot.indexed.add(&mut self.index, buffer, records, first, Some(part))
    }

    fn end(mut self) -> Outcome<Done> {
        if !self.cut.is_empty() {
            let rest = rest(self.task, self.cut.len())?;
            self.take(&rest)?;
        }
        let mut tally = Tally::default();
        for part in 0..self.lots.len() {
            self.close(part)?;
            let indexed = &mut self.lots[part].indexed;
            indexed.keep(self.task, Far::Whole)?;
            tally += indexed.tally;
        }
        Ok(Done { records: tally.records, checksum: tally.sum })
    }
}
