//! Copies records in the order of their entries.
//!
//! The records lie all over memory, so that each is a cache miss, and the time of a gather is that
//! of its misses. The processor is therefore asked for records some ahead of the one that is copied
//! ([`Layout::prefetch`]), so that many misses are under way together. To read a byte of each ahead
//! of time is no substitute: what was read first holds up what comes after it.

use core::fmt;

use crate::entry::{Entry, Position};
use crate::layout::Layout;

/// Records that are on their way while one is copied.
const AHEAD: usize = 24;

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
    let find = |entry: &Entry| {
        let place = Place::of(entry.position());
        let start = place.record * L::LENGTH;
        let bytes = blocks.get(place.block).and_then(|block| block.get(start..));
        bytes.and_then(|bytes| bytes.get(..L::LENGTH)).ok_or(Missing(place))
    };
    let fetch = |entry: &Entry| {
        // One that is missing is told when it would be copied.
        if let Ok(record) = find(entry) {
            record.iter().step_by(LINE).chain(record.last()).for_each(L::prefetch);
        }
    };
    let out = out.chunks_exact_mut(L::LENGTH);
    let count = entries.len().min(out.len());
    entries.iter().take(AHEAD).for_each(fetch);
    for (at, out) in out.take(count).enumerate() {
        if let Some(entry) = entries.get(at + AHEAD) {
            fetch(entry);
        }
        out.copy_from_slice(find(&entries[at])?);
    }
    Ok(count)
}
