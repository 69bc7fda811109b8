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
