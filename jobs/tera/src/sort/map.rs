//! Map tasks: the records of a few blocks move to other buffers, grouped by the buckets of
//! partitions. What each slice of a partition has there is kept, or each partition's records are
//! written as a run, in order.

use alloc::format;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU32;
use core::ops;

use nile_sort::{Groups, Position, Sorted, Tally};
use nile_tasks::{Block, DESCRIBED, Done, Far, Halt, MOST_DESCRIBED, Outcome, Range, Task};
use nile_user::PoolBuffer;

use super::bounds::{blocks_grouped, plan, position};
use super::{MOST_ENTRIES, failed};
use crate::records::{self, LENGTH, Records, rest, skipped, whole};

/// Leaves the split's records, grouped or as runs.
pub fn map(task: &Task<'_>) -> Outcome<Done> {
    let mut split = Split::new(task)?;
    records::blocks(task, |block| {
        split.begin(block.at, block.buffer.len());
        split.take(block)
    })?;
    split.end()
}

/// A split on its way through.
struct Split<'t, 's> {
    task: &'t Task<'s>,
    groups: Groups,
    /// Records that wait to be grouped, in the order of the input; of how many blocks, and of how
    /// many these will be.
    stretches: Vec<Stretch<'s>>,
    blocks: usize,
    grouped: usize,
    /// Filled buffers, with the bytes of each, and what each partition, or slice of one, has of
    /// them: all of the split's, if runs are to be made of them, or what is to be kept next.
    buffers: Vec<(PoolBuffer<'s>, usize)>,
    pieces: Vec<Range>,
    tally: Tally,
    /// The position of the next record that comes; `None` before any block has come.
    next: Option<Position>,
    /// Bytes that come next and belong to another split.
    skip: usize,
    /// Records of small blocks, and the beginning of one that a block has cut, which wait until
    /// there are so many bytes.
    waiting: Vec<u8>,
    enough: usize,
}

/// Whole records, one behind the other.
enum Stretch<'s> {
    Own(Vec<u8>),
    Block(PoolBuffer<'s>, ops::Range<usize>),
}

impl Stretch<'_> {
    fn records(&self) -> &[u8] {
        match self {
            Stretch::Own(records) => records,
            Stretch::Block(buffer, records) => &buffer[records.clone()],
        }
    }
}

impl<'t, 's> Split<'t, 's> {
    fn new(task: &'t Task<'s>) -> Outcome<Split<'t, 's>> {
        // A run has the records of all slices. With little memory no more is taken than has to be.
        let (slices, grouped) = match task.spills() {
            true => (NonZeroU32::MIN, 1),
            false => (task.slices(), blocks_grouped(task)),
        };
        Ok(Split {
            task,
            groups: Groups::new(plan(task)?, slices),
            stretches: Vec::new(),
            blocks: 0,
            grouped,
            buffers: Vec::new(),
            pieces: Vec::new(),
            tally: Tally::default(),
            next: None,
            skip: 0,
            waiting: Vec::new(),
            enough: 0,
        })
    }

    /// A block comes that begins there in its dataset; buffers have so many bytes.
    fn begin(&mut self, at: u64, buffer: usize) {
        if self.next.is_none() {
            self.enough = buffer / 2;
            (self.next, self.skip) = (Some(position(self.task.dataset(), at)), skipped(at));
        }
    }

    fn take(&mut self, block: Block<'s>) -> Outcome {
        let skipped = self.skip.min(block.bytes);
        self.skip -= skipped;
        let bytes = &block.buffer[skipped..block.bytes];
        let missing = self.waiting.len().next_multiple_of(LENGTH) - self.waiting.len();
        let (end, bytes) = bytes.split_at(missing.min(bytes.len()));
        self.waiting.extend_from_slice(end);
        let is_enough = self.waiting.len() + bytes.len() >= self.enough;
        if !is_enough || !self.waiting.len().is_multiple_of(LENGTH) {
            self.waiting.extend_from_slice(bytes);
            return Ok(());
        }
        let start = skipped + end.len();
        let (records, begun) = bytes.split_at(bytes.len() / LENGTH * LENGTH);
        let waiting = mem::replace(&mut self.waiting, begun.to_vec());
        let records = start..start + records.len();
        self.stretches.extend([Stretch::Own(waiting), Stretch::Block(block.buffer, records)]);
        self.blocks += 1;
        if self.blocks == self.grouped { self.group() } else { Ok(()) }
    }

