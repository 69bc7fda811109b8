//! Drafts that are written as streams of bytes: they gather in a buffer until a block is full.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};
use core::time::Duration;

use nile_abi::{Instant, NodeId, Status};
use nile_stl::node::Buffer;
use nile_stl::{CallError, CallResult};
use nile_store::{DraftId, Manifest, Name, Owner, Version};

use super::keeper::Keeper;
use super::records::refused;

/// For how long a draft may be left alone before it ends when somebody begins another.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most drafts at a time: each may hold a buffer.
const MOST_DRAFTS: usize = 64;

/// The drafts of a core.
#[derive(Default)]
pub struct Streams(RefCell<BTreeMap<u64, Rc<Stream>>>);

/// A draft, and what of its present block has come.
pub struct Stream {
    name: Name,
    version: Version,
    id: DraftId,
    state: RefCell<Written>,
}

struct Written {
    /// Bytes that have come, from the dataset's start.
    bytes: u64,
    /// The block that is being filled, and how far it is.
    block: u32,
    filled: usize,
    buffer: Option<Buffer>,
    /// A block is on its way to the disk; and who waits for that.
    is_busy: bool,
    waiter: Option<Waker>,
    /// Why nothing more can be added.
    failed: Option<CallError>,
    touched: Instant,
}

impl Streams {
    /// Begins a draft; those that were left alone end.
    pub fn create(
        &self,
        keeper: &Keeper,
        name: Name,
        version: Version,
        owner: Owner,
        now: Instant,
    ) -> CallResult<u64> {
        let old: Vec<u64> = self
            .0
            .borrow()
            .iter()
            .filter_map(|(id, it)| {
                let written = it.state.borrow();
                (!written.is_busy && now.since(written.touched) > PATIENCE).then_some(*id)
            })
            .collect();
        for id in old {
            self.abort(keeper, id)?;
        }
        if self.0.borrow().len() >= MOST_DRAFTS {
            let message = format!("{MOST_DRAFTS} datasets are being written; try again later");
            return Err(CallError::new(Status::Busy, message));
        }
        let created = keeper.with(|store| store.create(name.clone(), version, owner));
        let id = created.map_err(|error| refused(error, name.as_str()))?;
        let state = Written {
            bytes: 0,
            block: 0,
            filled: 0,
            buffer: None,
            is_busy: false,
            waiter: None,
            failed: None,
            touched: now,
        };
        let stream = Stream { name, version, id, state: RefCell::new(state) };
        self.0.borrow_mut().insert(id.0, Rc::new(stream));
        Ok(id.0)
    }

    /// A draft; `Busy` while one of its blocks is being written.
    pub fn find(&self, id: u64) -> CallResult<Rc<Stream>> {
        let stream = self.0.borrow().get(&id).cloned();
        let none = || CallError::new(Status::NotFound, format!("no draft {id}, or it has ended"));
        let stream = stream.ok_or_else(none)?;
        let is_busy = stream.state.borrow().is_busy;
        let busy = || CallError::new(Status::Busy, format!("draft {id} is being written"));
        if is_busy { Err(busy()) } else { Ok(stream) }
    }

