//! Where things lie in the node's memory. An address is an offset into the arena's file,
//! but for the pool where that has a file of its own:
//!
//! ```text
//! 0          boot record: what a process of the node must know before it maps anything
//! 1 MiB      doorbells, receiver map, core records, node page     } the board
//!            who runs a package, a page a core
//!            control rings, 16 KiB a core
//!            the record of frames
//!            page tables: upper levels of each core, then the pool of last levels
//!            the pool of buffers, from a multiple of 2 MiB on, if the node has one
//!            frames that the kernel hands out
//! 1 MiB + the node's memory
//! ```
//!
//! The first MiB is not the node's memory, so that address 0 is never valid.

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, PageSize, PhysAddr};
use nile_memory::PhysicalMemory;
use nile_memory::paging::{Plan, TablePool, VirtRange};
use nile_platform::board::{NODE_BYTES, RECEIVER_BYTES};
use nile_platform::record::RECORD_BYTES;
use nile_platform::{CONTROL_BYTES, Grant};
use nile_ring::{Doorbells, Region};

use crate::arena::virtual_address;

/// The first address of the node's memory.
pub(crate) const MEMORY_START: PhysAddr = PhysAddr(1 << 20);

/// Bytes in which a core says which process runs its package: a page, so that only it can.
pub(crate) const PACKAGE_BYTES: usize = 4096;

/// The regions of a node's memory that are set aside at its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// How many cores the node has.
    pub cores: usize,
    /// Bytes of the node's memory, a multiple of 4 KiB.
    pub memory: u64,
    /// Bytes of them for the pool of buffers, whole 2 MiB; zero for no pool.
    pub pool: u64,
}

impl Layout {
    /// All of the node's memory.
    pub fn all(self) -> Grant {
        Grant { start: MEMORY_START, bytes: self.memory }
    }

    /// The doorbells.
    pub fn bells(self) -> Grant {
        frames(MEMORY_START, Doorbells::region_len(self.cores))
    }

    /// The map of receivers.
    pub fn receivers(self) -> Grant {
        frames(end(self.bells()), RECEIVER_BYTES)
    }

    /// The records of all cores.
    pub fn records(self) -> Grant {
        frames(end(self.receivers()), self.cores * RECORD_BYTES)
    }

    /// The record of `core`.
    pub fn record(self, core: CoreId) -> Grant {
        row(self.records(), core, RECORD_BYTES)
    }

    /// The node's page.
    pub fn node(self) -> Grant {
        frames(end(self.records()), NODE_BYTES)
    }

    /// Which process runs a package, a page for each core.
    pub fn packages(self) -> Grant {
        frames(end(self.node()), self.cores * PACKAGE_BYTES)
    }

    /// The page of `core` there.
    pub fn package(self, core: CoreId) -> Grant {
        row(self.packages(), core, PACKAGE_BYTES)
    }

    /// The control rings of all cores.
    pub fn controls(self) -> Grant {
        frames(end(self.packages()), self.cores * CONTROL_BYTES)
    }

    /// The control rings of `core`.
    pub fn control(self, core: CoreId) -> Grant {
        row(self.controls(), core, CONTROL_BYTES)
    }

    /// The record of which core has which frame.
    pub fn frame_record(self) -> Grant {
        let words = PhysicalMemory::<Region>::words_for(MEMORY_START, self.memory);
        frames(end(self.controls()), words * size_of::<u64>())
    }

    /// The upper page tables that each core needs to map any of the node's memory, for its
    /// kernel and for its packages: each has 1 GiB of addresses for what has its place there, and
    /// as many as the node has memory for what it allocates, besides the pool.
    pub fn plan(self) -> Plan {
        let user = (1 << 30) + end(self.all()).0;
        let mut ranges = vec![VirtRange::new(virtual_address(MEMORY_START), self.memory)];
        for slot in UserSlot::all() {
            ranges.push(VirtRange::new(slot.base(), user));
            if self.pool > 0 {
                ranges.push(VirtRange::new(slot.pool(), self.pool));
            }
        }
        Plan::new(&ranges)
            .expect("no range is empty, and all end below the upper half of addresses")
    }

