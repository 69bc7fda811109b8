//! What the two ends of a channel agree on: where its positions and cells lie.

use core::fmt;

use nile_abi::{EndpointId, Generation};

use crate::region::{LINE_BYTES, Line, Region};

/// Lines before the first cell: the sender's and the receiver's.
const HEADER_LINES: usize = 2;

/// The most cells of one ring: positions of 32 bits must tell a full ring from an empty one.
const MAX_CAPACITY: usize = 1 << 31;

/// One incarnation of a channel's receiving end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The receiver's bit in the map.
    pub id: EndpointId,
    /// Which of its incarnations.
    pub generation: Generation,
}

impl Endpoint {
    /// What a cell carries of the generation.
    #[inline]
    pub(crate) fn stamp(self) -> u16 {
        self.generation.0 as u16
    }
}

/// The region's size is no ring's: it holds no power of two of cells after its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadSize;

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the region is not two lines and a power of two of cells")
    }
}

/// Bytes of the region that a ring of `capacity` cells takes.
pub const fn region_len(capacity: usize) -> usize {
    (HEADER_LINES + capacity) * LINE_BYTES
}

/// A ring's memory, split into its parts.
#[derive(Debug)]
pub(crate) struct Ring {
    region: Region,
    mask: u32,
}

impl Ring {
    /// The capacity follows from the region's length, so no peer can lie about it.
    pub fn attach(region: Region) -> Result<Ring, BadSize> {
        let capacity = region.lines().len().checked_sub(HEADER_LINES).ok_or(BadSize)?;
        if !capacity.is_power_of_two() || capacity > MAX_CAPACITY {
            return Err(BadSize);
        }
        Ok(Ring { region, mask: (capacity - 1) as u32 })
    }

    #[inline]
    pub fn capacity(&self) -> u32 {
        self.mask + 1
    }

    /// The line that only the sender writes: its next position.
    #[inline]
    pub fn sender_line(&self) -> &Line {
        &self.region.lines()[0]
    }

    /// The line that only the receiver writes: its next position.
    #[inline]
    pub fn receiver_line(&self) -> &Line {
        &self.region.lines()[1]
    }

    #[inline]
    pub fn cell(&self, position: u32) -> &Line {
        &self.region.lines()[HEADER_LINES + (position & self.mask) as usize]
    }

    pub fn into_region(self) -> Region {
        self.region
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
