//! Memory of a node: who has which frame, and what each core's page tables say.
//!
//! Mechanism only, over a machine that can be emulated: nothing here executes a privileged
//! instruction, touches an address or waits. The physical memory service and the virtual memory
//! service of the NileOS paper (section III.B; collections: section V) are built on it.
//!
//! In reading order:
//!
//! * [`region`]: what memory the firmware says there is, made consistent.
//! * [`frames`]: the physical memory service: 4 KiB, 2 MiB and 1 GiB pieces handed out so that
//!   large ones stay whole, with the truth in words that survive a restart of the manager.
//! * [`paging`]: the virtual memory service: upper page-table levels of each core's own, built
//!   before it starts, and last-level tables from one pool that all cores share.
//! * [`footprint`]: what that pool saves beside private tables.
//!
//! How a boot core uses them:
//!
//! ```
//! use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
//! use nile_memory::paging::{EmulatedMemory, Extent, Plan, VirtRange};
//! use nile_memory::*;
//! use std::sync::atomic::AtomicU64;
//!
//! // What the firmware and the loader say; what boot needs first is taken from it.
//! let mut map = MemoryMap::from_claims(&[
//!     MemoryRegion::new(PhysAddr(0x10_0000), 255 << 20, MemoryKind::Usable),
//!     MemoryRegion::new(PhysAddr(0x10_0000), 1 << 20, MemoryKind::Kernel),
//! ]);
//! let trampoline = map.take(4096, PageSize::Small, PhysAddr(1 << 28)).unwrap();
//!
//! // Every usable region, with words for its record (on a machine: a slice of memory taken).
//! let mut frames = PhysicalMemory::new();
//! for region in map.usable() {
//!     let words = PhysicalMemory::<&[AtomicU64]>::words_for(region.start, region.bytes);
//!     let words: &[AtomicU64] = (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
//!     frames.add_region(region.start, region.bytes, words).unwrap();
//! }
//!
//! // The whole pool of last-level tables, then each core's upper tables.
//! # let mut memory = EmulatedMemory::new(PhysAddr(0), 1 << 16);
//! let mut pool = TablePool::new();
//! while pool.total() < TablePool::tables_for(map.total_usable()) {
//!     let start = frames.alloc(PageSize::Large, CoreId::BOOT).unwrap();
//!     pool.grow(Extent { start, tables: 512 }).unwrap();
//! }
//! let plan = Plan::new(&[VirtRange::new(VirtAddr(0xffff_ffff_8000_0000), 1 << 30)]).unwrap();
//! let uppers: Vec<PhysAddr> = (0..plan.tables())
//!     .map(|_| frames.alloc(PageSize::Small, CoreId(1)).unwrap())
//!     .collect();
//! let mut space = AddressSpace::build(&mut memory, CoreId(1), &plan, &uppers).unwrap();
//!
//! // The kernel's text, in the largest pages that fit.
//! let (virt, phys) = (VirtAddr(0xffff_ffff_8010_0000), PhysAddr(0x10_0000));
//! let text = Permissions::READ_EXECUTE;
//! for mapping in Mapping::cover(virt, phys, 0x8_0000, PageSize::Large, text) {
//!     space.map(&mut memory, &mut pool, mapping).unwrap();
//! }
//! assert_eq!(space.find(&memory, virt).unwrap().phys, phys);
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod footprint;
pub mod frames;
pub mod paging;
pub mod region;

pub use frames::PhysicalMemory;
pub use paging::{AddressSpace, Mapping, Page, Permissions, TableMemory, TablePool};
pub use region::{MemoryKind, MemoryMap, MemoryRegion};
