//! A draft that buffers are appended to, a few at a time on their way to the disk.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Context, Poll};

use nile_abi::CoreId;
use nile_stl::node::{Buffer, Pool};
use nile_stl::{CallError, CallResult, LocalFuture, Stl};
use nile_sync::{Notify, Waiter};

use super::engine::Engine;
use super::stores::pass;
use crate::cluster::Store;
use nile_interfaces::dataset::records::Decider;

/// Buffers that are on their way to the disk at a time: whoever writes waits with the next one.
const MOST_OPEN: usize = 2;

/// A draft that is being written.
pub struct Writer {
    stl: Stl,
    pool: Pool,
    store: Rc<Store>,
    draft: u64,
    state: RefCell<State>,
    changes: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Buffer, usize)>,
    is_busy: bool,
    /// What writes, while it waits.
    driver: Waiter,
    failed: Option<CallError>,
    bytes: u64,
}

/// Which draft to make.
pub struct Draft<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: (u64, u32),
    /// Who decides on it.
    pub owner: Decider,
}

impl Writer {
    /// Begins a draft in a store of this node.
    pub async fn create(engine: &Engine, draft: Draft<'_>) -> CallResult<Rc<Writer>> {
        let store = engine.stores.own(engine.core()).await?;
        let Draft { name, version: (epoch, attempt), owner } = draft;
        let created = store.client.create(name, epoch, attempt, owner, 0).await;
        let draft = created.inspect_err(|_| engine.stores.forget())?.draft;
        let (stl, pool) = (engine.stl.clone(), engine.pool.clone());
        let (state, changes) = (RefCell::default(), Notify::default());
        Ok(Rc::new(Writer { stl, pool, store, draft, state, changes }))
    }

    /// The store's core, and the draft's number there.
    pub fn place(&self) -> (CoreId, u64) {
        (self.store.place.core, self.draft)
    }

    /// Bytes that were given to it.
    pub fn bytes(&self) -> u64 {
        self.state.borrow().bytes
    }

    /// The way to its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Takes the next block, and waits until it is on its way to the disk. Fails as the block
    /// before did that could not be written; then nothing more is.
    pub async fn put(self: &Rc<Self>, buffer: Buffer, bytes: usize) -> CallResult<()> {
        {
            let state = &mut *self.state.borrow_mut();
            state.waiting.push_back((buffer, bytes));
            state.bytes += bytes as u64;
        }
        self.drive();
        self.until(|state| state.waiting.is_empty()).await
    }

    /// Waits until all that was given to it is in the draft.
    pub async fn flush(&self) -> CallResult<()> {
        self.until(|state| state.waiting.is_empty() && !state.is_busy).await
    }

    /// Ends the draft; nothing is left of it.
    pub fn abort(self: &Rc<Self>) {
        let writer = self.clone();
        {
            let state = &mut *self.state.borrow_mut();
            state.waiting.clear();
            state.failed.get_or_insert(CallError::from(nile_abi::Status::Gone));
        }
        self.changes.notify();
        self.stl.host().spawn(Box::pin(async move {
            writer.changes.until(|| (!writer.state.borrow().is_busy).then_some(())).await;
            // If the store is gone, so is the draft.
            let _ = writer.store.client.abort(writer.draft).await;
        }));
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) -> CallResult<()> {
        let look = || {
            let state = self.state.borrow();
            match &state.failed {
                Some(error) => Some(Err(error.clone())),
                None => is_so(&state).then_some(Ok(())),
            }
        };
        self.changes.until(look).await
    }

    /// Writes what waits, in a task of its own.
    fn drive(self: &Rc<Self>) {
        let state = &mut *self.state.borrow_mut();
        state.driver.wake();
        if core::mem::replace(&mut state.is_busy, true) {
            return;
        }
        let writer = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            let mut open = Vec::new();
            poll_fn(|context| writer.poll(context, &mut open)).await;
            writer.changes.notify();
        }));
    }

    /// Goes on writing: blocks are begun in their order, which is that of the draft.
    fn poll(
        self: &Rc<Self>,
        context: &mut Context<'_>,
        open: &mut Vec<LocalFuture<'static, CallResult<()>>>,
    ) -> Poll<()> {
        loop {
            let before = open.len();
            open.retain_mut(|append| match append.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    self.heed(result);
                    false
                }
            });
            let next = match open.len() {
                ..MOST_OPEN => self.state.borrow_mut().waiting.pop_front(),
                _ => None,
            };
            if open.len() < before || next.is_some() {
                self.changes.notify();
            }
            let Some((buffer, bytes)) = next else { break };
            open.push(Box::pin(append(self.clone(), buffer, bytes)));
        }
        let state = &mut *self.state.borrow_mut();
        if open.is_empty() {
            state.is_busy = false;
            return Poll::Ready(());
        }
        state.driver.wait(context.waker());
        Poll::Pending
    }

    fn heed(&self, result: CallResult<()>) {
        if let Err(error) = result {
            let state = &mut *self.state.borrow_mut();
            state.waiting.clear();
            state.failed.get_or_insert(error);
        }
    }
}

async fn append(writer: Rc<Writer>, buffer: Buffer, bytes: usize) -> CallResult<()> {
    let append = async |buffer| writer.store.client.append(writer.draft, buffer).await;
    pass(&writer.pool, buffer, bytes, append).await
}
