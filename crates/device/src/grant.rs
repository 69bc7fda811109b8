//! Memory that was given to a core.

use nile_abi::{PageSize, PhysAddr};

/// Memory that the management core has given to this core: consecutive frames of the node.
/// Every core that shares it has it at the same address, where the machine has addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Grant {
    /// The first frame.
    pub start: PhysAddr,
    /// Bytes, a multiple of 4 KiB.
    pub bytes: u64,
}

impl Grant {
    /// Whether the grant is one 1 GiB collection, which a single mapping can cover.
    pub const fn is_huge(&self) -> bool {
        self.bytes == PageSize::Huge.bytes() && self.start.is_aligned(PageSize::Huge)
    }
}
