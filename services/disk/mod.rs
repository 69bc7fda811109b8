//! The disk service (NileOS paper, III.B): the disks of this core, for all cores of the node. Data
//! go between a disk and buffers of the node's pool; the device copies by itself. What it is given
//! are handles of buffers, and it gives new ones back: whoever has called owns the buffers again.
//! When a call fails, its buffers are free.

use alloc::format;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_bosml::Buffer as Handle;
use nile_interfaces::disk::{Content, DiskEntry, DiskKernel};
use nile_stl::node::{Buffer, PoolDisk, from_call, in_call};
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

/// The disks of a core.
pub struct Disk {
    stl: Stl,
}

impl Start for Disk {
    fn start(stl: &Stl) -> Disk {
        Disk { stl: stl.clone() }
    }
}

#[service(on = disk, keywords(disk = 5, storage = 3, read = 2, write = 2, flush = 1))]
impl DiskKernel for Disk {
    fn list(&self) -> CallResult<Vec<DiskEntry>> {
        let disks = self.stl.node()?.disks();
        let entry = |(number, disk): (u32, PoolDisk)| {
            let it = disk.description().clone();
            let (name, serial, bytes, sector) = (it.name, it.serial, it.bytes, it.sector_bytes);
            DiskEntry { number, name, serial, bytes, sector }
        };
        Ok((0..).zip(disks).map(entry).collect())
    }

    async fn read(
        &self,
        caller: &Caller,
        disk: u32,
        at: u64,
        buffers: Vec<Handle>,
        checksum: bool,
    ) -> CallResult<Content> {
        let buffers = self.claim(caller, buffers)?;
        let buffers = self.disk(disk)?.read(at, buffers, 0).await?.buffers;
        let checksum = match checksum {
            true => self.checksum(&buffers)?,
            false => 0,
        };
        Ok(Content { buffers: hand_over(buffers), checksum })
    }

    async fn write(
        &self,
        caller: &Caller,
        disk: u32,
        at: u64,
        buffers: Vec<Handle>,
    ) -> CallResult<Vec<Handle>> {
        let buffers = self.claim(caller, buffers)?;
        Ok(hand_over(self.disk(disk)?.write(at, buffers, 0).await?.buffers))
    }

    async fn flush(&self, caller: &Caller, disk: u32) -> CallResult<()> {
        caller.own_core()?;
        self.disk(disk)?.flush().await
    }
}

impl Disk {
    fn disk(&self, number: u32) -> CallResult<PoolDisk> {
        let mut disks = self.stl.node()?.disks();
        match disks.len() {
            some if (number as usize) < some => Ok(disks.swap_remove(number as usize)),
            some => {
                let message = format!("no disk {number}: this core has {some}");
                Err(CallError::new(Status::NotFound, message))
            }
        }
    }

    fn claim(&self, caller: &Caller, handles: Vec<Handle>) -> CallResult<Vec<Buffer>> {
        // Handles mean something on their node alone.
        caller.own_core()?;
        let no_pool = || CallError::new(Status::Invalid, "this node has no pool of buffers");
        let pool = self.stl.node()?.pool().ok_or_else(no_pool)?;
        let claim = |handle: Handle| {
            let refused = |error| CallError::new(Status::Invalid, format!("{error}"));
            pool.claim(from_call(handle)).map_err(refused)
        };
        handles.into_iter().map(claim).collect()
    }

    fn checksum(&self, buffers: &[Buffer]) -> CallResult<u32> {
        let continued = self.stl.node()?.checksum().unwrap_or(nile_ipioe::checksum::portable);
        Ok(buffers.iter().fold(0, |sum, buffer| continued(sum, buffer)))
    }
}

fn hand_over(buffers: Vec<Buffer>) -> Vec<Handle> {
    let handle = |buffer: Buffer| {
        let bytes = buffer.len();
        in_call(buffer.into_handle(bytes))
    };
    buffers.into_iter().map(handle).collect()
}
