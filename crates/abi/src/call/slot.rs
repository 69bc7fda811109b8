//! The address spaces that a core has for packages. No address is of two of them, so that one can
//! be loaded while another one runs, and no translation is ever taken for another's.

use super::{USER_BASE, USER_BYTES};
use crate::VirtAddr;

/// One of a core's places for a package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UserSlot(u8);

impl UserSlot {
    /// How many a core has.
    pub const COUNT: usize = 4;

    /// The one that a package gets that is alone on its core.
    pub const FIRST: UserSlot = UserSlot(0);

    /// The end of all addresses of packages.
    pub const END: u64 = USER_BASE + UserSlot::COUNT as u64 * 2 * USER_BYTES;

    /// All, in the order of their addresses.
    pub fn all() -> impl Iterator<Item = UserSlot> {
        (0..UserSlot::COUNT as u8).map(UserSlot)
    }

    /// The one of this number.
    pub fn from_index(index: usize) -> Option<UserSlot> {
        UserSlot::all().nth(index)
    }

    /// Its number, from zero on.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Where its package's own addresses begin; there are [`USER_BYTES`] of them.
    pub const fn base(self) -> VirtAddr {
        VirtAddr(USER_BASE + self.0 as u64 * 2 * USER_BYTES)
    }

    /// Where the node's pool of buffers is, for a package that may use it: behind its own
    /// addresses, and as many.
    pub const fn pool(self) -> VirtAddr {
        VirtAddr(self.base().0 + USER_BYTES)
    }

    /// The end of its addresses, those of the pool included.
    pub const fn end(self) -> VirtAddr {
        VirtAddr(self.pool().0 + USER_BYTES)
    }

    /// The one whose package's own addresses have all of `bytes` bytes at `at`.
    pub fn of(at: VirtAddr, bytes: u64) -> Option<UserSlot> {
        let end = at.checked_add(bytes)?;
        UserSlot::all().find(|slot| slot.base() <= at && end <= slot.pool())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_one_slot_or_of_none() {
        let mut end = VirtAddr(USER_BASE);
        for slot in UserSlot::all() {
            assert_eq!(slot.base(), end);
            assert_eq!(UserSlot::of(slot.base(), USER_BYTES), Some(slot));
            assert_eq!(UserSlot::of(slot.base(), USER_BYTES + 1), None);
            assert_eq!(UserSlot::of(VirtAddr(slot.pool().0 - 1), 1), Some(slot));
            assert_eq!(UserSlot::of(slot.pool(), 1), None);
            end = slot.end();
        }
        assert_eq!(end, VirtAddr(UserSlot::END));
        assert_eq!(UserSlot::of(VirtAddr(USER_BASE - 1), 2), None);
        assert_eq!(UserSlot::of(VirtAddr(u64::MAX), 2), None);
    }
}
