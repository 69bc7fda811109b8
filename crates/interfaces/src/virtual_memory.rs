//! Zeroed memory mapped on a core, in pages of 4 KiB, 2 MiB or 1 GiB.

use nile_stl::{CallResult, service};

/// Memory mapped on the core that the instance is on.
#[service(subsystem = "memory", capability = "virtual", layer = low)]
pub trait VirtualMemory {
    /// Maps a zeroed page of 4096, 2097152 or 1073741824 bytes on this core: its address.
    #[stl_k(reply = "address")]
    async fn map(&self, size: u64) -> CallResult<u64>;

    /// Ends a mapping of this core: its memory goes back.
    #[stl_k]
    async fn unmap(&self, address: u64) -> CallResult<()>;

    /// Last-level tables of the node that no core uses.
    #[stl_k(reply = "free_tables", allow(operator, peer))]
    async fn tables(&self) -> CallResult<u64>;
}
