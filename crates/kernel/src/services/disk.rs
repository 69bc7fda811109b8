//! A disk as services have it: it reads and writes buffers of the node's pool.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_platform::Machine;
use nile_platform::disk::{DiskError, Piece, Request};
use nile_ring::{Buffer, Lent};
use nile_stl::node::{self, DiskDescription, Moved, Moving};
use nile_stl::{CallError, CallResult, LocalFuture};

use crate::core::Core;
use crate::disk::Disk;

/// A disk of a core.
pub struct Driven<M: Machine> {
    pub core: Core<M>,
    pub disk: Rc<Disk>,
}

impl<M: Machine> Driven<M> {
    /// Lends the buffers to the disk while it does a request with them.
    fn lend(
        &self,
        buffers: Vec<Buffer>,
        hashed: usize,
        request: impl FnOnce(Vec<Piece>) -> Request,
    ) -> Moving {
        let lent: Vec<Lent> = buffers.into_iter().map(Buffer::lend).collect();
        let piece = |lent| self.core.pool().and_then(|pool| pool.piece(lent));
        let Some(pieces) = lent.iter().map(piece).collect() else {
            let parts = "a part of a buffer that a disk works with is whole lines of 64 bytes";
            return Box::pin(async move { Err(CallError::new(Status::Invalid, parts)) });
        };
        let transfer = self.disk.begin(request(pieces), hashed as u64, lent);
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

fn failed(disk: &Disk, error: DiskError) -> CallError {
    CallError::new(error.into(), format!("{}: {error}", disk.description().name))
}

impl<M: Machine> node::Disk for Driven<M> {
    fn description(&self) -> DiskDescription {
        let it = self.disk.description().clone();
        DiskDescription {
            name: it.name,
            serial: it.serial,
            bytes: it.bytes,
            sector_bytes: it.sector_bytes,
        }
    }

    fn read(&self, at: u64, buffers: Vec<Buffer>, hashed: usize) -> Moving {
        self.lend(buffers, hashed, |into| Request::Read { at, into })
    }

    fn write(&self, at: u64, buffers: Vec<Buffer>, hashed: usize) -> Moving {
        self.lend(buffers, hashed, |from| Request::Write { at, from })
    }

    fn flush(&self) -> LocalFuture<'static, CallResult<()>> {
        let (disk, transfer) = (self.disk.clone(), self.disk.flush());
        Box::pin(async move { transfer.await.0.map(drop).map_err(|error| failed(&disk, error)) })
    }
}
