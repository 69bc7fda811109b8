//! Pairs of key and value as a stream of bytes, in buffers that may end anywhere: the lengths of
//! both, in seven bits a byte with the lowest first, then both.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;

use nile_interfaces::task::records::{Far, Range};
use nile_user::PoolBuffer;

use crate::outcome::{Halt, Outcome};
use crate::task::{Block, DESCRIBED, Kept, MOST_DESCRIBED, Run, Source, Task};

/// A buffer that is being filled.
#[derive(Default)]
pub(crate) struct Filling<'s> {
    buffer: Option<PoolBuffer<'s>>,
    filled: usize,
}

impl<'s> Filling<'s> {
    /// Copies from the beginning of `bytes`, and takes that off, as much as fits. Gives the buffer,
    /// with what is in it, once it is full.
    pub fn put(
        &mut self,
        task: &Task<'s>,
        bytes: &mut &[u8],
    ) -> Outcome<Option<(PoolBuffer<'s>, usize)>> {
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => task.buffer()?,
        };
        let room = &mut buffer[self.filled..];
        let (now, later) = bytes.split_at(bytes.len().min(room.len()));
        room[..now.len()].copy_from_slice(now);
        let is_full = now.len() == room.len();
        self.filled += now.len();
        *bytes = later;
        if is_full {
            return Ok(Some((buffer, mem::take(&mut self.filled))));
        }
        self.buffer = Some(buffer);
        Ok(None)
    }

    /// How many bytes of the present buffer are filled.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// What there is, if anything.
    pub fn end(&mut self) -> Option<(PoolBuffer<'s>, usize)> {
        let filled = mem::take(&mut self.filled);
        self.buffer.take().filter(|_| filled > 0).map(|buffer| (buffer, filled))
    }
}

