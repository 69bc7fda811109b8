//! A map task's step: an entry of each record, in a bucket of the part that it belongs to, in one
//! pass over the records.
//!
//! Entries lie in *pieces*, memory that the caller gives and that may be handed to another core:
//! each piece holds entries of one part. A piece consists of blocks of 64 slots of 16 bytes.
//!
//! ```text
//! slot 0         the cursor of the bucket's block before this one, or zero: 8 bytes | zero 8
//! slots 1..64    entries
//! ```
//!
//! A bucket's *cursor* is the slot, counted through all pieces of its part, after its last entry;
//! zero if it is empty. Since slot 0 of a block holds no entry, a cursor at the first slot of a
//! block means that the block before it is full.

use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::entry::{Entry, Position};
use crate::layout::Layout;
use crate::plan::Plan;

/// Slots of a block.
const BLOCK: usize = 64;

/// The entries of a map task, as it makes them.
pub struct Scatter<P> {
    plan: Plan,
    parts: Vec<Growing<P>>,
    /// One for each bucket of each part.
    cursors: Vec<u32>,
    /// The base-two logarithm of the slots of a piece.
    shift: u32,
}

/// The base-two logarithm of the slots that are used of a piece of so many bytes.
fn shift(bytes: usize) -> u32 {
    (bytes / Entry::BYTES).clamp(BLOCK, 1 << 27).ilog2()
}

/// A part's pieces.
struct Growing<P> {
    pieces: Vec<P>,
    /// The first slot of the next block.
    free: u32,
}

/// No piece was left for a record's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    /// The part that wants another piece.
    pub part: usize,
    /// Records that were taken before that one.
    pub taken: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} has no memory for more entries: sort and spill it", self.part)
    }
}

impl<P: DerefMut<Target = [u8]>> Scatter<P> {
    /// Begins a map task. Pieces will have `piece_bytes` bytes, at least 1 KiB, of which the
    /// greatest power of two is used, up to 2 GiB.
    pub fn new(plan: Plan, piece_bytes: usize) -> Scatter<P> {
        let parts = (0..plan.parts()).map(|_| Growing { pieces: Vec::new(), free: 0 }).collect();
        let cursors = alloc::vec![0; plan.parts() * plan.buckets()];
        Scatter { plan, parts, cursors, shift: shift(piece_bytes) }
    }

    /// Takes the entries of `records`, whole records of which the first is the input's `first`.
    /// `more` gives a further piece of memory for a part; if it gives none, the records before
    /// that one have been taken. Bytes after the last whole record are not looked at, and a piece
    /// that is shorter than it should be counts as none.
    pub fn scan<L: Layout>(
        &mut self,
        records: &[u8],
        first: Position,
        mut more: impl FnMut(usize) -> Option<P>,
    ) -> Result<(), Full> {
        let mask = (1usize << self.shift) - 1;
        for (taken, record) in records.chunks_exact(L::LENGTH).enumerate() {
            let entry = Entry::new::<L>(record, Position(first.0.wrapping_add(taken as u64)));
            let (part, bucket) = self.plan.place(entry);
            let growing = &mut self.parts[part];
            let cursor = &mut self.cursors[bucket];
            if (*cursor as usize).is_multiple_of(BLOCK) {
                *cursor = growing
                    .block(*cursor, self.shift, || more(part))
                    .ok_or(Full { part, taken })?;
            }
            let slot = *cursor as usize;
            let (slots, _) = growing.pieces[slot >> self.shift].as_chunks_mut();
            slots[slot & mask] = entry.to_bytes();
            *cursor += 1;
        }
        Ok(())
    }

    /// What each part has got, for its reduce task.
    pub fn finish(self) -> Vec<Part<P>> {
        let Scatter { plan, parts, cursors, shift } = self;
        let cursors = cursors.chunks_exact(plan.buckets());
        let parts = parts.into_iter().zip(cursors);
        parts
            .map(|(growing, cursors)| Part {
                pieces: growing.pieces,
                cursors: cursors.to_vec(),
                shift,
            })
            .collect()
    }
}

impl<P: DerefMut<Target = [u8]>> Growing<P> {
    /// Begins a block of a bucket whose cursor was `before`, and gives its new cursor.
    #[cold]
    #[inline(never)]
    fn block(&mut self, before: u32, shift: u32, more: impl FnOnce() -> Option<P>) -> Option<u32> {
        let slot = self.free as usize;
        let after = self.free.checked_add(BLOCK as u32)?;
        if slot >> shift == self.pieces.len() {
            self.pieces.push(more().filter(|piece| piece.len() >= Entry::BYTES << shift)?);
        }
        let (slots, _) = self.pieces[slot >> shift].as_chunks_mut();
        slots[slot & ((1 << shift) - 1)] = u128::from(before).to_le_bytes();
        self.free = after;
        Some(slot as u32 + 1)
    }
}

/// A part's entries from one map task, by buckets.
#[derive(Clone, Debug)]
pub struct Part<P> {
    pieces: Vec<P>,
    cursors: Vec<u32>,
    shift: u32,
}

/// A part's memory does not hold what a map task leaves there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("entries from a map task are damaged: run the task again")
    }
}

impl<P: Deref<Target = [u8]>> Part<P> {
    /// A part that came from elsewhere: its pieces in order, with what [`Part::cursors`] gave.
    /// All pieces are as long as the first one.
    pub fn new(pieces: Vec<P>, cursors: Vec<u32>) -> Part<P> {
        let shift = shift(pieces.first().map_or(0, |piece| piece.len()));
        Part { pieces, cursors, shift }
    }

    /// Its memory, in order.
    pub fn pieces(&self) -> &[P] {
        &self.pieces
    }

    /// Gives its memory back.
    pub fn into_pieces(self) -> Vec<P> {
        self.pieces
    }

    /// Where each bucket ends, which belongs to the pieces.
    pub fn cursors(&self) -> &[u32] {
        &self.cursors
    }

    /// How many buckets it has.
    pub fn buckets(&self) -> usize {
        self.cursors.len()
    }

    /// Calls `take` with the entries of a bucket, block by block, as bytes of [`Entry`]s. Which
    /// comes first means nothing.
    pub fn bucket(
        &self,
        bucket: usize,
        mut take: impl FnMut(&[[u8; Entry::BYTES]]),
    ) -> Result<(), Damaged> {
        let mut cursor = self.cursors.get(bucket).copied().unwrap_or(0) as usize;
        while cursor != 0 {
            let block = (cursor - 1) / BLOCK * BLOCK;
            let piece = self.pieces.get(block >> self.shift).ok_or(Damaged)?;
            let (slots, _) = piece.as_chunks();
            let from = block & ((1 << self.shift) - 1);
            let slots = slots.get(from..from + cursor - block).ok_or(Damaged)?;
            let (head, entries) = slots.split_first().ok_or(Damaged)?;
            take(entries);
            // A bucket's blocks were made one after the other, so that this ends.
            let before = u128::from_le_bytes(*head);
            if before > block as u128 || !before.is_multiple_of(BLOCK as u128) {
                return Err(Damaged);
            }
            cursor = before as usize;
        }
        Ok(())
    }

    /// Records of a bucket.
    pub fn count(&self, bucket: usize) -> Result<usize, Damaged> {
        let mut count = 0;
        self.bucket(bucket, |entries| count += entries.len())?;
        Ok(count)
    }
}
