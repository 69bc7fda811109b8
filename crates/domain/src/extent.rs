//! Memory in one piece.

/// Bytes of a unit of memory: what changes hands at once.
pub const UNIT: u64 = 2 << 20;

/// Units of memory that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Extent {
    /// The first one.
    pub start: u32,
    /// How many.
    pub count: u32,
}

impl Extent {
    /// Its units.
    pub fn units(self) -> core::ops::Range<u32> {
        self.start..self.start.saturating_add(self.count)
    }
}
