//! The physical memory service (NileOS paper, III.B): how much memory the node has, which regions,
//! and frames for any core. Such a frame is mapped nowhere but on the managing core, and belongs
//! to the core that asked for it: it goes back when that core's incarnation ends, or the managing
//! core's.
//!
//! * `held`: who has which frame.

mod held;

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{PageSize, PhysAddr, Status};
use nile_stl::node::page_size;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use held::{Held, Holder};
use nile_interfaces::physical_memory::{MemoryRegion, MemoryUse, PhysicalMemoryKernel};

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

#[service(on = manager, keywords(memory = 5, frame = 3, statistics = 2, region = 1))]
impl PhysicalMemoryKernel for PhysicalMemory {
    async fn statistics(&self) -> CallResult<MemoryUse> {
        let memory = self.stl.node()?.memory().await?;
        let [free_4k, free_2m, free_1g] = memory.free;
        let (total_bytes, free_bytes) = (memory.total_bytes, memory.free_bytes);
        let held = self.held.by_core();
        Ok(MemoryUse { total_bytes, free_bytes, free_4k, free_2m, free_1g, held })
    }

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

    async fn allocate(&self, caller: &Caller, size: u64) -> CallResult<u64> {
        let (core, size) = (caller.own_core()?, page_size(size)?);
        let holder = Holder { core, generation: self.stl.host().generation_of(core) };
        let frame = self.stl.node()?.allocate(size).await?;
        if self.stl.host().generation_of(core) != holder.generation {
            return Err(CallError::new(Status::Dead, "the core that asked has restarted since"));
        }
        Ok(self.held.keep(holder, frame).0)
    }

    async fn free(&self, caller: &Caller, address: u64) -> CallResult<()> {
        let frame = self.held.take(caller.own_core()?, PhysAddr(address))?;
        Ok(frame.release().await?)
    }

    async fn set_away(&self, collections: u64) -> CallResult<()> {
        let node = self.stl.node()?;
        if node.seated().is_some() {
            let what = "the supervisor of the machine gives and takes its memory: domains.resize";
            return Err(CallError::new(Status::Denied, what));
        }
        let usable: u64 =
            self.regions().await?.iter().filter(|it| it.usable).map(|it| it.bytes).sum();
        let memory = node.memory().await?;
        let away = usable.saturating_sub(memory.total_bytes) / PageSize::Large.bytes();
        if collections > away {
            let missing = (collections - away).saturating_sub(memory.free[1]);
            return match node.give_up_memory(collections - away).await {
                Ok(_) => Ok(()),
                Err(Status::NoMemory) => {
                    let what = format!("{missing} collections of 2 MiB more are in use");
                    Err(CallError::new(Status::NoMemory, what))
                }
                Err(status) => Err(status.into()),
            };
        }
        match node.call_back_memory(away - collections).await? {
            came if came == away - collections => Ok(()),
            _ => Err(Status::NotFound.into()),
        }
    }
}