    /// Ends a draft, and leaves nothing of it; well, if there is none.
    pub fn abort(&self, keeper: &Keeper, id: u64) -> CallResult<()> {
        match self.find(id) {
            Ok(stream) => {
                self.forget(id);
                keeper.with(|store| store.abort(stream.id));
                Ok(())
            }
            Err(error) if error.status == Status::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The draft has become a dataset.
    pub fn forget(&self, id: u64) {
        self.0.borrow_mut().remove(&id);
    }
}

impl Stream {
    /// The dataset's name and version, and the store's draft.
    pub fn what(&self) -> (&Name, Version, DraftId) {
        (&self.name, self.version, self.id)
    }

    /// Takes bytes that begin `at` bytes from the dataset's start; gives how many there are now.
    /// What came before is not taken again, so that a call may be repeated.
    pub async fn write(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        at: u64,
        bytes: &[u8],
        now: Instant,
    ) -> CallResult<u64> {
        let there = self.state.borrow().bytes;
        let Some(known) = there.checked_sub(at) else {
            let message = format!("{} has {there} bytes; those from {at} on must wait", self.name);
            return Err(CallError::new(Status::Invalid, message));
        };
        if let Some(failed) = &self.state.borrow().failed {
            return Err(failed.clone());
        }
        let mut rest = bytes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        while !rest.is_empty() {
            if self.state.borrow().buffer.is_none() {
                let buffer = keeper.medium.buffer()?;
                self.state.borrow_mut().buffer = Some(buffer);
            }
            let is_full = {
                let written = &mut *self.state.borrow_mut();
                written.touched = now;
                let Some(buffer) = &mut written.buffer else { break };
                let room = &mut buffer[written.filled..];
                let (taken, left) = rest.split_at(rest.len().min(room.len()));
                room[..taken.len()].copy_from_slice(taken);
                rest = left;
                written.filled += taken.len();
                written.bytes += taken.len() as u64;
                written.filled == buffer.len()
            };
            if is_full {
                self.flush(keeper).await?;
            }
        }
        Ok(self.state.borrow().bytes)
    }

    /// Takes a whole block in a buffer. Its bytes count as if they had been written.
    pub async fn append(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        buffer: Buffer,
        bytes: usize,
        now: Instant,
    ) -> CallResult<()> {
        self.flush(keeper).await?;
        {
            let written = &mut *self.state.borrow_mut();
            written.touched = now;
            written.bytes += bytes as u64;
            written.filled = bytes;
            written.buffer = Some(buffer);
        }
        self.flush(keeper).await
    }

    /// Writes what has gathered as a block. Whoever stops waiting for it does not stop it: until
    /// it has ended, its space is in use.
    async fn flush(self: &Rc<Self>, keeper: &Rc<Keeper>) -> CallResult<()> {
        let taken = {
            let written = &mut *self.state.borrow_mut();
            let buffer = if written.filled > 0 { written.buffer.take() } else { None };
            written.is_busy = buffer.is_some();
            buffer.map(|buffer| (buffer, core::mem::take(&mut written.filled)))
        };
        if let Some((buffer, filled)) = taken {
            let (stream, keeper) = (self.clone(), keeper.clone());
            let block = self.state.borrow().block;
            keeper.stl.host().clone().spawn(Box::pin(async move {
                let result = stream.put(&keeper, block, buffer, filled).await;
                let written = &mut *stream.state.borrow_mut();
                written.is_busy = false;
                written.block += 1;
                written.failed = result.err();
                if let Some(waiter) = written.waiter.take() {
                    waiter.wake();
                }
            }));
        }
        poll_fn(|context| {
            let written = &mut *self.state.borrow_mut();
            if written.is_busy {
                written.waiter = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(written.failed.clone().map_or(Ok(()), Err))
        })
        .await
    }

    async fn put(
        &self,
        keeper: &Keeper,
        block: u32,
        mut buffer: Buffer,
        filled: usize,
    ) -> CallResult<()> {
        let failed = |error| refused(error, self.name.as_str());
        let bytes = filled as u32;
        let range = keeper.with(|store| store.reserve(self.id, block, bytes)).map_err(failed)?;
        let checksum = (keeper.checksum)(0, &buffer[..filled]);
        // What an earlier owner left in the buffer is nobody's business.
        buffer[filled..range.bytes as usize].fill(0);
        keeper.medium.write(range.at, buffer, range.bytes as usize).await?;
        keeper.with(|store| store.written(self.id, block, checksum)).map_err(failed)
    }

    /// Writes what is left, and gives the manifest of a dataset that all of `nodes` have whole.
    pub async fn finish(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        nodes: &[NodeId],
    ) -> CallResult<Manifest> {
        self.flush(keeper).await?;
        let manifest = keeper.with(|store| store.manifest(self.id, nodes));
        manifest.map_err(|error| refused(error, self.name.as_str()))
    }
}
