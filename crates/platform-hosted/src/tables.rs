//! The node's page tables, kept in its memory as on any machine, though no hardware walks them
//! here: Linux maps what a core attaches. They make a hosted node run out of tables where a bare
//! one would, and they survive a restart of the management core.

use std::sync::atomic::Ordering;

use nile_abi::{CoreId, PageSize, PhysAddr};
use nile_memory::paging::{
    AddressSpace, BuildError, Entry, Extent, RecoverError, TableIndex, TableMemory, TablePool,
};
use nile_platform::{AttachError, Grant, Tables};
use nile_ring::Region;

use crate::arena::Arena;
use crate::layout::{Layout, end};

/// The part of the arena that holds tables.
pub struct ArenaTables {
    start: PhysAddr,
    words: Region,
}

impl ArenaTables {
    /// The tables of the node with this memory.
    pub(crate) fn in_arena(arena: &Arena, layout: Layout) -> Result<ArenaTables, AttachError> {
        let start = layout.upper_tables().start;
        let bytes = end(layout.table_pool()).0 - start.0;
        Ok(ArenaTables { start, words: arena.region(Grant { start, bytes })? })
    }

    /// Builds every core's upper tables, each empty.
    pub(crate) fn build(mut self, layout: Layout) -> Result<(), BuildError> {
        let plan = layout.plan();
        for core in 0..layout.cores {
            let first = root(layout, core).0;
            let frames: Vec<PhysAddr> = (0..plan.tables() as u64)
                .map(|table| PhysAddr(first + table * PageSize::Small.bytes()))
                .collect();
            AddressSpace::build(&mut self, CoreId(core as u16), &plan, &frames)?;
        }
        Ok(())
    }

    /// The state that the tables themselves tell.
    pub(crate) fn recover(mut self, layout: Layout) -> Result<Tables<ArenaTables>, RecoverError> {
        let spaces: Vec<AddressSpace> = (0..layout.cores)
            .map(|core| AddressSpace::recover(CoreId(core as u16), root(layout, core)))
            .collect();
        let Grant { start, bytes } = layout.table_pool();
        let pool = Extent { start, tables: (bytes / PageSize::Small.bytes()) as usize };
        let (pool, retired) = TablePool::recover(&mut self, &[pool], &spaces)?;
        let upper_tables = layout.upper_tables().bytes / PageSize::Small.bytes();
        Ok(Tables { memory: self, pool, spaces, upper_tables, retired })
    }
}

/// The root table of `core`, the first of its upper tables.
fn root(layout: Layout, core: usize) -> PhysAddr {
    let bytes = (core * layout.plan().tables()) as u64 * PageSize::Small.bytes();
    PhysAddr(layout.upper_tables().start.0 + bytes)
}

impl ArenaTables {
    /// Where an entry is kept; nowhere if `table` is none of these tables.
    fn word(&self, table: PhysAddr, index: TableIndex) -> Option<usize> {
        let offset = usize::try_from(table.0.checked_sub(self.start.0)?).ok()?;
        let word = offset / size_of::<u64>() + index.get();
        (word < self.words.words().len()).then_some(word)
    }
}

impl TableMemory for ArenaTables {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        self.word(table, index).map_or(Entry::EMPTY, |word| {
            Entry::from_bits(self.words.words()[word].load(Ordering::Acquire))
        })
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        if let Some(word) = self.word(table, index) {
            self.words.words()[word].store(entry.bits(), Ordering::Release);
        }
    }
}
