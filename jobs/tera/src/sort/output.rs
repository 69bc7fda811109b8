//! What a sort's map task keeps, which its note tells: blocks of records in the order of the input
//! with their entries behind them, where the output's ranges are the entries of each partition; or,
//! if there is no note, grouped records, whose ranges have records and entries of a slice of a
//! partition.

use alloc::vec::Vec;
use core::mem;

use nile_sort::{Block, Index, Position, Tally, Tera, grouped};
use nile_tasks::{Far, Halt, Kept, Outcome, Range, Task};
use nile_user::PoolBuffer;

use crate::records::{LENGTH, Records};

/// Bytes of a note for each buffer: how many records there are.
const NOTED: usize = 4;

/// Bytes that describe an output, at most: they travel in one message, with the note.
pub const MOST_DESCRIBED: usize = 40 << 10;

/// Bytes of a range, and of a buffer's handle, in a message.
pub const DESCRIBED: usize = 16;

/// Blocks with entries.
#[derive(Default)]
pub struct Indexed<'s> {
    buffers: Vec<(PoolBuffer<'s>, usize)>,
    pieces: Vec<Range>,
    /// How many records each buffer has.
    blocks: Vec<u32>,
    /// Of all records so far.
    pub tally: Tally,
}

impl<'s> Indexed<'s> {
    /// Makes the entries of `records` records at the beginning of a buffer, behind them. Fails if
    /// there is no room.
    pub fn add(
        &mut self,
        index: &mut Index,
        mut buffer: PoolBuffer<'s>,
        records: usize,
        first: Position,
    ) -> Outcome {
        let (block, entries) = buffer.split_at_mut(records * LENGTH);
        let tally = index.make::<Records>(block, first, entries);
        self.tally += tally.map_err(|error| Halt::code(alloc::format!("{error}")))?;
        let number = self.buffers.len() as u32;
        let mut end = records * LENGTH;
        for part in 0..index.parts() {
            let entries = index.part(part);
            if !entries.is_empty() {
                let start = records * LENGTH + entries.start;
                end = start + entries.len();
                let (start, bytes) = (start as u32, entries.len() as u32);
                self.pieces.push(Range { partition: part as u32, buffer: number, start, bytes });
            }
        }
        self.buffers.push((buffer, end));
        self.blocks.push(records as u32);
        Ok(())
    }

    /// Whether one block more, with so many partitions, would make the output too large to be told
    /// of.
    pub fn is_full(&self, parts: usize) -> bool {
        let block = NOTED + DESCRIBED * (1 + parts);
        (self.blocks.len() + 1) * block > MOST_DESCRIBED
    }

    /// Keeps what there is as an output, and goes on with none.
    pub fn keep(&mut self, task: &Task<'s>) -> Outcome {
        let mut note = Vec::new();
        self.blocks.drain(..).for_each(|records| note.extend(records.to_le_bytes()));
        let (buffers, pieces) = (mem::take(&mut self.buffers), mem::take(&mut self.pieces));
        if buffers.is_empty() { Ok(()) } else { task.keep(buffers, pieces, note, Far::Whole) }
    }

    /// One partition's share of all blocks.
    pub fn part(&self, part: u32) -> Vec<Block<'_>> {
        let pieces = self.pieces.iter().filter(|piece| piece.partition == part);
        let block = |piece: &Range| {
            let number = piece.buffer as usize;
            let ((buffer, _), records) = (&self.buffers[number], self.blocks[number]);
            let start = piece.start as usize;
            let entries = &buffer[start..start + piece.bytes as usize];
            Block { records: &buffer[..records as usize * LENGTH], entries }
        };
        pieces.map(block).collect()
    }
}

/// The blocks of an output that was kept, with the entries of its ranges. It fails for what no map
/// task has left.
pub fn blocks<'k>(kept: &'k Kept<'_>) -> Outcome<Vec<Block<'k>>> {
    let (notes, _) = kept.note.as_chunks::<NOTED>();
    let block = |piece: &Range| {
        let range = kept.range(piece)?;
        if kept.note.is_empty() {
            return Some(grouped::<Tera>(range));
        }
        let records = u32::from_le_bytes(*notes.get(piece.buffer as usize)?) as usize;
        let records = kept.buffer(piece.buffer).get(..records.checked_mul(LENGTH)?)?;
        Some(Block { records, entries: range })
    };
    let blocks = kept.pieces.iter().map(block).collect::<Option<Vec<_>>>();
    blocks.ok_or_else(|| Halt::input("an output of a map task is damaged: it has to run again"))
}