/// Appends a pair to `out`.
pub(crate) fn write(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for length in [key.len(), value.len()] {
        let mut rest = length;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The pairs of a source, one after the other.
pub(crate) struct Reader<'s> {
    from: From<'s>,
    /// The place of the part that is read, and how much of that has been.
    part: usize,
    at: usize,
    /// Bytes of all parts that have not been read.
    left: u64,
    /// The pair in front.
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

enum From<'s> {
    Heap(Vec<u8>),
    Kept(Kept<'s>),
    Run(Run, Option<Block<'s>>),
}

impl<'s> Reader<'s> {
    pub fn new(source: Source<'s>) -> Reader<'s> {
        let (from, left) = match source {
            Source::Kept(kept) => {
                let left = kept.pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
                (From::Kept(kept), left)
            }
            Source::Run(run) => (From::Run(run, None), run.bytes),
        };
        Reader { from, part: 0, at: 0, left, key: Vec::new(), value: Vec::new() }
    }

    /// The pairs of a stream in the package's heap.
    pub fn of_heap(stream: Vec<u8>) -> Reader<'s> {
        let left = stream.len() as u64;
        let (key, value) = Default::default();
        Reader { from: From::Heap(stream), part: 0, at: 0, left, key, value }
    }

    /// What is read is not as it was written: which source that is, and where.
    fn damaged(&self) -> Halt {
        let from = match &self.from {
            From::Heap(_) => String::from("in the package's memory"),
            From::Kept(kept) => format!("of map {} in memory", kept.map),
            From::Run(run, _) => format!("of map {} on a disk", run.map),
        };
        let Reader { part, at, left, .. } = self;
        let place = format!("part {part}, byte {at}, {left} bytes to come");
        Halt::input(format!("pairs {from} are damaged ({place}): a map task has to run again"))
    }

    /// Puts the next pair in front; whether there is one.
    pub fn next(&mut self, task: &Task<'s>) -> Outcome<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let (key, value) = (self.length(task)?, self.length(task)?);
        let mut bytes = mem::take(&mut self.key);
        self.read(task, key, &mut bytes)?;
        self.key = bytes;
        let mut bytes = mem::take(&mut self.value);
        self.read(task, value, &mut bytes)?;
        self.value = bytes;
        Ok(true)
    }

    fn length(&mut self, task: &Task<'s>) -> Outcome<u64> {
        let mut length = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = match self.rest()?.first().copied() {
                Some(byte) if self.left > 0 => {
                    (self.at, self.left) = (self.at + 1, self.left - 1);
                    byte
                }
                _ => {
                    let mut byte = Vec::new();
                    self.read(task, 1, &mut byte)?;
                    byte.first().copied().ok_or_else(|| self.damaged())?
                }
            };
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(length);
            }
        }
        Err(self.damaged())
    }

    /// Puts the next `count` bytes into `out`, instead of what is there.
    fn read(&mut self, task: &Task<'s>, count: u64, out: &mut Vec<u8>) -> Outcome {
        out.clear();
        self.left = self.left.checked_sub(count).ok_or_else(|| self.damaged())?;
        let count = usize::try_from(count).map_err(|_| self.damaged())?;
        while out.len() < count {
            let rest = self.rest()?;
            if rest.is_empty() {
                self.next_part(task)?;
                continue;
            }
            let taken = rest.len().min(count - out.len());
            out.extend_from_slice(&rest[..taken]);
            self.at += taken;
        }
        Ok(())
    }

    /// What has not been read of the present part.
    fn rest(&self) -> Outcome<&[u8]> {
        let part = match &self.from {
            From::Heap(stream) => stream,
            From::Kept(kept) => match kept.pieces.get(self.part) {
                Some(piece) => kept.range(piece).ok_or_else(|| self.damaged())?,
                None => &[],
            },
            From::Run(_, block) => {
                block.as_ref().map_or(&[][..], |block| &block.buffer[..block.bytes])
            }
        };
        Ok(part.get(self.at..).unwrap_or_default())
    }

    fn next_part(&mut self, task: &Task<'s>) -> Outcome {
        self.at = 0;
        match &mut self.from {
            From::Heap(_) => return Err(self.damaged()),
            From::Run(run, block) => {
                // Given back before another is there.
                let more = block.take().is_none_or(|block| block.more);
                if !more {
                    return Err(self.damaged());
                }
                let next = task.run(*run, self.part as u32)?;
                if next.bytes == 0 && !next.more {
                    return Err(self.damaged());
                }
                *block = Some(next);
                self.part += 1;
            }
            From::Kept(kept) => {
                self.part += 1;
                if self.part >= kept.pieces.len() {
                    return Err(self.damaged());
                }
            }
        }
        Ok(())
    }
}

/// Sorted pairs of several partitions as an output in memory.
#[derive(Default)]
pub(crate) struct Packing<'s> {
    filling: Filling<'s>,
    buffers: Vec<(PoolBuffer<'s>, usize)>,
    pieces: Vec<Range>,
}

impl<'s> Packing<'s> {
    /// Adds bytes of a partition.
    pub fn put(&mut self, task: &Task<'s>, partition: u32, mut bytes: &[u8]) -> Outcome {
        while !bytes.is_empty() {
            let (start, before) = (self.filling.filled(), bytes.len());
            let full = self.filling.put(task, &mut bytes)?;
            let buffer = self.buffers.len() as u32;
            self.buffers.extend(full);
            let piece = Range {
                partition,
                buffer,
                start: start as u32,
                bytes: (before - bytes.len()) as u32,
            };
            match self.pieces.last_mut() {
                Some(last) if last.partition == partition && last.buffer == buffer => {
                    last.bytes += piece.bytes;
                }
                _ => self.pieces.push(piece),
            }
        }
        Ok(())
    }

    /// Whether it takes about as much to tell of it as fits a message.
    pub fn is_full(&self) -> bool {
        (self.buffers.len() + self.pieces.len()) * DESCRIBED > MOST_DESCRIBED
    }

    /// Keeps the output, if there is anything; how many buffers that are.
    pub fn keep(mut self, task: &Task<'s>) -> Outcome<usize> {
        self.buffers.extend(self.filling.end());
        let buffers = self.buffers.len();
        if buffers > 0 {
            task.keep(self.buffers, self.pieces, Vec::new(), Far::Ranges)?;
        }
        Ok(buffers)
    }
}
