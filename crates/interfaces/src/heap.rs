//! Memory for packages: an arena in the package, which asks the kernel for more.

use nile_stl::{CallResult, Caller, Record, service};

/// Memory that a package got.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grown {
    /// Its first byte, in the package.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// What is in the arena.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeapUse {
    /// Bytes of it.
    pub total_bytes: u64,
    /// Bytes of them that are free, in pieces.
    pub free_bytes: u64,
    /// Bytes of the largest free piece.
    pub largest_free: u64,
    /// Pieces that are allocated.
    pub allocations: u64,
    /// Times that the kernel was asked for more.
    pub growths: u64,
}

/// Memory for packages.
#[service(subsystem = "memory", capability = "heap", layer = high)]
pub trait Heap {
    /// Gives the calling core's package at least so many bytes of zeroed memory.
    #[stl_k(reply = "grown", allow(package))]
    async fn grow(&self, caller: &Caller, bytes: u64) -> CallResult<Grown>;

    /// Memory of so many bytes at a multiple of `align`, a power of two up to 2 MiB: its address.
    /// It is not zeroed.
    #[stl_u(reply = "address", allow(package))]
    async fn allocate(
        &self,
        #[range(1..=1_099_511_627_776)] bytes: u64,
        #[range(1..=2_097_152)] align: u64,
    ) -> CallResult<u64>;

    /// Frees what was allocated at an address.
    #[stl_u(allow(package))]
    fn free(&self, address: u64) -> CallResult<()>;

    /// What is in the arena.
    #[stl_u(reply = "use", allow(package))]
    fn usage(&self) -> HeapUse;
}
