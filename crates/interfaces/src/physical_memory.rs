//! How much memory the node has, which regions, and frames for any core.

use alloc::vec::Vec;

use nile_stl::{CallResult, Caller, Record, service};

/// The node's memory, in bytes and in what could be given out now of each size.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// Usable memory.
    pub total_bytes: u64,
    /// What of it nobody has.
    pub free_bytes: u64,
    /// Free 4 KiB frames, those of free collections included.
    pub free_4k: u64,
    /// Free 2 MiB collections, those of free 1 GiB collections included.
    pub free_2m: u64,
    /// Free 1 GiB collections.
    pub free_1g: u64,
    /// What this service holds for each core that has asked for something.
    pub held: Vec<CoreShare>,
}

/// What is held for a core.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreShare {
    /// The core.
    pub core: u16,
    /// Its frames, of any size.
    pub frames: u64,
    /// The bytes of all of them.
    pub bytes: u64,
}

/// A region of the node's memory, as firmware names it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRegion {
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it can be given out.
    pub usable: bool,
}

/// The node's memory: how much there is, and frames of it.
#[service(subsystem = "memory", capability = "physical", layer = low)]
pub trait PhysicalMemory {
    /// How much memory there is, and for whom frames are held.
    #[stl_k(reply = "use", allow(package, operator, peer))]
    async fn statistics(&self) -> CallResult<MemoryUse>;

    /// The regions that firmware names.
    #[stl_k(reply = "regions", allow(operator, peer))]
    async fn regions(&self) -> CallResult<Vec<MemoryRegion>>;

    /// Holds a frame of 4096, 2097152 or 1073741824 bytes for the calling core: its address.
    #[stl_k(reply = "address")]
    async fn allocate(&self, caller: &Caller, size: u64) -> CallResult<u64>;

    /// Gives back a frame that is held for the calling core.
    #[stl_k]
    async fn free(&self, caller: &Caller, address: u64) -> CallResult<()>;

    /// Has so many collections of 2 MiB of the node's memory be away, nobody's until fewer are to
    /// be. Those that go are free ones: if there are too few, all stays as it is. Not for a domain
    /// of a PC, whose supervisor does that.
    #[stl_k(allow(operator, peer))]
    async fn set_away(&self, collections: u64) -> CallResult<()>;
}
