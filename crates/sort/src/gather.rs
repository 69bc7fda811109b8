//! Copies records in the order of their entries.
//!
//! The records lie in many blocks, a few of each in a row. They were read a moment ago, for their
//! keys, but are no longer in the nearest cache: the processor is asked for records some ahead of
//! the one that is copied ([`Layout::prefetch`]), so that many are under way together. To read a
//! byte of each ahead of time is no substitute: what was read first holds up what comes after it.

use crate::entry::{Entry, Position};
use crate::layout::Layout;

/// Records that are on their way while one is copied.
const AHEAD: usize = 24;

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

/// Copies the records of `entries`, whose positions are [places](Place) in `blocks`, into `out`, as
/// many as there are and as fit, and gives how many that was. Panics if there is no such record.
pub fn gather<L: Layout>(entries: &[Entry], blocks: &[&[u8]], out: &mut [u8]) -> usize {
    let find = |entry: &Entry| {
        let Place { block, record } = Place::of(entry.position());
        &blocks[block][record * L::LENGTH..][..L::LENGTH]
    };
    let out = out.chunks_exact_mut(L::LENGTH);
    let count = entries.len().min(out.len());
    entries.iter().take(AHEAD).for_each(|entry| L::prefetch_all(find(entry)));
    for (at, out) in out.take(count).enumerate() {
        if let Some(entry) = entries.get(at + AHEAD) {
            L::prefetch_all(find(entry));
        }
        out.copy_from_slice(find(&entries[at]));
    }
    count
}
