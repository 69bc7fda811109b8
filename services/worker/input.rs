//! Blocks of splits and of runs, read from whichever node has them.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_job::Fault;
use nile_stl::node::Buffer;
use nile_stl::{CallError, CallResult};

use super::attempt::{Attempt, Input};
use super::engine::Engine;
use super::gather::RunAt;
use super::loads::Loads;
use super::stores::Named;
use crate::cluster::Store;
use nile_interfaces::dataset::records::Destination;
use nile_interfaces::worker::records::DraftBlock;

impl Engine {
    /// Where a block begins in its dataset; of the one behind the last, where the dataset ends.
    pub async fn offset(self: &Rc<Self>, attempt: &Rc<Attempt>, block: u32) -> CallResult<u64> {
        let (Some(input), Some(ends)) =
            (&attempt.input, self.with_job(attempt.job_id, |it| it.ends.clone()))
        else {
            return Err(CallError::new(Status::NotFound, "the job is over"));
        };
        loop {
            let known = {
                let mut ends = ends.borrow_mut();
                let ends = ends.entry(input.split.dataset).or_default();
                match block {
                    0 => return Ok(0),
                    block if block as usize <= ends.len() => return Ok(ends[block as usize - 1]),
                    _ => ends.len(),
                }
            };
            let more = match self.lengths(input, known as u32).await {
                Ok(more) if more.is_empty() => {
                    let text = format!("{} ends before its block {block}", input.named.name);
                    Err(CallError::new(Status::NotFound, text))
                }
                result => result,
            };
            let more = match more {
                Ok(more) => more,
                Err(error) => {
                    self.fail(attempt, Fault::Input, format!("{error}"));
                    return Err(CallError::new(Status::NotFound, format!("{error}")));
                }
            };
            let mut ends = ends.borrow_mut();
            let ends = ends.entry(input.split.dataset).or_default();
            // Another call may have asked meanwhile.
            if ends.len() == known {
                let mut end = ends.last().copied().unwrap_or(0);
                ends.extend(more.into_iter().map(|bytes| {
                    end += u64::from(bytes);
                    end
                }));
            }
        }
    }

    /// Lengths of the blocks of a dataset from the one with the number `skip` on, some at a time.
    async fn lengths(&self, input: &Input, skip: u32) -> CallResult<Vec<u32>> {
        let Named { name, epoch, attempt } = &input.named;
        let blocks = self.ask_copies(input, &|| true, async |store| {
            store.client.blocks(name, *epoch, *attempt, skip).await
        });
        Ok(blocks.await?.into_iter().map(|it| it.bytes).collect())
    }

    /// What the first node says that has a copy of the input.
    async fn ask_copies<T>(
        &self,
        input: &Input,
        is_wanted: &dyn Fn() -> bool,
        ask: impl AsyncFnMut(&Store) -> CallResult<T>,
    ) -> CallResult<T> {
        let missing = unknown(&input.named);
        self.stores.first_of(&input.split.nodes, missing, is_wanted, ask).await
    }

    /// A few bytes of a dataset, from wherever it is.
    pub async fn read_piece(&self, input: &Input, at: u64, bytes: u32) -> CallResult<Vec<u8>> {
        let Named { name, epoch, attempt } = &input.named;
        let piece = self.ask_copies(input, &|| true, async |store| {
            store.client.read(name, *epoch, *attempt, at, bytes).await
        });
        Ok(piece.await?.bytes.0)
    }

    /// Reads a block of a split, in a task of its own: what a store gives has to be claimed.
    pub fn read_block(self: &Rc<Self>, attempt: &Rc<Attempt>, index: u32) {
        let (engine, attempt) = (self.clone(), attempt.clone());
        self.stl.host().spawn(Box::pin(async move {
            let Some(input) = &attempt.input else { return };
            let read = engine.load_block(&attempt, input, input.split.block + index).await;
            input.loads.borrow_mut().put(index, read);
            engine.changes.notify();
        }));
    }