    /// The upper page tables of all cores, by core.
    pub fn upper_tables(self) -> Grant {
        tables(end(self.frame_record()), self.cores * self.plan().tables())
    }

    /// The last-level page tables that all cores share.
    pub fn table_pool(self) -> Grant {
        tables(end(self.upper_tables()), TablePool::tables_for(self.memory))
    }

    /// The pool of buffers, empty if the node has none.
    pub fn buffers(self) -> Grant {
        let tables = end(self.table_pool());
        let start = if self.pool == 0 { tables } else { large(tables) };
        Grant { start, bytes: self.pool }
    }

    /// Everything that is set aside at the node's start.
    pub fn reserved(self) -> Grant {
        Grant { start: MEMORY_START, bytes: end(self.buffers()).0 - MEMORY_START.0 }
    }

    /// What the kernel hands out.
    pub fn free(self) -> Grant {
        let reserved = self.reserved();
        Grant { start: end(reserved), bytes: self.memory - reserved.bytes }
    }
}

/// The first address behind `grant`.
pub(crate) fn end(grant: Grant) -> PhysAddr {
    PhysAddr(grant.start.0 + grant.bytes)
}

/// The first address from `at` on where a 2 MiB page can begin.
fn large(at: PhysAddr) -> PhysAddr {
    PhysAddr(at.0.next_multiple_of(PageSize::Large.bytes()))
}

/// Whole frames from `start` that hold `bytes` bytes.
fn frames(start: PhysAddr, bytes: usize) -> Grant {
    Grant { start, bytes: (bytes as u64).next_multiple_of(PageSize::Small.bytes()) }
}

/// `count` page tables from `start`.
fn tables(start: PhysAddr, count: usize) -> Grant {
    Grant { start, bytes: count as u64 * PageSize::Small.bytes() }
}

/// The row of `core` in a table with rows of `bytes` bytes.
fn row(table: Grant, core: CoreId, bytes: usize) -> Grant {
    frames(PhysAddr(table.start.0 + (core.index() * bytes) as u64), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_follow_each_other_without_overlap() {
        for cores in [1, 2, 64, nile_abi::MAX_CORES] {
            let layout = Layout { cores, memory: 1 << 30, pool: 64 << 20 };
            let last = CoreId(cores as u16 - 1);
            assert_eq!(layout.bells().start, MEMORY_START);
            assert_eq!(end(layout.record(last)), layout.node().start);
            assert_eq!(end(layout.node()), layout.package(CoreId::BOOT).start);
            assert_eq!(end(layout.package(last)), layout.control(CoreId::BOOT).start);
            assert_eq!(end(layout.control(last)), layout.frame_record().start);
            assert_eq!(end(layout.buffers()), layout.free().start);
            assert!(layout.buffers().start >= end(layout.table_pool()));
            assert!(layout.buffers().start.is_aligned(PageSize::Large));
            let none = Layout { pool: 0, ..layout };
            assert_eq!(end(none.table_pool()), none.free().start);
            assert_eq!(end(layout.free()), end(layout.all()));
            for region in [layout.receivers(), layout.record(last), layout.control(last)] {
                assert!(region.start.is_aligned(PageSize::Small));
                assert!(region.bytes.is_multiple_of(PageSize::Small.bytes()));
            }
        }
    }

    #[test]
    fn the_least_memory_leaves_most_of_it_free() {
        for cores in [1, 64, nile_abi::MAX_CORES] {
            for pool in [0, 64 << 20] {
                let least = crate::start::least_memory(cores);
                let layout = Layout { cores, memory: least + pool, pool };
                assert!(layout.free().bytes > least / 2);
            }
        }
    }
}
