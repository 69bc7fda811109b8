//! Reduce tasks: all records of a partition, in order.

use alloc::vec::Vec;
use core::ops::Range;

use nile_sort::index::{list, room};
use nile_sort::{Block, Entry, Merge, Position, Sorted, Step, Tally, Tera};
use nile_tasks::{self as tasks, Done, Halt, Kept, Outcome, Own, Run, Source, Task};
use nile_user::PoolBuffer;

use super::bounds::plan;
use super::map::put_out;
use super::output::{blocks, first};
use super::{MOST_ENTRIES, failed};
use crate::records::{LENGTH, Records};

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
            Piece::Own(sent) => all.extend(sent.blocks.iter().map(|it| room.block(sent, it))),
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
    Own(Sent<'s>),
}

impl Piece<'_> {
    fn order(&self) -> (u32, Position) {
        match self {
            Piece::Kept(kept) => (kept.map, first(kept)),
            Piece::Own(sent) => (sent.map, Position(0)),
        }
    }
}

/// Records that came from another node, and the stretches of them that are in order.
struct Sent<'s> {
    map: u32,
    buffers: Vec<PoolBuffer<'s>>,
    blocks: Vec<Listed>,
}

/// A stretch of records, and where its entries begin.
struct Listed {
    buffer: usize,
    records: Range<usize>,
    room: usize,
    entries: usize,
}

/// Buffers with entries of records that have no room for them.
#[derive(Default)]
struct EntryRoom<'s> {
    buffers: Vec<PoolBuffer<'s>>,
    /// Bytes of the last one that are used.
    used: usize,
}

impl<'s> EntryRoom<'s> {
    /// Makes entries for records of which each output's are in order.
    fn list(&mut self, task: &Task<'s>, own: Own<'s>) -> Outcome<Sent<'s>> {
        let mut blocks = Vec::new();
        for (buffer, bytes) in own.buffers.iter().enumerate() {
            if !bytes.len().is_multiple_of(LENGTH) {
                return Err(Halt::input("a piece from another node cuts a record"));
            }
            let count = bytes.len() / LENGTH;
            let needed = count * Entry::BYTES;
            if self.buffers.last().is_none_or(|last| last.len() - self.used < needed) {
                self.buffers.push(task.buffer()?);
                self.used = 0;
            }
            let (mut start, room) = (0, self.buffers.len() - 1);
            while start < count {
                let space = &mut self.buffers[room][self.used..];
                let listed = list::<Tera>(&bytes[start * LENGTH..], Position(0), space)
                    .map_err(|error| Halt::input(alloc::format!("{error}")))?;
                let (records, entries) = (start..start + listed, self.used);
                blocks.push(Listed { buffer, records, room, entries });
                self.used += listed * Entry::BYTES;
                start += listed;
            }
        }
        task.breathe()?;
        Ok(Sent { map: own.map, buffers: own.buffers, blocks })
    }

    fn block<'r>(&'r self, sent: &'r Sent<'s>, listed: &Listed) -> Block<'r> {
        let Listed { buffer, records, room, entries } = listed;
        let bytes = records.len() * Entry::BYTES;
        Block {
            records: &sent.buffers[*buffer][records.start * LENGTH..records.end * LENGTH],
            entries: &self.buffers[*room][*entries..entries + bytes],
            first: Position(0),
        }
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
                    let records = sorted.fill::<Records>(&mut memory.0).map_err(failed)?;
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
