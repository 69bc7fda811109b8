//! Map tasks: entries for all records of a split; and what other nodes get of them.

use nile_sort::index::room;
use nile_sort::{Index, Layout, Position, Sorted, Tera};
use nile_tasks::{Block, Done, Far, Outcome, Task};
use nile_user::PoolBuffer;

use super::apart;
use super::bounds::{plan, position};
use super::output::{Indexed, blocks};
use super::{MOST_ENTRIES, failed};
use crate::records::{self, LENGTH, Records, rest, skipped};

/// Leaves the split's blocks with their entries, or as runs.
pub fn map(task: &Task<'_>) -> Outcome<Done> {
    if apart::pays(task) {
        return apart::map(task);
    }
    let mut split = Split::new(task)?;
    records::blocks(task, |block| split.take(block))?;
    split.end()?;
    let mut indexed = split.indexed;
    match task.spills() {
        true => spill(task, &indexed)?,
        false => indexed.keep(task, Far::Exports)?,
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
            self.indexed.keep(self.task, Far::Exports)?;
        }
        self.indexed.add(&mut self.index, buffer, records, self.next, None)?;
        self.next.0 += records as u64;
        Ok(())
    }
}

/// Writes a run for each partition.
fn spill(task: &Task<'_>, indexed: &Indexed<'_>) -> Outcome {
    let plan = plan(task)?;
    for part in 0..task.partitions() {
        let blocks = indexed.part(part);
        let sorted = Sorted::new(blocks, &plan, part as usize, MOST_ENTRIES).map_err(failed)?;
        put_out(task, sorted, |buffer, bytes| task.spill(part, buffer, bytes))?;
    }
    Ok(())
}

/// Gives the records of one partition of an output, in order.
pub fn export(task: &Task<'_>) -> Outcome {
    let (plan, kept) = (plan(task)?, task.output()?);
    let part = task.index() as usize;
    let sorted = Sorted::new(blocks(&kept)?, &plan, part, MOST_ENTRIES).map_err(failed)?;
    put_out(task, sorted, |buffer, bytes| task.exported(buffer, bytes))
}

/// Gives records in order, buffer by buffer.
pub fn put_out<'s>(
    task: &Task<'s>,
    mut sorted: Sorted<'_>,
    mut give: impl FnMut(PoolBuffer<'s>, usize) -> Outcome,
) -> Outcome {
    loop {
        let mut buffer = task.buffer()?;
        // Blocks of the output leave room for the entries of another sort.
        let most = room::<Tera>(buffer.len()) * Tera::LENGTH;
        match sorted.fill::<Records>(&mut buffer[..most]).map_err(failed)? {
            0 => return Ok(()),
            records => give(buffer, records * Tera::LENGTH)?,
        }
    }
}
