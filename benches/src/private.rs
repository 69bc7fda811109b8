//! The naive peer of an address space: tables of one core's own, made when a page first needs one
//! and kept for ever. It knows no other core, counts no entries and returns nothing, so it does
//! the least that mapping can be.

use nile_abi::{PageSize, PhysAddr, VirtAddr};
use nile_memory::Mapping;
use nile_memory::paging::{ENTRIES, Level};

const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
const FRAME: u64 = !0xfff;

/// One core's page tables.
pub struct PrivateSpace {
    /// The root is the first; a link is the number of a table, in place of its frame's.
    tables: Vec<[u64; ENTRIES]>,
}

impl PrivateSpace {
    /// A space that maps nothing.
    pub fn new() -> PrivateSpace {
        PrivateSpace { tables: vec![[0; ENTRIES]] }
    }

    /// Each page is mapped, then each is unmapped.
    pub fn map_and_unmap(&mut self, pages: &[Mapping]) {
        for page in pages {
            let writable = if page.permissions.write { WRITABLE } else { 0 };
            let entry = self.entry(page.virt, page.size);
            assert_eq!(*entry & PRESENT, 0, "mapped already");
            *entry = page.phys.0 | writable | PRESENT;
        }
        for page in pages {
            let entry = self.entry(page.virt, page.size);
            assert_eq!(PhysAddr(*entry & FRAME), page.phys);
            *entry = 0;
        }
    }

    /// The entry that maps the page of `size` at `virt`, with all tables on the way to it.
    fn entry(&mut self, virt: VirtAddr, size: PageSize) -> &mut u64 {
        let (mut table, mut level) = (0, Level::Pml4);
        while let Some(below) = level.below().filter(|_| level != Level::of(size)) {
            let index = index(virt, level);
            if self.tables[table][index] & PRESENT == 0 {
                self.tables[table][index] = (self.tables.len() as u64) << 12 | PRESENT;
                self.tables.push([0; ENTRIES]);
            }
            table = (self.tables[table][index] >> 12) as usize;
            level = below;
        }
        &mut self.tables[table][index(virt, level)]
    }
}

fn index(virt: VirtAddr, level: Level) -> usize {
    (virt.0 >> level.shift()) as usize % ENTRIES
}
