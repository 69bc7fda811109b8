//! The physical memory service (NileOS paper, III.B): how much memory the node has, which regions,
//! and frames for any core. Such a frame is mapped nowhere but on the managing core, and belongs
//! to the core that asked for it: it goes back when that core's incarnation ends, or the managing
//! core's.
//!
//! * `held`: who has which frame.

mod held;

use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{PhysAddr, Status};
use nile_stl::node::page_size;
use nile_stl::{CallError, CallResult, Caller, Record, Start, Stl, service};

use held::{Held, Holder};

/// Regions that one reply lists at most; firmware names a few dozen.
const MOST_REGIONS: u64 = 1024;

/// The frames that the service has given out.
pub struct PhysicalMemory {
    stl: Stl,
    held: Rc<Held>,
}

impl Start for PhysicalMemory {
    fn start(stl: &Stl) -> PhysicalMemory {
        let held = Rc::new(Held::default());
        let mourner = held.clone();
        stl.on_death(move |core, generation| mourner.give_back(Holder { core, generation }));
        PhysicalMemory { stl: stl.clone(), held }
    }
}

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
#[service(
    subsystem = "memory",
    capability = "physical",
    layer = low,
    on = manager,
    keywords(memory = 5, frame = 3, statistics = 2, region = 1)
)]
impl PhysicalMemory {
    /// How much memory there is, and for whom frames are held.
    #[stl_k(reply = "use")]
    async fn statistics(&self) -> CallResult<MemoryUse> {
        let memory = self.stl.node()?.memory().await?;
        let [free_4k, free_2m, free_1g] = memory.free;
        let (total_bytes, free_bytes) = (memory.total_bytes, memory.free_bytes);
        let held = self.held.by_core();
        Ok(MemoryUse { total_bytes, free_bytes, free_4k, free_2m, free_1g, held })
    }

    /// The regions that firmware names.
    #[stl_k(reply = "regions")]
    async fn regions(&self) -> CallResult<Vec<MemoryRegion>> {
        let node = self.stl.node()?;
        let mut regions = Vec::new();
        for index in 0..MOST_REGIONS {
            match node.region(index).await {
                Ok(region) => regions.push(MemoryRegion {
                    start: region.start.0,
                    bytes: region.bytes,
                    usable: region.usable,
                }),
                Err(Status::NotFound) => break,
                Err(status) => return Err(status.into()),
            }
        }
        Ok(regions)
    }

    /// Holds a frame of 4096, 2097152 or 1073741824 bytes for the calling core: its address.
    #[stl_k(reply = "address")]
    async fn allocate(&self, caller: &Caller, size: u64) -> CallResult<u64> {
        let (core, size) = (caller.own_core()?, page_size(size)?);
        let holder = Holder { core, generation: self.stl.host().generation_of(core) };
        let frame = self.stl.node()?.allocate(size).await?;
        if self.stl.host().generation_of(core) != holder.generation {
            return Err(CallError::new(Status::Dead, "the core that asked has restarted since"));
        }
        Ok(self.held.keep(holder, frame).0)
    }

    /// Gives back a frame that is held for the calling core.
    #[stl_k]
    async fn free(&self, caller: &Caller, address: u64) -> CallResult<()> {
        let frame = self.held.take(caller.own_core()?, PhysAddr(address))?;
        Ok(frame.release().await?)
    }
}