    async fn load_block(
        self: &Rc<Self>,
        attempt: &Attempt,
        input: &Input,
        block: u32,
    ) -> CallResult<(Buffer, usize)> {
        let is_wanted = || attempt.is_wanted();
        self.ask_copies(input, &is_wanted, async |store| {
            self.block_of(&input.named, block, store, &is_wanted).await
        })
        .await
    }

    /// A block from a store: one of another node sends it to this core's mailbox.
    pub async fn block_of(
        &self,
        named: &Named,
        block: u32,
        at: &Store,
        is_wanted: &dyn Fn() -> bool,
    ) -> CallResult<(Buffer, usize)> {
        if at.is_here() {
            return self.stores.load_from(at, &self.pool, named, block, is_wanted).await;
        }
        let Named { name, epoch, attempt } = named;
        let (own, label) = (self.peers.node(), self.number());
        let send = async |mailbox| {
            let to = Destination { node: own.0, mailbox, label };
            at.client.send(name, *epoch, *attempt, block, to).await.map(|_| ())
        };
        self.parcel(label, send).await
    }

    /// Waits for a buffer that somebody is asked to send to this core's mailbox.
    async fn parcel(
        &self,
        label: u64,
        send: impl AsyncFnOnce(u64) -> CallResult<()>,
    ) -> CallResult<(Buffer, usize)> {
        self.state.borrow_mut().parcels.insert(label, None);
        let sent = send(self.peers.mailbox(self.core())).await;
        if let Err(error) = sent {
            self.state.borrow_mut().parcels.remove(&label);
            return Err(error);
        }
        // It was in the mailbox when the call ended.
        let look = || {
            let parcels = &mut self.state.borrow_mut().parcels;
            match parcels.get(&label) {
                Some(Some(_)) => Some(parcels.remove(&label).flatten()),
                Some(None) => None,
                None => Some(None),
            }
        };
        let lost = || CallError::new(Status::Dead, "the network core has lost a block");
        let buffer = self.changes.until(look).await.ok_or_else(lost)?;
        self.whole(buffer)
    }

    /// A buffer that has come, in its whole length, and how many of its bytes are meant.
    pub fn whole(&self, buffer: Buffer) -> CallResult<(Buffer, usize)> {
        let bytes = buffer.len();
        let handle = buffer.into_handle(self.pool.buffer_size());
        let refused = |error| CallError::new(Status::Invalid, format!("{error}"));
        Ok((self.pool.claim(handle).map_err(refused)?, bytes))
    }

    /// Reads a block of a run, in a task of its own.
    pub fn read_run(
        self: &Rc<Self>,
        attempt: &Rc<Attempt>,
        at: RunAt,
        loads: &Rc<RefCell<Loads>>,
        index: u32,
    ) {
        let (engine, attempt, loads) = (self.clone(), attempt.clone(), loads.clone());
        self.stl.host().spawn(Box::pin(async move {
            let read = engine.load_run(&attempt, at, index).await;
            loads.borrow_mut().put(index, read);
            engine.changes.notify();
        }));
    }

    async fn load_run(
        self: &Rc<Self>,
        attempt: &Attempt,
        at: RunAt,
        index: u32,
    ) -> CallResult<(Buffer, usize)> {
        let RunAt { from, entry, .. } = at;
        let place = (nile_abi::CoreId(entry.store), entry.draft, entry.first + index);
        let own = self.peers.node();
        if from.node == own {
            let is_wanted = || attempt.is_wanted();
            return self.stores.load_draft(&self.pool, place, is_wanted).await;
        }
        let label = self.number();
        let send = async |mailbox| {
            let worker = self.peers.worker(from).await?;
            let (store, draft, block) = place;
            let to = Destination { node: own.0, mailbox, label };
            worker.run_block(DraftBlock { store: store.0, draft, block }, to).await
        };
        self.parcel(label, send).await
    }
}

fn unknown(named: &Named) -> CallError {
    let Named { name, epoch, attempt } = named;
    let text = format!("{name}@{epoch}.{attempt}: no node that lives is said to have it");
    CallError::new(Status::NotFound, text)
}
