//! The memory that page tables take for a number of cores: with last-level tables in one shared
//! pool, and as it would be if every core had its own (the argument of the NileOS paper's design
//! decision 6).
//!
//! To map *M* bytes densely takes *U* upper tables (a root, one table per 512 GiB and one per
//! GiB) and *L = M / 2 MiB* last-level tables. For *n* cores that may each map all memory,
//! private tables take *n (U + L)* frames and a shared pool *n U + L*.

use crate::paging::{BadRange, Plan, TablePool, VirtRange};
use nile_abi::{PageSize, VirtAddr};

/// The tables of a node whose cores may each map all of its memory with 4 KiB pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// Cores of the node.
    pub cores: usize,
    /// Upper tables of each core.
    pub upper_tables: usize,
    /// Last-level tables that map all memory once.
    pub last_tables: usize,
}

impl Footprint {
    /// The tables of `cores` cores for `memory_bytes` bytes of memory; `Err` if no core can map
    /// that much.
    pub fn of(cores: usize, memory_bytes: u64) -> Result<Footprint, BadRange> {
        let plan = Plan::new(&[VirtRange::new(VirtAddr(0), memory_bytes)])?;
        let last_tables = TablePool::tables_for(memory_bytes);
        Ok(Footprint { cores, upper_tables: plan.tables(), last_tables })
    }

    /// Bytes of all tables with one shared pool.
    pub fn shared_bytes(&self) -> u64 {
        frames(self.cores * self.upper_tables + self.last_tables)
    }

    /// Bytes of all tables if each core had all of its own.
    pub fn private_bytes(&self) -> u64 {
        frames(self.cores * (self.upper_tables + self.last_tables))
    }
}

fn frames(tables: usize) -> u64 {
    tables as u64 * PageSize::Small.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::{AddressSpace, EmulatedMemory, Extent, Mapping, Permissions};
    use alloc::vec::Vec;
    use nile_abi::{CoreId, PhysAddr};

    const BASE: VirtAddr = VirtAddr(0x4000_0000_0000);

    /// Builds the tables of `cores` cores over one pool, maps `share` of the memory in each, a
    /// page per 2 MiB, and gives the bytes that all tables together take.
    fn built(cores: u16, memory_bytes: u64, pool_tables: usize, mapped: u64) -> u64 {
        let plan = Plan::new(&[VirtRange::new(BASE, memory_bytes)]).expect("a range");
        let tables = usize::from(cores) * plan.tables() + pool_tables;
        let mut memory = EmulatedMemory::new(PhysAddr(0), tables);
        let frames: Vec<PhysAddr> = (0..tables).map(|number| memory.frame(number)).collect();
        let (uppers, pool_frames) = frames.split_at(tables - pool_tables);
        let mut pool = TablePool::new();
        let extent = Extent { start: pool_frames[0], tables: pool_tables };
        pool.grow(extent).expect("frames that nobody has");
        for (core, frames) in uppers.chunks(plan.tables()).enumerate() {
            let core = CoreId(core as u16);
            let mut space =
                AddressSpace::build(&mut memory, core, &plan, frames).expect("enough frames");
            for number in 0..mapped / PageSize::Large.bytes() {
                let offset = number * PageSize::Large.bytes();
                let mapping = Mapping {
                    virt: VirtAddr(BASE.0 + offset),
                    phys: PhysAddr(offset),
                    size: PageSize::Small,
                    permissions: Permissions::READ,
                };
                space.map(&mut memory, &mut pool, mapping).expect("a table for every 2 MiB");
            }
        }
        assert_eq!((pool.free(), memory.stray()), (0, 0));
        tables as u64 * PageSize::Small.bytes()
    }

    #[test]
    fn four_gib_of_memory_take_these_tables() {
        const GIB4: u64 = 4 << 30;
        for (cores, shared, private) in
            [(4, 8_486_912, 33_652_736), (16, 8_781_824, 134_610_944), (64, 9_961_472, 538_443_776)]
        {
            let footprint = Footprint::of(usize::from(cores), GIB4).expect("a size");
            assert_eq!((footprint.upper_tables, footprint.last_tables), (6, 2048));
            assert_eq!(footprint.shared_bytes(), shared);
            assert_eq!(footprint.private_bytes(), private);
            assert_eq!(built(cores, GIB4, 2048, GIB4 / u64::from(cores)), shared);
        }
        // What four private sets would be, each core mapping all memory.
        assert_eq!(built(4, GIB4, 4 * 2048, GIB4), 33_652_736);
    }

    #[test]
    fn no_memory_and_more_than_can_be_mapped_have_no_footprint() {
        assert!(Footprint::of(1, 0).is_err());
        assert!(Footprint::of(1, (1 << 47) + 1).is_err());
        assert!(Footprint::of(1, 1 << 47).is_ok());
    }
}
