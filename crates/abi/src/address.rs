//! Addresses and page sizes. An address says which space it is in by its type.

use core::fmt;

/// An address of the machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PhysAddr(pub u64);

/// An address as a core's page tables see it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct VirtAddr(pub u64);

/// What one mapping covers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PageSize {
    /// 4 KiB: one frame.
    Small,
    /// 2 MiB: 512 consecutive frames.
    Large,
    /// 1 GiB: 512 × 512 consecutive frames.
    Huge,
}

impl PageSize {
    /// Every size, smallest first.
    pub const ALL: [PageSize; 3] = [PageSize::Small, PageSize::Large, PageSize::Huge];

    /// Bytes that the page covers; its addresses are multiples of this.
    pub const fn bytes(self) -> u64 {
        match self {
            PageSize::Small => 1 << 12,
            PageSize::Large => 1 << 21,
            PageSize::Huge => 1 << 30,
        }
    }

    /// 4 KiB frames that the page covers.
    pub const fn frames(self) -> u64 {
        self.bytes() / PageSize::Small.bytes()
    }
}

macro_rules! address {
    ($name:ident) => {
        impl $name {
            /// Whether the address is a multiple of `size`.
            pub const fn is_aligned(self, size: PageSize) -> bool {
                self.0 & (size.bytes() - 1) == 0
            }

            /// The multiple of `size` at or below the address.
            #[must_use]
            pub const fn align_down(self, size: PageSize) -> Self {
                Self(self.0 & !(size.bytes() - 1))
            }

            /// The address `bytes` further on, if there is one.
            pub const fn checked_add(self, bytes: u64) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address!(PhysAddr);
address!(VirtAddr);