    /// Groups the records that wait into as few buffers as hold them, about equally full.
    fn group(&mut self) -> Outcome {
        let stretches = mem::take(&mut self.stretches);
        self.blocks = 0;
        let records: Vec<&[u8]> = stretches.iter().map(Stretch::records).collect();
        let count = records.iter().map(|it| it.len()).sum::<usize>() / LENGTH;
        if count == 0 {
            return Ok(());
        }
        let mut buffers = Vec::from([self.task.buffer()?]);
        let needed = count.div_ceil(whole(buffers[0].len())? / LENGTH);
        while buffers.len() < needed {
            buffers.push(self.task.buffer()?);
        }
        let full = count.div_ceil(needed) * LENGTH;
        let mut out: Vec<&mut [u8]> = buffers.iter_mut().map(|it| &mut it[..full]).collect();
        let next = self.next.get_or_insert(Position(0));
        let made = self.groups.make::<Records>(&records, *next, &mut out);
        self.tally += made.map_err(|error| Halt::code(format!("{error}")))?;
        next.0 += count as u64;
        let first = self.buffers.len();
        for class in 0..self.groups.classes() {
            let ranges = self.groups.class(class).filter(|(_, range)| !range.is_empty());
            for (buffer, range) in ranges {
                let (start, bytes) = (range.start as u32, range.len() as u32);
                let buffer = (first + buffer) as u32;
                self.pieces.push(Range { partition: class as u32, buffer, start, bytes });
            }
        }
        for (at, buffer) in buffers.into_iter().enumerate() {
            self.buffers.push((buffer, full.min(count * LENGTH - at * full)));
        }
        // Of each buffer a part at least of a class, and one more where one begins.
        let next = 2 * (self.grouped + 1) + self.groups.classes();
        let more = self.buffers.len() + self.pieces.len() + next;
        if more * DESCRIBED > MOST_DESCRIBED && !self.task.spills() { self.keep() } else { Ok(()) }
    }

    /// Keeps what there is as an output, and goes on with none.
    fn keep(&mut self) -> Outcome {
        let (buffers, pieces) = (mem::take(&mut self.buffers), mem::take(&mut self.pieces));
        if buffers.is_empty() {
            return Ok(());
        }
        // Records of a bucket are in the order of the input, through outputs that are joined, too.
        self.task.keep(buffers, pieces, Vec::new(), Far::Joined)
    }

    fn end(mut self) -> Outcome<Done> {
        let cut = self.waiting.len() % LENGTH;
        if cut > 0 {
            self.waiting.extend(rest(self.task, cut)?);
        }
        self.stretches.push(Stretch::Own(mem::take(&mut self.waiting)));
        self.group()?;
        match self.task.spills() {
            true => self.spill()?,
            false => self.keep()?,
        }
        Ok(Done { records: self.tally.records, checksum: self.tally.sum })
    }

    /// Writes a run for each partition.
    fn spill(&self) -> Outcome {
        let plan = plan(self.task)?;
        for part in 0..self.task.partitions() {
            let pieces = self.pieces.iter().filter(|piece| piece.partition == part);
            let block = |piece: &Range| {
                let start = piece.start as usize;
                &self.buffers[piece.buffer as usize].0[start..start + piece.bytes as usize]
            };
            let (blocks, starts) = (pieces.map(block).collect(), plan.starts(part as usize));
            let mut sorted =
                Sorted::new::<Records>(blocks, starts, MOST_ENTRIES).map_err(failed)?;
            loop {
                let mut buffer = self.task.buffer()?;
                let most = whole(buffer.len())?;
                match sorted.fill::<Records>(&mut buffer[..most]).map_err(failed)? {
                    0 => break,
                    records => self.task.spill(part, buffer, records * LENGTH)?,
                }
            }
        }
        Ok(())
    }
}
