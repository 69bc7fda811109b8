//! Tables: 512 entries in a frame, read and written through whatever machine there is.

use super::entry::{Entry, EntryKind, Level};
use nile_abi::{PhysAddr, VirtAddr};

/// Entries of a table.
pub const ENTRIES: usize = 512;

/// The place of an entry in its table, below [`ENTRIES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TableIndex(u16);

impl TableIndex {
    /// Every index, in rising order.
    pub fn all() -> impl Iterator<Item = TableIndex> {
        (0..ENTRIES as u16).map(TableIndex)
    }

    /// The entry through which `virt` is reached in a table of `level`.
    pub const fn of(virt: VirtAddr, level: Level) -> TableIndex {
        TableIndex((virt.0 >> level.shift()) as u16 % ENTRIES as u16)
    }

    /// The index as a number.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// The memory that page tables lie in: a machine's, or an emulated one's. It is asked only for
/// tables that were given to [`TablePool::grow`](super::TablePool::grow) or
/// [`AddressSpace::build`](super::AddressSpace::build).
///
/// Writes take effect in program order for whoever walks the tables, and each as a whole.
pub trait TableMemory {
    /// The entry at `index` of the table in the frame at `table`.
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry;

    /// Replaces the entry at `index` of the table in the frame at `table`.
    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry);

    /// Empties the table in the frame at `table`, which no walk reaches now.
    fn clear(&mut self, table: PhysAddr) {
        for index in TableIndex::all() {
            self.write(table, index, Entry::EMPTY);
        }
    }
}

/// One entry's place in memory. Every entry this crate writes goes through [`Slot::write`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) table: PhysAddr,
    pub(super) index: TableIndex,
    pub(super) level: Level,
}

impl Slot {
    /// The slot of `virt` in a table of `level`.
    pub(super) fn of(table: PhysAddr, virt: VirtAddr, level: Level) -> Slot {
        Slot { table, index: TableIndex::of(virt, level), level }
    }

    pub(super) fn read<M: TableMemory>(&self, memory: &M) -> Entry {
        memory.read(self.table, self.index)
    }

    pub(super) fn kind<M: TableMemory>(&self, memory: &M) -> EntryKind {
        self.read(memory).kind(self.level)
    }

    pub(super) fn write<M: TableMemory>(&self, memory: &mut M, entry: Entry) {
        memory.write(self.table, self.index, entry);
    }
}

/// Where a walk for an address ended: the first slot on its way that links no table.
pub(super) struct Walk {
    pub(super) slot: Slot,
    pub(super) kind: EntryKind,
    /// The slot that links `slot.table`; none if that is the root.
    pub(super) parent: Option<Slot>,
}

impl Walk {
    /// Follows the links from `root` towards `virt`.
    pub(super) fn to<M: TableMemory>(memory: &M, root: PhysAddr, virt: VirtAddr) -> Walk {
        let mut parent = None;
        let mut slot = Slot::of(root, virt, Level::Pml4);
        loop {
            let kind = slot.kind(memory);
            match (kind, slot.level.below()) {
                (EntryKind::Link(table), Some(below)) => {
                    parent = Some(slot);
                    slot = Slot::of(table, virt, below);
                }
                _ => return Walk { slot, kind, parent },
            }
        }
    }
}
