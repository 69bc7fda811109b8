//! Which upper tables a core needs for the virtual ranges it may map, known before any is built.

use super::entry::Level;
use alloc::vec::Vec;
use nile_abi::{PageSize, VirtAddr};

/// A range of virtual addresses that a core may map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtRange {
    /// The first address.
    pub start: VirtAddr,
    /// The length in bytes.
    pub bytes: u64,
    /// The smallest page that will be mapped there. A range for 1 GiB pages needs no page
    /// directories, and can take 1 GiB pages only where no other range needs one; a range for
    /// 2 MiB pages is built like one for 4 KiB pages.
    pub smallest: PageSize,
}

impl VirtRange {
    /// A range for 4 KiB and 2 MiB pages.
    pub const fn new(start: VirtAddr, bytes: u64) -> VirtRange {
        VirtRange { start, bytes, smallest: PageSize::Small }
    }

    /// A range for 1 GiB pages.
    pub const fn huge(start: VirtAddr, bytes: u64) -> VirtRange {
        VirtRange { start, bytes, smallest: PageSize::Huge }
    }

    /// The numbers of the first and last entries at `level` that cover the range, counted from
    /// address zero.
    pub(super) const fn entries(&self, level: Level) -> (u64, u64) {
        let last = self.start.0 + (self.bytes - 1);
        (self.start.0 >> level.shift(), last >> level.shift())
    }

    pub(super) fn has_directories(&self) -> bool {
        self.smallest != PageSize::Huge
    }

    fn is_sound(&self) -> bool {
        let Some(span) = self.bytes.checked_sub(1) else { return false };
        self.start.checked_add(span).is_some_and(|last| {
            // Both ends in one half: the hole of addresses that no entry covers lies between.
            is_canonical(self.start) && is_canonical(last) && self.start.0 >> 63 == last.0 >> 63
        })
    }
}

/// Whether the hardware translates the address at all: bits 47 and above are equal.
pub(super) const fn is_canonical(virt: VirtAddr) -> bool {
    (virt.0 as i64) << 16 >> 16 == virt.0 as i64
}

/// The range is empty or holds addresses that do not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadRange(pub VirtRange);

/// The upper three levels of one core's page tables, not built yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    ranges: Vec<VirtRange>,
    tables: usize,
}

impl Plan {
    /// The upper tables for `ranges`, which may overlap.
    pub fn new(ranges: &[VirtRange]) -> Result<Plan, BadRange> {
        if let Some(bad) = ranges.iter().find(|range| !range.is_sound()) {
            return Err(BadRange(*bad));
        }
        let mut ranges = ranges.to_vec();
        nile_order::sort_by_key(&mut ranges, |range| range.start);
        let pointers = distinct(ranges.iter(), Level::Pml4);
        let directories =
            distinct(ranges.iter().filter(|range| range.has_directories()), Level::Pdpt);
        Ok(Plan { ranges, tables: 1 + (pointers + directories) as usize })
    }

    /// How many tables, each one frame, [`AddressSpace::build`](super::AddressSpace::build)
    /// takes.
    pub fn tables(&self) -> usize {
        self.tables
    }

    pub(super) fn ranges(&self) -> &[VirtRange] {
        &self.ranges
    }
}

/// How many entries at `level` cover `ranges`, which start in rising order.
fn distinct<'a>(ranges: impl Iterator<Item = &'a VirtRange>, level: Level) -> u64 {
    let mut uncounted = 0;
    let mut count = 0;
    for range in ranges {
        let (first, last) = range.entries(level);
        let first = first.max(uncounted);
        if first <= last {
            count += last - first + 1;
            uncounted = last + 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn tables_are_counted_once_where_ranges_share_them() {
        let tables = |ranges: &[VirtRange]| Plan::new(ranges).map(|plan| plan.tables());
        assert_eq!(tables(&[]), Ok(1));
        assert_eq!(tables(&[VirtRange::new(VirtAddr(0x1000), 1)]), Ok(3));
        let four = VirtRange::new(VirtAddr(4 * GIB), 4 * GIB);
        assert_eq!(tables(&[four]), Ok(1 + 1 + 4));
        assert_eq!(tables(&[VirtRange::huge(VirtAddr(4 * GIB), 4 * GIB)]), Ok(2));
        let inside = VirtRange::new(VirtAddr(5 * GIB), GIB);
        let across = VirtRange::new(VirtAddr(8 * GIB - 1), 2);
        assert_eq!(tables(&[across, inside, four]), Ok(1 + 1 + 5));
        let kernel = VirtRange::new(VirtAddr(0xffff_ffff_8000_0000), 2 * GIB);
        assert_eq!(tables(&[kernel, four]), Ok(1 + 2 + 6));
        let terabytes = VirtRange::huge(VirtAddr(0), 1 << 47);
        assert_eq!(tables(&[terabytes]), Ok(1 + 256));
    }

    #[test]
    fn ranges_that_do_not_exist_are_refused() {
        for (start, bytes) in [
            (0, 0),
            (1 << 47, 1),
            ((1 << 47) - 1, 2),
            (0, u64::MAX),
            (0xffff_7fff_ffff_ffff, 1),
            (u64::MAX, 2),
        ] {
            let range = VirtRange::new(VirtAddr(start), bytes);
            assert_eq!(Plan::new(&[range]), Err(BadRange(range)));
        }
        assert!(Plan::new(&[VirtRange::new(VirtAddr(u64::MAX), 1)]).is_ok());
    }
}
