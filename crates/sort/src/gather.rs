//! Copies records in the order of their entries.
//!
//! The records lie all over memory, so that each is a cache miss, and the time of a gather is that
//! of its misses. They are therefore touched some records ahead of where they are copied: loads
//! that do not wait for each other are under way together.

use core::fmt;
use core::hint::black_box;

use crate::entry::{Entry, Position};
use crate::layout::Layout;

/// Records that are touched before they are copied.
const AHEAD: usize = 32;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The bits of a position that say which record of its block it is, if the rest of it says which
/// block.
const RECORD_BITS: u32 = 24;

/// The most records of a block, and the most blocks, that a [`Place`] can name.
pub const MOST: usize = 1 << RECORD_BITS;

/// Which record of which block: what the position of an entry says where records lie in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The block, counted from zero; less than [`MOST`].
    pub block: usize,
    /// The record in it; less than [`MOST`].
    pub record: usize,
}

impl Place {
    /// The place that a position names.
    #[inline(always)]
    pub fn of(position: Position) -> Place {
        let record = position.0 as usize & (MOST - 1);
        Place { block: (position.0 >> RECORD_BITS) as usize, record }
    }

    /// The position that names this place: its lower 48 bits.
    #[inline(always)]
    pub fn position(self) -> Position {
        Position((self.block as u64) << RECORD_BITS | self.record as u64)
    }
}

/// A record is not where it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing(pub Place);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of block {} is not in memory", self.0.record, self.0.block)
    }
}

/// Copies the records of `entries`, whose positions are [places](Place), into `out`, as many as
/// there are and as fit, and gives how many that was.
pub fn gather<L: Layout>(
    entries: &[Entry],
    blocks: &[&[u8]],
    out: &mut [u8],
) -> Result<usize, Missing> {
    let mut out = out.chunks_exact_mut(L::LENGTH);
    let entries = &entries[..entries.len().min(out.len())];
    for group in entries.chunks(AHEAD) {
        let mut found: [&[u8]; AHEAD] = [&[]; AHEAD];
        let mut touched = 0u8;
        for (record, entry) in found.iter_mut().zip(group) {
            let place = Place::of(entry.position());
            let start = place.record * L::LENGTH;
            let bytes = blocks.get(place.block).and_then(|block| block.get(start..));
            *record = bytes.and_then(|bytes| bytes.get(..L::LENGTH)).ok_or(Missing(place))?;
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
