//! What is sorted in place of the records: their keys with their positions.

use core::fmt;

use crate::layout::Layout;

/// Which record of an input, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position(pub u64);

impl Position {
    /// The bits of an entry that hold a position.
    pub const BITS: u32 = 48;

    /// Greater than every record's position: inputs have at most 2^48 - 1 records.
    pub const END: Position = Position((1 << Position::BITS) - 1);
}

/// A record's key and, below it, its position: entries compare like the keys of their records,
/// and where these are equal like the records' positions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Entry(u128);

impl Entry {
    /// Bytes of an entry that travels by itself.
    pub const BYTES: usize = 16;

    /// Less than all others but itself.
    pub const LEAST: Entry = Entry(0);

    /// Greater than all others but itself.
    pub const GREATEST: Entry = Entry(u128::MAX);

    /// The entry of `record`, which is the input's `position`th; of the position, the lower 48
    /// bits count. Panics if the record is shorter than its layout says.
    #[inline(always)]
    pub fn new<L: Layout>(record: &[u8], position: Position) -> Entry {
        Entry(L::key(record) | (position.0 & Position::END.0) as u128)
    }

    /// Its record's position.
    #[inline(always)]
    pub fn position(self) -> Position {
        Position(self.0 as u64 & Position::END.0)
    }

    /// The first eight bytes of its key, as a number that compares like them.
    #[inline(always)]
    pub fn prefix(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The entry as it travels by itself: little endian.
    #[inline(always)]
    pub fn to_bytes(self) -> [u8; Entry::BYTES] {
        self.0.to_le_bytes()
    }

    /// The entry that [`Entry::to_bytes`] gave.
    #[inline(always)]
    pub fn from_bytes(bytes: [u8; Entry::BYTES]) -> Entry {
        Entry(u128::from_le_bytes(bytes))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020x}@{}", self.0 >> Position::BITS, self.position().0)
    }
}
