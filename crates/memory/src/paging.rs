//! The virtual memory service's mechanism: page tables of every core, and the pool they share.
//!
//! Each core has the upper three levels for itself and prebuilt; the last level, which would be
//! nearly all the memory of private tables, comes from one pool for all cores, sized to physical
//! memory (NileOS paper, design decision 6). The format is x86_64's, as data: all access goes
//! through [`TableMemory`], which a machine implements with loads and stores and
//! [`EmulatedMemory`] with vectors.
//!
//! * `entry`: one entry: permissions, levels, encoding.
//! * `table`: 512 of them, and the walk through four levels.
//! * `plan`: which upper tables a set of ranges needs.
//! * `pool`: last-level tables: free, linked, retired.
//! * `space`: one core's mappings: map, unmap, protect, acknowledge.
//! * `recover`: the pool found again by walking the tables, and the end of a core's tables.
//! * `emulate`: a machine of vectors, with caches that forget only what they are told to.

mod emulate;
mod entry;
mod plan;
mod pool;
mod recover;
mod space;
mod table;
#[cfg(test)]
mod tests;

pub use emulate::{EmulatedMemory, Mmu};
pub use entry::{Entry, EntryKind, Level, Permissions};
pub use plan::{BadRange, Plan, VirtRange};
pub use pool::{Extent, GrowError, ShrinkError, TablePool};
pub use recover::RecoverError;
pub use space::{
    AddressSpace, BuildError, MapError, Mapping, Page, ProtectError, Retired, UnmapError, Unmapped,
};
pub use table::{ENTRIES, TableIndex, TableMemory};
