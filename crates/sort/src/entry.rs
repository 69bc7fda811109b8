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

    /// Bytes of an entry that is [packed](Entry::pack).
    pub const PACKED: usize = 12;

    /// The most records of a block whose entries are packed.
    pub const MOST_PACKED: usize = 1 << Entry::PACKED_BITS;

    /// The bits of a packed entry that hold a position.
    const PACKED_BITS: u32 = 16;

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

    /// The entry of a record with the same key and this position.
    #[inline(always)]
    pub fn at(self, position: Position) -> Entry {
        Entry(self.key() | (position.0 & Position::END.0) as u128)
    }

    /// The first eight bytes of its key, as a number that compares like them.
    #[inline(always)]
    pub fn prefix(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Its key, as [`Layout::key`] gives it.
    #[inline(always)]
    pub fn key(self) -> u128 {
        self.0 >> Position::BITS << Position::BITS
    }

    /// The entry as it lies beside the block that its record is in: little endian. Of the position,
    /// which counts from the block's first record, the lower 16 bits are kept.
    #[inline(always)]
    pub fn pack(self) -> [u8; Entry::PACKED] {
        const MASK: u128 = Entry::MOST_PACKED as u128 - 1;
        let key = self.0 >> Position::BITS << Entry::PACKED_BITS;
        let [low @ .., _, _, _, _] = (key | (self.0 & MASK)).to_le_bytes();
        low
    }

    /// The entry that [`Entry::pack`] gave.
    #[inline(always)]
    pub fn unpack(packed: &[u8; Entry::PACKED]) -> Entry {
        const MASK: u128 = Entry::MOST_PACKED as u128 - 1;
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *packed;
        let word = u128::from_le_bytes([a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, 0]);
        Entry((word >> Entry::PACKED_BITS << Position::BITS) | (word & MASK))
    }

    /// The first eight bytes of its key, as [`Entry::prefix`] gives them.
    #[inline(always)]
    pub fn packed_prefix(packed: &[u8; Entry::PACKED]) -> u64 {
        let [_, _, _, _, prefix @ ..] = *packed;
        u64::from_le_bytes(prefix)
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
