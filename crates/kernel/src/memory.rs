//! Memory as tasks use it: a zeroed frame of 4 KiB, 2 MiB or 1 GiB, or several small ones in a
//! row, mapped on this core alone,
//! from the node's physical and virtual memory services.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use nile_abi::{PageSize, PhysAddr, Status, VirtAddr};
use nile_platform::disk::Piece;
use nile_platform::user::Access;
use nile_platform::{Grant, Machine};
use nile_ring::Region;

use crate::control::{Reply, Request};
use crate::core::Core;

/// A frame of this core's own, or several in a row.
pub struct Frame<M: Machine> {
    core: Core<M>,
    grant: Grant,
    region: Option<Region>,
}

/// How much memory the node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryStatistics {
    /// Usable bytes.
    pub total_bytes: u64,
    /// Bytes of them that nobody has.
    pub free_bytes: u64,
    /// Requests that could be met now, by size: 4 KiB, 2 MiB, 1 GiB.
    pub free: [u64; 3],
    /// Last-level tables that no core uses.
    pub free_tables: u64,
}

/// A region of the node's memory, as firmware names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRegion {
    /// Its first byte.
    pub start: PhysAddr,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it was given to the physical memory service.
    pub usable: bool,
}

impl<M: Machine> Core<M> {
    /// How much memory the node has. Waits for the management core.
    pub async fn memory_statistics(&self) -> Result<MemoryStatistics, Status> {
        match self.request(Request::Statistics).await? {
            Reply::Statistics { total, free, small, large, huge, tables } => Ok(MemoryStatistics {
                total_bytes: total,
                free_bytes: free,
                free: [small, large, huge],
                free_tables: tables,
            }),
            _ => Err(Status::Invalid),
        }
    }

    /// Gives a grant back. When the management core restarts meanwhile, its next incarnation
    /// learns of the grant and is then asked to take it.
    pub(crate) async fn take_back(&self, grant: Grant) -> Result<(), Status> {
        loop {
            match self.give_up(Request::Release { grant, at: None }).await {
                Err(Status::Dead) => {}
                result => return result,
            }
        }
    }

    /// Gives up so many free collections of 2 MiB, which nobody has then: all of them, or none
    /// (`NoMemory`). Waits for the management core.
    pub async fn give_up_memory(&self, collections: u64) -> Result<Vec<Grant>, Status> {
        let (mut given, mut left) = (Vec::new(), collections);
        while left > 0 {
            match self.request(Request::GiveUpMemory { most: left }).await {
                Ok(Reply::Region { start, bytes, .. }) => {
                    given.push(Grant { start, bytes });
                    left -= bytes / PageSize::Large.bytes();
                }
                other => {
                    for grant in given {
                        self.get_memory(grant).await?;
                    }
                    return Err(other.err().unwrap_or(Status::Invalid));
                }
            }
        }
        Ok(given)
    }

    /// This memory is the node's from now on; what is so already stays as it is. Waits for the
    /// management core. Fails with `Invalid` (not in whole 2 MiB), `NotFound` (no memory that the
    /// node can have).
    pub async fn get_memory(&self, grant: Grant) -> Result<(), Status> {
        self.request(Request::GetMemory { grant }).await.map(drop)
    }

    /// So many collections of 2 MiB that were given up are the node's again, whichever: how many
    /// were. Waits for the management core.
    pub async fn call_back_memory(&self, collections: u64) -> Result<u64, Status> {
        let mut came = 0;
        while came < collections {
            match self.request(Request::CallBackMemory { most: collections - came }).await {
                Ok(Reply::Region { bytes, .. }) => came += bytes / PageSize::Large.bytes(),
                Ok(_) => return Err(Status::Invalid),
                Err(Status::NotFound) => break,
                Err(status) => return Err(status),
            }
        }
        Ok(came)
    }

    /// The `index`th region of the node's memory; `NotFound` after the last. Waits for the
    /// management core.
    pub async fn memory_region(&self, index: u64) -> Result<MemoryRegion, Status> {
        match self.request(Request::Region { index }).await? {
            Reply::Region { start, bytes, usable } => Ok(MemoryRegion { start, bytes, usable }),
            _ => Err(Status::Invalid),
        }
    }

    /// A zeroed frame, mapped on this core. Waits for the management core. Fails with `NoMemory`
    /// (no free collection of the size) or `NoTables`.
    pub async fn allocate(&self, size: PageSize) -> Result<Frame<M>, Status> {
        self.granted(Request::Allocate { size }).await
    }

    /// Zeroed frames in a row for at least `bytes` bytes, fewer than 2 MiB. Waits for the
    /// management core. Fails with `Invalid` (too many bytes, or none), `NoMemory` or `NoTables`.
    pub async fn allocate_run(&self, bytes: u64) -> Result<Frame<M>, Status> {
        self.granted(Request::AllocateRun { bytes }).await
    }

    async fn granted(&self, request: Request) -> Result<Frame<M>, Status> {
        let reply = self.request(request).await?;
        let Reply::Granted { grant } = reply else { return Err(Status::Invalid) };
        let region = self.client.region(self, grant)?;
        Ok(Frame { core: self.clone(), grant, region: Some(region) })
    }
}

impl<M: Machine> Frame<M> {
    /// Where the frame is, and how long.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// The frame's memory.
    pub(crate) fn region(&self) -> &Region {
        self.region.as_ref().expect("only `release` takes it, and that consumes the frame")
    }

    /// The frame's memory, as words that any core of the grant may change.
    pub fn words(&self) -> &[AtomicU64] {
        self.region().words()
    }

    /// The `bytes` bytes at `offset`, for a disk to read or write; `None` unless both are
    /// multiples of a cache line and inside. The frame is to stay as long as the disk has it.
    pub fn piece(&self, offset: u64, bytes: u64) -> Option<Piece> {
        let (start, len) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
        let region = self.region.as_ref()?.slice(start, len)?;
        Some(Piece { at: PhysAddr(self.grant.start.0 + offset), region })
    }

    /// Moves the memory out of the kernel's half of this core's tables into the package's, at
    /// `at`. Waits for the management core. Fails with `Invalid` (no place for a package's
    /// memory), `Exists` (not free), `Denied` (to be executed, but shared), `NoTables`; the memory
    /// is given back then.
    pub(crate) async fn move_to_user(
        mut self,
        at: VirtAddr,
        access: Access,
    ) -> Result<Grant, Status> {
        self.region.take();
        let (core, grant) = (self.core.clone(), self.grant);
        core.move_to_user(grant, at, access).await.map(|()| grant)
    }

    /// Gives the frame back and waits until it is free again. Dropping it does the same without
    /// waiting.
    pub async fn release(mut self) -> Result<(), Status> {
        self.region.take();
        let (core, grant) = (self.core.clone(), self.grant);
        core.take_back(grant).await
    }
}

impl<M: Machine> Drop for Frame<M> {
    fn drop(&mut self) {
        if self.region.take().is_some() {
            let (core, grant) = (self.core.clone(), self.grant);
            self.core.spawn(async move { core.take_back(grant).await });
        }
    }
}
