//! Map tasks: entries for all records of a split.

use nile_sort::index::room;
use nile_sort::{Index, Layout, Position, Sorted, Tera};
use nile_tasks::{Block, Done, Outcome, Task};
use nile_user::PoolBuffer;

use super::bounds::{plan, position};
use super::grouped;
use super::output::Indexed;
use super::{MOST_ENTRIES, failed};
use crate::records::{self, LENGTH, Records, rest, skipped};

/// Leaves the split's blocks with their entries, or as runs.
pub fn map(task: &Task<'_>) -> Outcome<Done> {
    // Slices lie together only in blocks that were grouped.
    if !task.spills() && (task.is_shared() || task.slices().get() > 1) {
        return grouped::map(task);
    }
    let mut split = Split::new(task)?;
    records::blocks(task, |block| split.take(block))?;
    split.end()?;
    let mut indexed = split.indexed;
    match task.spills() {
        true => spill(task, &indexed)?,
        false => indexed.keep(task)?,
    }
    Ok(Done { records: indexed.tally.records, checksum: indexed.tally.sum })
}

/// A split on its way through.
struct Split<'t, 's> {
    task: &'t Task<'s>,
    index: Index,
    indexed: Indexed<'s>,
    /// Whether a block has come.
    begun: bool,
    /// Bytes that come next and belong to another split.
    skip: usize,
    /// The position of the next record that is taken.
    next: Position,
    /// Records from blocks that cut some, or have no room for entries.
    packed: Option<PoolBuffer<'s>>,
    filled: usize,
}

impl<'t, 's> Split<'t, 's> {
    fn new(task: &'t Task<'s>) -> Outcome<Split<'t, 's>> {
        let (index, indexed) = (Index::new(plan(task)?), Indexed::default());
        let next = Position(0);
        Ok(Split { task, index, indexed, begun: false, skip: 0, next, packed: None, filled: 0 })
    }

    fn take(&mut self, block: Block<'s>) -> Outcome {
        if !self.begun {
            self.begun = true;
            self.skip = skipped(block.at);
            self.next = position(self.task.dataset(), block.at);
        }
        let is_whole = self.skip == 0 && self.filled.is_multiple_of(LENGTH);
        let records = block.bytes / LENGTH;
        let fits =
            block.bytes.is_multiple_of(LENGTH) && records <= room::<Tera>(block.buffer.len());
        if is_whole && fits {
            // What came before stays before.
            self.pack_end()?;
            return self.add(block.buffer, records);
        }
        let skipped = self.skip.min(block.bytes);
        self.skip -= skipped;
        self.pack(&block.buffer[skipped..block.bytes])
    }

    fn end(&mut self) -> Outcome {
        if !self.filled.is_multiple_of(LENGTH) {
            let rest = rest(self.task, self.filled % LENGTH)?;
            self.pack(&rest)?;
        }
        self.pack_end()
    }

    /// Copies records to where there is room for their entries.
    fn pack(&mut self, mut bytes: &[u8]) -> Outcome {
        while !bytes.is_empty() {
            let mut buffer = match self.packed.take() {
                Some(buffer) => buffer,
                None => self.task.buffer()?,
            };
            let most = room::<Tera>(buffer.len()) * LENGTH;
            let space = &mut buffer[self.filled..most];
            let (now, later) = bytes.split_at(bytes.len().min(space.len()));
            space[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            self.packed = Some(buffer);
            if self.filled == most {
                self.pack_end()?;
            }
        }
        Ok(())
    }

    fn pack_end(&mut self) -> Outcome {
        let records = self.filled / LENGTH;
        self.filled = 0;
        match self.packed.take() {
            Some(buffer) if records > 0 => self.add(buffer, records),
            _ => Ok(()),
        }
    }

    fn add(&mut self, buffer: PoolBuffer<'s>, records: usize) -> Outcome {
        if self.indexed.is_full(self.index.parts()) && !self.task.spills() {
            self.indexed.keep(self.task)?;
        }
        self.indexed.add(&mut self.index, buffer, records, self.next)?;
        self.next.0 += records as u64;
        Ok(())
    }
}

/// Writes a run for each partition.
fn spill(task: &Task<'_>, indexed: &Indexed<'_>) -> Outcome {
    let plan = plan(task)?;
    for part in 0..task.partitions() {
        let (blocks, starts) = (indexed.part(part), plan.starts(part as usize));
        let mut sorted = Sorted::new(blocks, starts, MOST_ENTRIES).map_err(failed)?;
        loop {
            let mut buffer = task.buffer()?;
            // Blocks leave room for the entries of another sort.
            let most = room::<Tera>(buffer.len()) * Tera::LENGTH;
            match sorted.fill::<Records>(&mut buffer[..most]).map_err(failed)? {
                0 => break,
                records => task.spill(part, buffer, records * Tera::LENGTH)?,
            }
        }
    }
    Ok(())
}
