//! Map tasks: the records of each block move to another buffer, grouped by the buckets of
//! partitions. What each slice of a partition has there is kept, or each partition's records are
//! written as a run, in order.

use alloc::format;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU32;

use nile_sort::{Groups, Position, Sorted, Tally};
use nile_tasks::{Done, Far, Halt, Outcome, Range, Task};
use nile_user::PoolBuffer;

use super::bounds::{plan, position};
use super::{MOST_ENTRIES, failed};
use crate::records::{self, LENGTH, Records, rest, skipped, whole};

/// Bytes that describe an output, at most: they travel in one message.
const MOST_DESCRIBED: usize = 40 << 10;

/// Bytes of a range, and of a buffer's handle, in a message.
const DESCRIBED: usize = 16;

/// Leaves the split's records, grouped or as runs.
pub fn map(task: &Task<'_>) -> Outcome<Done> {
    let mut split = Split::new(task)?;
    records::blocks(task, |block| {
        split.begin(block.at, block.buffer.len());
        split.take(&block.buffer[..block.bytes])
    })?;
    split.end()
}

/// A split on its way through.
struct Split<'t, 's> {
    task: &'t Task<'s>,
    groups: Groups,
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

impl<'t, 's> Split<'t, 's> {
    fn new(task: &'t Task<'s>) -> Outcome<Split<'t, 's>> {
        // A run has the records of all slices.
        let slices = if task.spills() { NonZeroU32::MIN } else { task.slices() };
        Ok(Split {
            task,
            groups: Groups::new(plan(task)?, slices),
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

    fn take(&mut self, bytes: &[u8]) -> Outcome {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let bytes = &bytes[skipped..];
        let missing = self.waiting.len().next_multiple_of(LENGTH) - self.waiting.len();
        let (end, bytes) = bytes.split_at(missing.min(bytes.len()));
        self.waiting.extend_from_slice(end);
        let is_enough = self.waiting.len() + bytes.len() >= self.enough;
        if !is_enough || !self.waiting.len().is_multiple_of(LENGTH) {
            self.waiting.extend_from_slice(bytes);
            return Ok(());
        }
        let mut waiting = mem::take(&mut self.waiting);
        let (records, begun) = bytes.split_at(bytes.len() / LENGTH * LENGTH);
        self.add(&waiting, records)?;
        waiting.clear();
        waiting.extend_from_slice(begun);
        self.waiting = waiting;
        Ok(())
    }

    /// Groups the records of two stretches into as few buffers as hold them, about equally full.
    fn add(&mut self, mut one: &[u8], mut other: &[u8]) -> Outcome {
        let mut count = (one.len() + other.len()) / LENGTH;
        while count > 0 {
            let mut buffer = self.task.buffer()?;
            let room = whole(buffer.len())? / LENGTH;
            let now = count.div_ceil(count.div_ceil(room));
            let (first, rest) = one.split_at(one.len().min(now * LENGTH));
            let (second, later) = other.split_at(now * LENGTH - first.len());
            let next = self.next.get_or_insert(Position(0));
            let made = self.groups.make::<Records>([first, second], *next, &mut buffer);
            self.tally += made.map_err(|error| Halt::code(format!("{error}")))?;
            next.0 += now as u64;
            (one, other, count) = (rest, later, count - now);
            self.push(buffer, now * LENGTH)?;
        }
        Ok(())
    }

    fn push(&mut self, buffer: PoolBuffer<'s>, bytes: usize) -> Outcome {
        let number = self.buffers.len() as u32;
        for class in 0..self.groups.classes() {
            let range = self.groups.class(class);
            if !range.is_empty() {
                let (start, bytes) = (range.start as u32, range.len() as u32);
                self.pieces.push(Range { partition: class as u32, buffer: number, start, bytes });
            }
        }
        self.buffers.push((buffer, bytes));
        let more = self.buffers.len() + self.pieces.len() + 1 + self.groups.classes();
        if more * DESCRIBED > MOST_DESCRIBED && !self.task.spills() { self.keep() } else { Ok(()) }
    }

    /// Keeps what there is as an output, and goes on with none.
    fn keep(&mut self) -> Outcome {
        let (buffers, pieces) = (mem::take(&mut self.buffers), mem::take(&mut self.pieces));
        let none = Vec::new();
        if buffers.is_empty() { Ok(()) } else { self.task.keep(buffers, pieces, none, Far::Ranges) }
    }

    fn end(mut self) -> Outcome<Done> {
        let cut = self.waiting.len() % LENGTH;
        if cut > 0 {
            self.waiting.extend(rest(self.task, cut)?);
        }
        let waiting = mem::take(&mut self.waiting);
        self.add(&waiting, &[])?;
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
