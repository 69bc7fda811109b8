//! Reduce tasks: all records of a partition, in order.

use alloc::vec::Vec;

use nile_sort::index::{list, room};
use nile_sort::{Block, Entry, Merge, Position, Sorted, Step, Tally, Tera};
use nile_tasks::{self as tasks, Done, Halt, Kept, Outcome, Own, Run, Source, Task};
use nile_user::PoolBuffer;

use super::bounds::plan;
use super::map::put_out;
use super::output::{blocks, first};
use super::{MOST_ENTRIES, failed};
use crate::records::LENGTH;

/// Writes the part.
pub fn reduce(task: &Task<'_>) -> Outcome<Done> {
    let plan = plan(task)?;
    let (mut pieces, mut runs) = (Vec::new(), Vec::new());
    let mut room = EntryRoom::default();
    while let Some(source) = task.source()? {
        match source {
            Source::Kept(kept) => pieces.push(Piece::Kept(kept)),
            Source::Own(own) => pieces.push(Piece::Own(room.list(task, own)?)),
            Source::Run(run) => runs.push(run),
        }
    }
    // Equal keys keep the order of the input: what came from other nodes has that in itself.
    pieces.sort_by_key(Piece::order);
    runs.sort_by_key(|run| (run.map, run.number));
    let mut all = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Kept(kept) => all.extend(blocks(kept)?),
            Piece::Own(listed) => {
                all.extend(listed.blocks.iter().map(|(records, entries)| Block {
                    records,
                    entries: room.entries(*entries, records.len() / LENGTH),
                    first: Position(0),
                }))
            }
        }
    }
    let mut tally = Tally::default();
    let mut sorted =
        Sorted::new(all, &plan, task.index() as usize, MOST_ENTRIES).map_err(failed)?;
    if runs.is_empty() {
        put_out(task, sorted, |buffer, bytes| {
            count(&buffer[..bytes], &mut tally);
            task.write(buffer, bytes)
        })?;
    } else {
        merge(task, &runs, &mut sorted, &mut tally)?;
    }
    Ok(Done { records: tally.records, checksum: tally.sum })
}

fn count(records: &[u8], tally: &mut Tally) {
    records.chunks_exact(LENGTH).for_each(|record| tally.add(record));
}

/// Where one partition's records of an output are.
enum Piece<'s> {
    Kept(Kept<'s>),
    Own(Listed<'s>),
}

impl Piece<'_> {
    fn order(&self) -> (u32, Position) {
        match self {
            Piece::Kept(kept) => (kept.map, first(kept)),
            Piece::Own(listed) => (listed.map, Position(0)),
        }
    }
}

/// Records that came from another node, with where their entries are.
struct Listed<'s> {
    map: u32,
    blocks: Vec<(PoolBuffer<'s>, (usize, usize))>,
}

/// Buffers with entries of records that have no room for them.
#[derive(Default)]
struct EntryRoom<'s> {
    buffers: Vec<PoolBuffer<'s>>,
    /// Bytes of the last one that are used.
    used: usize,
}

impl<'s> EntryRoom<'s> {
    /// Makes entries for records that are in order.
    fn list(&mut self, task: &Task<'s>, own: Own<'s>) -> Outcome<Listed<'s>> {
        let mut blocks = Vec::new();
        for records in own.buffers {
            if !records.len().is_multiple_of(LENGTH) {
                return Err(Halt::input("a piece from another node cuts a record"));
            }
            let bytes = records.len() / LENGTH * Entry::BYTES;
            if self.buffers.last().is_none_or(|last| last.len() - self.used < bytes) {
                self.buffers.push(task.buffer()?);
                self.used = 0;
            }
            let start = self.used;
            let number = self.buffers.len() - 1;
            let space = self.buffers[number].get_mut(start..start + bytes).unwrap_or_default();
            list::<Tera>(&records, Position(0), space)
                .map_err(|error| Halt::input(alloc::format!("{error}")))?;
            self.used += bytes;
            blocks.push((records, (number, start)));
        }
        task.breathe()?;
        Ok(Listed { map: own.map, blocks })
    }

    /// The entries of so many records at this place.
    fn entries(&self, (number, start): (usize, usize), records: usize) -> &[u8] {
        &self.buffers[number][start..start + records * Entry::BYTES]
    }
}

/// Writes what is in memory and in runs.
fn merge<'s>(task: &Task<'s>, runs: &[Run], sorted: &mut Sorted<'_>, tally: &mut Tally) -> Outcome {
    // What is in memory is one more run, put out into a buffer of its own.
    let mut memory = (task.buffer()?, 0);
    let mut fronts: Vec<Front<'s>> = runs.iter().map(|_| Front::default()).collect();
    let mut merge = Merge::new(runs.len() + 1);
    loop {
        let (mut buffer, mut filled) = (task.buffer()?, 0);
        let most = room::<Tera>(buffer.len()) * LENGTH;
        let is_done = loop {
            let slices = fronts.iter().map(Front::records).chain([&memory.0[..memory.1]]);
            let slices: Vec<&[u8]> = slices.collect();
            let run = match merge.fill::<Tera>(&slices, &mut buffer[filled..most]) {
                Step::Full(more) => {
                    filled += more;
                    break false;
                }
                Step::Done(more) => {
                    filled += more;
                    break true;
                }
                Step::Wants { run, filled: more } => {
                    filled += more;
                    run
                }
            };
            let is_there = match fronts.get_mut(run) {
                Some(front) => front.next(task, runs[run])?,
                None => {
                    let records = sorted.fill::<Tera>(&mut memory.0).map_err(failed)?;
                    memory.1 = records * LENGTH;
                    records > 0
                }
            };
            if is_there { merge.supply(run) } else { merge.end(run) }
        };
        if filled > 0 {
            count(&buffer[..filled], tally);
            task.write(buffer, filled)?;
        }
        if is_done {
            return Ok(());
        }
    }
}

/// What is read of a run.
#[derive(Default)]
struct Front<'s> {
    block: Option<tasks::Block<'s>>,
    /// Blocks that were read.
    read: u32,
    is_over: bool,
}

impl<'s> Front<'s> {
    fn records(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.buffer[..block.bytes])
    }

    /// Goes on to the next block; whether there is one.
    fn next(&mut self, task: &Task<'s>, run: Run) -> Outcome<bool> {
        // Given back before another is there.
        self.block = None;
        if self.is_over {
            return Ok(false);
        }
        let block = task.run(run, self.read)?;
        if !block.bytes.is_multiple_of(LENGTH) {
            return Err(Halt::input("a block of a run cuts a record"));
        }
        self.read += 1;
        self.is_over = !block.more;
        self.block = Some(block);
        Ok(true)
    }
}
