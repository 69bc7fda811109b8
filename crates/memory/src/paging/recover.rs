//! The state found again in the tables themselves, after the core that managed them restarted;
//! and the end of one core's tables.

use super::entry::{Entry, EntryKind, Level};
use super::pool::{Extent, GrowError, TablePool};
use super::space::{AddressSpace, Retired};
use super::table::{Slot, TableIndex, TableMemory};
use alloc::vec::Vec;
use nile_abi::{PhysAddr, VirtAddr};

/// Why the pool was not recovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoverError {
    /// The extents are no pool.
    Extents(GrowError),
    /// A core links this table as a last level, but it is in no extent or linked elsewhere, too.
    Foreign(PhysAddr),
}

impl TablePool {
    /// The pool of `extents` as the tables of all cores, `spaces`, tell it. An operation that
    /// was interrupted is either done or undone. Gives the tables that are still retired.
    ///
    /// Which unmapped pages cores had yet to invalidate is not known any more: before any frame
    /// is handed out again, and before these are acknowledged, every core invalidates all.
    pub fn recover<M: TableMemory>(
        memory: &mut M,
        extents: &[Extent],
        spaces: &[AddressSpace],
    ) -> Result<(TablePool, Vec<Retired>), RecoverError> {
        let mut pool = TablePool::new();
        for extent in extents {
            pool.grow(*extent).map_err(RecoverError::Extents)?;
        }
        let mut retired = Vec::new();
        for space in spaces {
            for (slot, virt) in directory_slots(memory, space.root()) {
                let (table, entries) = match slot.kind(memory) {
                    EntryKind::Link(table) => (table, count_entries(memory, table)),
                    EntryKind::Retired(table) => (table, 0),
                    EntryKind::Empty | EntryKind::Leaf(_) => continue,
                };
                if !pool.adopt(table, entries) {
                    return Err(RecoverError::Foreign(table));
                }
                if entries == 0 {
                    // Also where it is still linked: the manager stopped before it retired it.
                    slot.write(memory, Entry::retired(table));
                    retired.push(Retired { core: space.core(), virt, table });
                }
            }
        }
        pool.settle();
        Ok((pool, retired))
    }
}

impl AddressSpace {
    /// Ends the tables of a core that has stopped and so walks them no more: its last levels go
    /// back to the pool, whatever they map, and the frames of its upper levels to the caller.
    /// Tokens of tables that it had retired are void.
    pub fn dismantle<M: TableMemory>(self, memory: &mut M, pool: &mut TablePool) -> Vec<PhysAddr> {
        for (slot, _) in directory_slots(memory, self.root()) {
            match slot.kind(memory) {
                EntryKind::Link(table) => pool.release_linked(table),
                EntryKind::Retired(table) => pool.release(table),
                EntryKind::Empty | EntryKind::Leaf(_) => continue,
            }
            slot.write(memory, Entry::EMPTY);
        }
        upper_tables(memory, self.root()).into_iter().map(|(table, ..)| table).collect()
    }
}

/// The upper tables under `root`, it first, with their levels and the first address of each.
fn upper_tables<M: TableMemory>(memory: &M, root: PhysAddr) -> Vec<(PhysAddr, Level, VirtAddr)> {
    let mut tables = Vec::from([(root, Level::Pml4, VirtAddr(0))]);
    let mut next = 0;
    while let Some(&(table, level, base)) = tables.get(next) {
        next += 1;
        let Some(below) = level.below().filter(|below| *below != Level::Pt) else { continue };
        for index in TableIndex::all() {
            if let EntryKind::Link(linked) = (Slot { table, index, level }).kind(memory) {
                tables.push((linked, below, reached(base, index, level)));
            }
        }
    }
    tables
}

/// Every entry of the page directories under `root`, with the first address it covers.
fn directory_slots<M: TableMemory>(memory: &M, root: PhysAddr) -> Vec<(Slot, VirtAddr)> {
    let mut slots = Vec::new();
    for (table, level, base) in upper_tables(memory, root) {
        if level == Level::Pd {
            for index in TableIndex::all() {
                slots.push((Slot { table, index, level }, reached(base, index, level)));
            }
        }
    }
    slots
}

/// The first address that entry `index` covers in a table of `level` that starts at `base`.
fn reached(base: VirtAddr, index: TableIndex, level: Level) -> VirtAddr {
    let virt = base.0 | (index.get() as u64) << level.shift();
    // Addresses of the upper half continue with ones.
    VirtAddr(((virt << 16) as i64 >> 16) as u64)
}

fn count_entries<M: TableMemory>(memory: &M, table: PhysAddr) -> usize {
    TableIndex::all().filter(|index| memory.read(table, *index).is_present()).count()
}
