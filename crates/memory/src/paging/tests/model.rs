//! The naive space: a map from pages to memory.

use super::super::*;
use super::{GIB, HIGH, LARGE, LOW};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use nile_abi::{PageSize, VirtAddr};

/// What one core maps, and what it has not invalidated yet.
#[derive(Default, Clone)]
pub(super) struct Model {
    pub(super) pages: BTreeMap<u64, Mapping>,
    pub(super) pending: Vec<u64>,
}

impl Model {
    pub(super) fn covering(&self, virt: u64) -> Option<Mapping> {
        let (_, mapping) = self.pages.range(..=virt).next_back()?;
        (virt - mapping.virt.0 < mapping.size.bytes()).then_some(*mapping)
    }

    pub(super) fn overlaps(&self, page: Page) -> bool {
        let last = page.virt.0 + (page.size.bytes() - 1);
        self.pages
            .range(..=last)
            .next_back()
            .is_some_and(|(_, mapping)| mapping.virt.0 + (mapping.size.bytes() - 1) >= page.virt.0)
    }

    pub(super) fn has_table(&self, virt: u64) -> bool {
        let start = virt / LARGE * LARGE;
        self.pages.range(start..=start + (LARGE - 1)).any(|(_, m)| m.size == PageSize::Small)
    }

    pub(super) fn is_retiring(&self, virt: u64) -> bool {
        self.pending.iter().any(|pending| pending / LARGE == virt / LARGE)
    }

    pub(super) fn tables(&self) -> usize {
        let small = self.pages.values().filter(|mapping| mapping.size == PageSize::Small);
        let mut numbers: Vec<u64> = small.map(|mapping| mapping.virt.0 / LARGE).collect();
        numbers.dedup();
        numbers.len()
    }

    /// What mapping `new` must say.
    pub(super) fn verdict(&self, new: Mapping, free_tables: usize) -> Result<(), MapError> {
        let Mapping { virt, phys, size, permissions } = new;
        if permissions.write && permissions.execute {
            return Err(MapError::WriteAndExecute);
        }
        if !virt.0.is_multiple_of(size.bytes()) || !phys.0.is_multiple_of(size.bytes()) {
            return Err(MapError::Misaligned);
        }
        let within = |start: VirtAddr, bytes: u64| virt >= start && virt.0 - start.0 < bytes;
        let has_directory = within(LOW, 2 * GIB) || within(HIGH, GIB);
        // Once a table of pointers is there, all its 512 GiB can take 1 GiB pages.
        let has_pointers = virt.0 < 1024 * GIB || virt.0 >= 0u64.wrapping_sub(512 * GIB);
        if phys.0 >= 1 << 52 || !has_pointers {
            return Err(MapError::OutOfRange);
        }
        match size {
            PageSize::Huge if has_directory => return Err(MapError::PlannedSmaller),
            PageSize::Huge => {}
            _ if !has_directory && !self.overlaps(Page { virt, size }) => {
                return Err(MapError::OutOfRange);
            }
            _ => {}
        }
        if self.overlaps(Page { virt, size }) {
            Err(MapError::AlreadyMapped)
        } else if self.is_retiring(virt.0) {
            Err(MapError::Retiring)
        } else if size == PageSize::Small && !self.has_table(virt.0) && free_tables == 0 {
            Err(MapError::NoTables)
        } else {
            Ok(())
        }
    }
}
