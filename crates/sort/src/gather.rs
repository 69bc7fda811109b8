//! Copies records in the order of their entries.
//!
//! The records lie all over memory, so that each is a cache miss, and the time of a gather is that
//! of its misses. They are therefore touched some records ahead of where they are copied: loads
//! that do not wait for each other are under way together.

use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;
use core::marker::PhantomData;
use core::ops::Deref;

use crate::entry::{Entry, Position};
use crate::layout::Layout;

/// Records that are touched before they are copied.
const AHEAD: usize = 16;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Where records are found.
pub trait Records {
    /// The bytes from this record on, as far as they are in one place; `None` if it is not here.
    fn record(&self, position: Position) -> Option<&[u8]>;
}

/// Records that lie one after the other in one place.
pub struct InRow<'a, L>(&'a [u8], Position, PhantomData<L>);

impl<'a, L: Layout> InRow<'a, L> {
    /// `bytes` are the records from `first` on.
    pub fn new(bytes: &'a [u8], first: Position) -> InRow<'a, L> {
        InRow(bytes, first, PhantomData)
    }
}

impl<L: Layout> Records for InRow<'_, L> {
    #[inline(always)]
    fn record(&self, position: Position) -> Option<&[u8]> {
        let index = usize::try_from(position.0.checked_sub(self.1.0)?).ok()?;
        self.0.get(index.checked_mul(L::LENGTH)?..)
    }
}

/// Records in several blocks, each of the same power of two of records, but for the last.
pub struct InBlocks<L, B> {
    blocks: Vec<B>,
    first: Position,
    shift: u32,
    layout: PhantomData<L>,
}

impl<L: Layout, B: Deref<Target = [u8]>> InBlocks<L, B> {
    /// `blocks` are the records from `first` on, 2^`shift` of them in each.
    pub fn new(blocks: Vec<B>, first: Position, shift: u32) -> InBlocks<L, B> {
        InBlocks { blocks, first, shift: shift.min(Position::BITS), layout: PhantomData }
    }

    /// The blocks.
    pub fn into_blocks(self) -> Vec<B> {
        self.blocks
    }
}

impl<L: Layout, B: Deref<Target = [u8]>> Records for InBlocks<L, B> {
    #[inline(always)]
    fn record(&self, position: Position) -> Option<&[u8]> {
        let index = position.0.checked_sub(self.first.0)?;
        let block = self.blocks.get(usize::try_from(index >> self.shift).ok()?)?;
        let inside = (index & ((1 << self.shift) - 1)) as usize;
        block.get(inside.checked_mul(L::LENGTH)?..)
    }
}

/// A record is not where it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing(pub Position);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} is not in memory", self.0.0)
    }
}

/// Copies the records of `entries` into `out`, as many as there are and as fit, and gives how many
/// that was.
pub fn gather<L: Layout, R: Records>(
    entries: &[Entry],
    records: &R,
    out: &mut [u8],
) -> Result<usize, Missing> {
    let mut out = out.chunks_exact_mut(L::LENGTH);
    let entries = &entries[..entries.len().min(out.len())];
    for group in entries.chunks(AHEAD) {
        let mut found: [&[u8]; AHEAD] = [&[]; AHEAD];
        let mut touched = 0u8;
        for (record, entry) in found.iter_mut().zip(group) {
            let position = entry.position();
            let bytes = records.record(position).and_then(|bytes| bytes.get(..L::LENGTH));
            *record = bytes.ok_or(Missing(position))?;
            touched ^= record[0] ^ record[L::LENGTH / 2] ^ record[L::LENGTH - 1];
        }
        // Without this, the compiler sees that nobody wants what was read.
        black_box(touched);
        for (record, out) in found.iter().zip(out.by_ref().take(group.len())) {
            out.copy_from_slice(&record[..L::LENGTH]);
        }
    }
    const { assert!(L::LENGTH <= 3 * LINE, "longer records have lines that are not touched") };
    Ok(entries.len())
}
