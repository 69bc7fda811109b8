//! What the physical memory service tells others about the memory of its node.

use nile_abi::{CoreId, PageSize, PhysAddr};

/// A piece that is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The core that asked for it.
    pub owner: CoreId,
    /// The size it was given in, and must come back in.
    pub size: PageSize,
}

/// How many pieces of each size one core has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pieces: [u64; 3],
}

impl Usage {
    /// Pieces of `size`.
    pub fn pieces(&self, size: PageSize) -> u64 {
        self.pieces[size as usize]
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        PageSize::ALL.into_iter().map(|size| self.pieces(size) * size.bytes()).sum()
    }

    pub(super) fn add(&mut self, size: PageSize) {
        self.pieces[size as usize] += 1;
    }

    pub(super) fn remove(&mut self, size: PageSize) {
        self.pieces[size as usize] -= 1;
    }
}

/// The node's pieces of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeCount {
    /// How many requests of this size could be met now. A free 2 MiB collection counts here as
    /// one of its own size and as 512 frames.
    pub free: u64,
    /// How many are handed out in this size.
    pub used: u64,
}

/// The node's memory in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Bytes that were put under the service's care, not removed, and not away.
    pub usable_bytes: u64,
    /// Bytes that can be handed out now; those of regions being drained cannot.
    pub free_bytes: u64,
    sizes: [SizeCount; 3],
}

impl Statistics {
    /// Free and used pieces of `size`.
    pub fn size(&self, size: PageSize) -> SizeCount {
        self.sizes[size as usize]
    }

    pub(super) fn add(&mut self, size: PageSize, free: u64, used: u64) {
        let count = &mut self.sizes[size as usize];
        count.free += free;
        count.used += used;
    }
}

/// One region under the service's care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionReport {
    /// The first byte; names the region.
    pub start: PhysAddr,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of it that are neither handed out nor away.
    pub free_bytes: u64,
    /// Whether nothing of it is handed out any more, so that it can be removed once empty.
    pub draining: bool,
}

impl RegionReport {
    /// Whether nothing of the region is handed out.
    pub fn is_empty(&self) -> bool {
        self.free_bytes == self.bytes
    }
}
