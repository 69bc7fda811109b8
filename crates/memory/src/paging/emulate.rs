//! A machine made of vectors: memory for page tables, and a core's translation with caches.

use super::Entry;
use super::entry::{EntryKind, Level, Permissions};
use super::plan::is_canonical;
use super::space::{Mapping, Page};
use super::table::{ENTRIES, Slot, TableIndex, TableMemory};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use nile_abi::{PageSize, PhysAddr, VirtAddr};

/// Consecutive frames for tables. What is read beyond them is empty; what is written there is
/// dropped and counted, as only a fault of the code under test does that.
#[derive(Clone, Debug)]
pub struct EmulatedMemory {
    start: PhysAddr,
    tables: Vec<[u64; ENTRIES]>,
    stray: usize,
}

impl EmulatedMemory {
    /// Memory for `tables` tables from `start` on, filled with what looks like entries, as a
    /// real machine's memory may be.
    pub fn new(start: PhysAddr, tables: usize) -> EmulatedMemory {
        EmulatedMemory { start, tables: vec![[u64::MAX; ENTRIES]; tables], stray: 0 }
    }

    /// The frame of table `number`.
    pub fn frame(&self, number: usize) -> PhysAddr {
        PhysAddr(self.start.0 + number as u64 * PageSize::Small.bytes())
    }

    /// How many writes went beyond the memory.
    pub fn stray(&self) -> usize {
        self.stray
    }

    fn number(&self, table: PhysAddr) -> Option<usize> {
        let offset = table.0.checked_sub(self.start.0)?;
        usize::try_from(offset / PageSize::Small.bytes()).ok()
    }
}

impl TableMemory for EmulatedMemory {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        let entries = self.number(table).and_then(|number| self.tables.get(number));
        entries.map_or(Entry::EMPTY, |entries| Entry::from_bits(entries[index.get()]))
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        match self.number(table).and_then(|number| self.tables.get_mut(number)) {
            Some(entries) => entries[index.get()] = entry.bits(),
            None => self.stray += 1,
        }
    }

    fn clear(&mut self, table: PhysAddr) {
        match self.number(table).and_then(|number| self.tables.get_mut(number)) {
            Some(entries) => *entries = [0; ENTRIES],
            None => self.stray += 1,
        }
    }
}

/// One core's memory management unit. It keeps every translation and every link to a last-level
/// table that it ever used until it is told to forget it, as a real one may.
#[derive(Clone, Debug)]
pub struct Mmu {
    root: PhysAddr,
    translations: BTreeMap<u64, Mapping>,
    links: BTreeMap<u64, PhysAddr>,
}

impl Mmu {
    /// A unit that walks the tables under `root`, as after CR3 is loaded.
    pub fn new(root: PhysAddr) -> Mmu {
        Mmu { root, translations: BTreeMap::new(), links: BTreeMap::new() }
    }

    /// The mapping through which the core reaches `virt`; `None` is a page fault.
    pub fn translate<M: TableMemory>(&mut self, memory: &M, virt: VirtAddr) -> Option<Mapping> {
        if let Some(cached) = self.cached(virt) {
            return Some(cached);
        }
        let (mapping, link) = self.walk(memory, virt);
        if let Some(table) = link {
            self.links.insert(virt.0 >> Level::Pd.shift(), table);
        }
        let mapping = mapping?;
        self.translations.insert(mapping.virt.0, mapping);
        Some(mapping)
    }

    /// Whether the core could reach `virt` now; unlike [`Mmu::translate`] it leaves no trace.
    pub fn reaches<M: TableMemory>(&self, memory: &M, virt: VirtAddr) -> bool {
        self.cached(virt).is_some() || self.walk(memory, virt).0.is_some()
    }

    /// Forgets what it keeps about `page` and the links on the way to it, as INVLPG does.
    pub fn invalidate(&mut self, page: Page) {
        let last = page.virt.0 | (page.size.bytes() - 1);
        self.translations
            .retain(|start, kept| last < *start || *start | (kept.size.bytes() - 1) < page.virt.0);
        let links = page.virt.0 >> Level::Pd.shift()..=last >> Level::Pd.shift();
        self.links.retain(|number, _| !links.contains(number));
    }

    fn cached(&self, virt: VirtAddr) -> Option<Mapping> {
        let (_, kept) = self.translations.range(..=virt.0).next_back()?;
        (virt.0 - kept.virt.0 < kept.size.bytes()).then_some(*kept)
    }

    /// Walks as the hardware does: permissions are what every level on the way allows. Gives the
    /// last-level table that it came through, too, even if that has no mapping.
    fn walk<M: TableMemory>(
        &self,
        memory: &M,
        virt: VirtAddr,
    ) -> (Option<Mapping>, Option<PhysAddr>) {
        if !is_canonical(virt) {
            return (None, None);
        }
        let mut link = None;
        let kept = self.links.get(&(virt.0 >> Level::Pd.shift())).copied();
        let mut slot = match kept {
            Some(table) => Slot::of(table, virt, Level::Pt),
            None => Slot::of(self.root, virt, Level::Pml4),
        };
        let mut allowed = Permissions { write: true, execute: true, user: true, uncached: false };
        loop {
            let entry = slot.read(memory);
            let here = entry.permissions();
            allowed.write &= here.write;
            allowed.execute &= here.execute;
            allowed.user &= here.user;
            match (entry.kind(slot.level), slot.level.below()) {
                (EntryKind::Link(table), Some(below)) => {
                    if below == Level::Pt {
                        link = Some(table);
                    }
                    slot = Slot::of(table, virt, below);
                }
                (EntryKind::Leaf(phys), _) => {
                    let permissions = Permissions { uncached: here.uncached, ..allowed };
                    let mapping =
                        |size| Mapping { virt: virt.align_down(size), phys, size, permissions };
                    return (slot.level.leaf_size().map(mapping), link);
                }
                _ => return (None, link),
            }
        }
    }
}
