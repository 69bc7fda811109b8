//! A disk as services have it: it reads and writes buffers of the node's pool.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{PhysAddr, Status};
use nile_device::disk::{Description, DiskError, Inline, Piece, Request};
use nile_device::{DrivenDisk, Transfer};
use nile_ring::{Buffer, Lent};

use crate::{CallError, CallResult, LocalFuture};

/// A disk that this core drives. Places on it are in bytes, whole sectors.
#[derive(Clone)]
pub struct PoolDisk {
    disk: Rc<DrivenDisk>,
    /// Where the pool begins for the device.
    pool: PhysAddr,
}

/// A transfer on its way.
pub type Moving = LocalFuture<'static, CallResult<Moved>>;

/// What a disk has read or written.
pub struct Moved {
    /// The buffers, as they were given.
    pub buffers: Vec<Buffer>,
    /// The rapidhash (V3) of as many of the bytes as was asked for, if whoever moved them has seen
    /// them; `None` if it was asked for none, or a device has moved them by itself.
    pub hash: Option<u64>,
}

impl PoolDisk {
    /// A disk of a node whose pool, if it has one, begins at `pool`.
    pub fn new(disk: Rc<DrivenDisk>, pool: PhysAddr) -> PoolDisk {
        PoolDisk { disk, pool }
    }

    /// What it is.
    pub fn description(&self) -> &Description {
        self.disk.description()
    }

    /// Fills buffers of the node's pool, one after the other, with what is on the disk from `at`
    /// on. If it may, takes the [hash](Moved::hash) of the first `hashed` bytes. `Invalid` (out of
    /// range, not whole sectors, too much at once) or `Failed`.
    pub fn read(&self, at: u64, buffers: Vec<Buffer>, hashed: usize) -> Moving {
        self.read_inline(at, buffers, hashed_only(hashed))
    }

    /// The same, and does with the bytes as they pass what is said.
    pub fn read_inline(&self, at: u64, buffers: Vec<Buffer>, inline: Inline) -> Moving {
        self.lend(buffers, inline, |into| Request::Read { at, into })
    }

    /// Writes buffers of the node's pool, one after the other, from `at` on. It is durable after a
    /// flush that began when this had ended. As above, or `Denied` (the disk may only be read).
    pub fn write(&self, at: u64, buffers: Vec<Buffer>, hashed: usize) -> Moving {
        self.write_inline(at, buffers, hashed_only(hashed))
    }

    /// The same, and does with the bytes as they pass what is said.
    pub fn write_inline(&self, at: u64, buffers: Vec<Buffer>, inline: Inline) -> Moving {
        self.lend(buffers, inline, |from| Request::Write { at, from })
    }

    /// Whether transfers of so many bytes may be given a [cipher](Inline::cipher).
    pub fn ciphers(&self, bytes: u64) -> bool {
        self.disk.ciphers(bytes)
    }

    /// Makes durable all writes that have ended. `Failed`.
    pub fn flush(&self) -> LocalFuture<'static, CallResult<()>> {
        self.done(self.disk.flush())
    }

    /// Says that nobody wants these bytes: until they are written, they are anything, and what the
    /// disk lies on may have the room back. `Invalid` or `Failed`; then they are anything, too.
    pub fn discard(&self, at: u64, bytes: u64) -> LocalFuture<'static, CallResult<()>> {
        self.done(self.disk.discard(at, bytes))
    }

    /// The end of a request that moves nothing.
    fn done(&self, transfer: Transfer<()>) -> LocalFuture<'static, CallResult<()>> {
        let disk = self.disk.clone();
        Box::pin(async move { transfer.await.0.map(drop).map_err(|error| failed(&disk, error)) })
    }

    /// Lends the buffers to the disk while it does a request with them.
    fn lend(
        &self,
        buffers: Vec<Buffer>,
        inline: Inline,
        request: impl FnOnce(Vec<Piece>) -> Request,
    ) -> Moving {
        let lent: Vec<Lent> = buffers.into_iter().map(Buffer::lend).collect();
        let piece = |lent: &Lent| {
            let at = PhysAddr(self.pool.0 + lent.offset() as u64);
            Some(Piece { at, region: lent.region()? })
        };
        let Some(pieces) = lent.iter().map(piece).collect() else {
            let parts = "a part of a buffer that a disk works with is whole lines of 64 bytes";
            return Box::pin(async move { Err(CallError::new(Status::Invalid, parts)) });
        };
        let transfer = self.disk.begin(request(pieces), inline, lent);
        let disk = self.disk.clone();
        Box::pin(async move {
            let (result, lent) = transfer.await;
            let hash = result.map_err(|error| failed(&disk, error))?;
            let back: Result<Vec<Buffer>, Lent> = lent.into_iter().map(Lent::take_back).collect();
            let buffers = back.map_err(|_| failed(&disk, DiskError::Failed))?;
            Ok(Moved { buffers, hash })
        })
    }
}

fn hashed_only(hashed: usize) -> Inline {
    Inline { hashed: hashed as u64, cipher: None }
}

fn failed(disk: &DrivenDisk, error: DiskError) -> CallError {
    CallError::new(error.into(), format!("{}: {error}", disk.description().name))
}
