//! The Sort Benchmark's checksum: it tells whether the same records are there, in any order.

use core::fmt;
use core::ops::{Add, AddAssign};

/// The sum of the records' CRC-32s (the polynomial of zlib), in 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Checksum(pub u128);

impl Checksum {
    /// The checksum of one record.
    #[inline]
    pub fn of(record: &[u8]) -> Checksum {
        Checksum(crc32fast::hash(record).into())
    }
}

impl Add for Checksum {
    type Output = Checksum;

    fn add(self, other: Checksum) -> Checksum {
        Checksum(self.0.wrapping_add(other.0))
    }
}

impl AddAssign for Checksum {
    fn add_assign(&mut self, other: Checksum) {
        *self = *self + other;
    }
}

/// As `valsort` and Hadoop's `teravalidate` print it: hexadecimal, without leading zeros.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}
