//! The pool of last-level page tables that all cores of a node share.
//!
//! As one table maps 2 MiB, a pool with a table for every 2 MiB of physical memory suffices as
//! long as cores map densely (NileOS paper, section III.B, "Virtual Memory Service"); mappings
//! that are spread out can empty it before the frames run out. The pool grows and shrinks by
//! *extents*, runs of consecutive frames.
//!
//! A table is free, linked by one core, or *retired*: it holds no entry and is linked nowhere,
//! but its core may still walk it through a cached link, so it cannot be another core's yet.
//! Which tables are free, and how many entries each linked one has, is derived state;
//! [`TablePool::recover`](super::TablePool::recover) finds it again in the tables themselves.

use super::table::{ENTRIES, TableMemory};
use alloc::vec;
use alloc::vec::Vec;
use nile_abi::{PageSize, PhysAddr};

/// A run of consecutive frames for tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first frame.
    pub start: PhysAddr,
    /// How many frames.
    pub tables: usize,
}

impl Extent {
    fn end(&self) -> Option<PhysAddr> {
        let bytes = (self.tables as u64).checked_mul(PageSize::Small.bytes())?;
        self.start.checked_add(bytes)
    }
}

/// Why an extent was not added; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrowError {
    /// It is empty, not made of whole frames, or too long.
    NotFrames,
    /// Part of it is in the pool.
    Overlaps,
}

/// Why an extent was not drained or removed; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShrinkError {
    /// No extent starts there.
    NotFound,
    /// Its tables are still being given.
    NotDraining,
    /// This many of its tables are linked or retired.
    InUse(usize),
}

/// The tables of one extent. A table is named by its place in it.
struct Tables {
    extent: Extent,
    /// A stack, so that the table used last, still in some cache, is used next.
    free: Vec<u32>,
    /// Entries that are not empty, per table.
    live: Vec<u16>,
    draining: bool,
}

/// The last-level tables of a node. One core manages them.
#[derive(Default)]
pub struct TablePool {
    /// In rising order.
    extents: Vec<Tables>,
    retired: usize,
}

impl TablePool {
    /// A pool without tables.
    pub fn new() -> TablePool {
        TablePool::default()
    }

    /// How many tables map `bytes` bytes of memory densely.
    pub const fn tables_for(bytes: u64) -> usize {
        bytes.div_ceil(PageSize::Large.bytes()) as usize
    }

    /// Adds the frames of `extent` as free tables. What is in them does not matter.
    pub fn grow(&mut self, extent: Extent) -> Result<(), GrowError> {
        let end = extent.end().filter(|_| extent.start.is_aligned(PageSize::Small));
        let end = end.filter(|_| extent.tables > 0).ok_or(GrowError::NotFrames)?;
        let tables = u32::try_from(extent.tables).map_err(|_| GrowError::NotFrames)?;
        let at = self.extents.partition_point(|other| other.extent.start < extent.start);
        let below = at.checked_sub(1).and_then(|below| self.extents[below].extent.end());
        let above = self.extents.get(at).map(|above| above.extent.start);
        if below.is_some_and(|below| below > extent.start) || above.is_some_and(|above| above < end)
        {
            return Err(GrowError::Overlaps);
        }
        let free = (0..tables).rev().collect();
        let live = vec![0; extent.tables];
        self.extents.insert(at, Tables { extent, free, live, draining: false });
        Ok(())
    }

    /// Stops giving tables of the extent that starts at `start`.
    pub fn drain(&mut self, start: PhysAddr) -> Result<(), ShrinkError> {
        let at = self.named(start)?;
        self.extents[at].draining = true;
        Ok(())
    }

    /// Removes a drained extent all of whose tables are free.
    pub fn remove(&mut self, start: PhysAddr) -> Result<Extent, ShrinkError> {
        let at = self.named(start)?;
        let tables = &self.extents[at];
        if !tables.draining {
            return Err(ShrinkError::NotDraining);
        }
        match tables.extent.tables - tables.free.len() {
            0 => Ok(self.extents.remove(at).extent),
            used => Err(ShrinkError::InUse(used)),
        }
    }

    /// The extents, in rising order.
    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.extents.iter().map(|tables| tables.extent)
    }

    /// Tables of the pool.
    pub fn total(&self) -> usize {
        self.extents.iter().map(|tables| tables.extent.tables).sum()
    }

    /// Tables that can be linked; those of extents being drained cannot.
    pub fn free(&self) -> usize {
        self.extents.iter().filter(|tables| !tables.draining).map(|tables| tables.free.len()).sum()
    }

    /// Tables that wait for a core to forget them.
    pub fn retired(&self) -> usize {
        self.retired
    }

    /// Takes a table and empties it.
    pub(super) fn take<M: TableMemory>(&mut self, memory: &mut M) -> Option<PhysAddr> {
        let tables = self.extents.iter_mut().find(|t| !t.draining && !t.free.is_empty())?;
        let number = tables.free.pop()?;
        let table = PhysAddr(tables.extent.start.0 + u64::from(number) * PageSize::Small.bytes());
        memory.clear(table);
        Some(table)
    }

    /// Counts one more entry of `table`.
    pub(super) fn entry_added(&mut self, table: PhysAddr) {
        if let Some((tables, number)) = self.find(table) {
            tables.live[number] += 1;
        }
    }

    /// Counts one entry of `table` less. Whether that was its last: the table is retired then.
    pub(super) fn entry_removed(&mut self, table: PhysAddr) -> bool {
        let Some((tables, number)) = self.find(table) else { return false };
        tables.live[number] -= 1;
        let emptied = tables.live[number] == 0;
        self.retired += usize::from(emptied);
        emptied
    }

    /// Makes a retired table free.
    pub(super) fn release(&mut self, table: PhysAddr) {
        if let Some((tables, number)) = self.find(table) {
            tables.free.push(number as u32);
            self.retired -= 1;
        }
    }

    /// Makes a linked table free that no core walks any more, whatever it holds.
    pub(super) fn release_linked(&mut self, table: PhysAddr) {
        if let Some((tables, number)) = self.find(table) {
            tables.live[number] = 0;
            tables.free.push(number as u32);
        }
    }

    /// Takes a table that was found linked with `entries` entries, or retired if it has none.
    /// Whether it was in the pool and not found before.
    pub(super) fn adopt(&mut self, table: PhysAddr, entries: usize) -> bool {
        debug_assert!(entries <= ENTRIES);
        let Some((tables, number)) = self.find(table) else { return false };
        // While a pool is recovered, `live` marks what was found, so that the free lists can be
        // made in one pass at the end.
        if tables.live[number] != 0 {
            return false;
        }
        tables.live[number] = if entries == 0 { FOUND_RETIRED } else { entries as u16 };
        self.retired += usize::from(entries == 0);
        true
    }

    /// Ends a recovery: what was not adopted is free.
    pub(super) fn settle(&mut self) {
        for tables in &mut self.extents {
            tables.free.retain(|number| tables.live[*number as usize] == 0);
            for live in tables.live.iter_mut().filter(|live| **live == FOUND_RETIRED) {
                *live = 0;
            }
        }
    }

    fn named(&self, start: PhysAddr) -> Result<usize, ShrinkError> {
        self.extents
            .binary_search_by_key(&start, |tables| tables.extent.start)
            .map_err(|_| ShrinkError::NotFound)
    }

    /// The extent of a table and its number there.
    fn find(&mut self, table: PhysAddr) -> Option<(&mut Tables, usize)> {
        let after = self.extents.partition_point(|tables| tables.extent.start <= table);
        let tables = self.extents.get_mut(after.checked_sub(1)?)?;
        let number = ((table.0 - tables.extent.start.0) / PageSize::Small.bytes()) as usize;
        (number < tables.extent.tables).then_some((tables, number))
    }
}

/// A mark that no count of entries equals.
const FOUND_RETIRED: u16 = u16::MAX;
