//! Pieces on their way to those who have asked for them: within the node where their buffers are,
//! to other nodes as bytes, which are read where they are.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::mem;

use nile_abi::{NodeId, Part, Status};
use nile_bosml::Blob;
use nile_bulk::MOST_PARTS;
use nile_job::{AttemptId, Fault, JobId, Peer, PieceId, WorkerId};
use nile_stl::node::Buffer;
use nile_stl::{CallError, CallResult};

use super::attempt::Held;
use super::engine::{Engine, PLACES};
use super::gather::Fetch;
use super::outputs::Kept;
use super::stores::BUFFER_PATIENCE;
use crate::bulk::port::Port;
use nile_interfaces::task::records::Output;
use nile_interfaces::worker::records::{Answer, Delivered, Delivery, RunEntry};

/// Which piece for which attempt.
pub type Wanted = (JobId, PieceId, AttemptId);

/// About how many bytes of one call tell of outputs.
const MOST_TOLD: usize = 24 << 10;

/// Buffers that are on their way from a core to other nodes at a time: as many as keep a network
/// busy, however many pieces were asked for.
const MOST_SENT: usize = 6;

impl Engine {
    /// Says something to another worker.
    pub fn ask_peer(self: &Rc<Self>, job: JobId, to: WorkerId, message: Peer) {
        let number = match message {
            Peer::Fetch { piece, by, .. } => {
                let new = self.number();
                self.state.borrow_mut().fetches.begin(new, job, piece, by, to)
            }
            Peer::Missing { .. } => 0,
        };
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            let answered = if engine.peers.is_here(to) {
                Ok(engine.asked(number, message))
            } else {
                engine.peers.ask(to, number, message).await
            };
            // What was not answered is asked again.
            let (Ok(answered), Peer::Fetch { piece, by, .. }) = (answered, message) else { return };
            match answered {
                Answer::Coming => {
                    engine.with(job, |worker, now| worker.coming(now, piece, by));
                }
                Answer::Lost => engine.state.borrow_mut().fetches.forget(number),
                Answer::Missing => {
                    let missing = Peer::Missing { job, piece, by };
                    engine.with(job, |worker, now| worker.receive_peer(now, missing));
                }
                _ => {}
            }
            engine.pump(job);
        }));
    }

    /// What another worker says, or this one to itself: what comes of that.
    pub fn asked(self: &Rc<Self>, number: u64, message: Peer) -> Answer {
        let Peer::Fetch { job, piece, by, .. } = message else {
            let Peer::Missing { job, .. } = message else { return Answer::Nothing };
            self.with(job, |worker, now| worker.receive_peer(now, message));
            self.pump(job);
            return Answer::Nothing;
        };
        let wanted = (job, piece, by);
        {
            let state = &mut *self.state.borrow_mut();
            if state.spoiled.get(&wanted) == Some(&number) {
                state.spoiled.remove(&wanted);
                return Answer::Lost;
            }
            if !state.jobs.contains_key(&job) {
                return Answer::Missing;
            }
            if state.delivering.contains_key(&wanted) {
                return Answer::Coming;
            }
            state.delivering.insert(wanted, (number, false));
        }
        self.with(job, |worker, now| worker.receive_peer(now, message));
        self.pump(job);
        let delivering = &mut self.state.borrow_mut().delivering;
        match delivering.get(&wanted) {
            Some((_, true)) => Answer::Coming,
            // The machine has told that it is missing.
            _ => {
                delivering.remove(&wanted);
                Answer::Nothing
            }
        }
    }

    /// Brings a piece to who has asked for it.
    pub fn deliver(self: &Rc<Self>, job: JobId, piece: PieceId, to: WorkerId, by: AttemptId) {
        let wanted = (job, piece, by);
        let number = match self.state.borrow_mut().delivering.get_mut(&wanted) {
            Some((number, is_begun @ false)) => {
                *is_begun = true;
                *number
            }
            _ => return,
        };
        let held = self.with_job(job, |it| it.held.get(&piece.output).cloned()).flatten();
        let slices = self.with_job(job, |it| it.worker.slices()).unwrap_or(1);
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            let done = match held {
                None => Err(CallError::new(Status::NotFound, "the output was dropped")),
                Some(held) => {
                    let runs = runs(&held, piece.partition / slices);
                    if to.node == engine.peers.node() {
                        engine.deliver_here(&held, piece.partition, runs, to, number).await
                    } else {
                        engine.deliver_there(&held, piece.partition, runs, to, number).await
                    }
                }
            };
            let state = &mut *engine.state.borrow_mut();
            state.delivering.remove(&wanted);
            if let Err(error) = done
                && state.jobs.contains_key(&job)
            {
                engine.stl.host().log(format_args!("{job}: {piece} does not reach {to}: {error}"));
                state.spoiled.insert(wanted, number);
            }
        }));
    }

    /// Tells another core of this node where a piece is.
    async fn deliver_here(
        self: &Rc<Self>,
        held: &Rc<Held>,
        partition: u32,
        runs: Vec<RunEntry>,
        to: WorkerId,
        number: u64,
    ) -> CallResult<()> {
        let pieces = held.made.kept().iter().filter(|kept| !kept.of(partition).is_empty());
        let output = |kept: &Kept| kept.view(&self.pool, partition);
        let outputs: Vec<Delivered> =
            pieces.map(|kept| Delivered { output: output(kept), own: 0 }).collect();
        held.is_shared.set(held.is_shared.get() || !outputs.is_empty());
        let delivery = Delivery { runs, ..Delivery::default() };
        self.tell_all(to, number, outputs, delivery).await
    }

    /// Tells of outputs, in as many calls as that takes; the last one says the rest, too.
    async fn tell_all(
        self: &Rc<Self>,
        to: WorkerId,
        number: u64,
        outputs: Vec<Delivered>,
        last: Delivery,
    ) -> CallResult<()> {
        let mut delivery = Delivery { more: true, ..Delivery::default() };
        let mut told = 0;
        for output in outputs {
            let bytes = output.output.described();
            if told > 0 && told + bytes > MOST_TOLD {
                let next = Delivery { call: delivery.call + 1, more: true, ..Delivery::default() };
                self.tell(to, number, mem::replace(&mut delivery, next)).await?;
                told = 0;
            }
            told += bytes + 16;
            delivery.outputs.push(output);
        }
        let Delivery { outputs, call, .. } = delivery;
        self.tell(to, number, Delivery { outputs, call, more: false, ..last }).await
    }

    async fn tell(
        self: &Rc<Self>,
        to: WorkerId,
        number: u64,
        delivery: Delivery,
    ) -> CallResult<()> {
        if self.peers.is_here(to) {
            self.delivered(number, delivery);
            return Ok(());
        }
        self.peers.deliver(to, number, delivery).await
    }

    /// Sends a piece to another node: each output's buffers, or its ranges, which fill others
    /// there. Outputs that may be [joined](Kept::joins) go as one, since each has buffers of its
    /// own, and what is left of the last one is lost.
    async fn deliver_there(
        self: &Rc<Self>,
        held: &Rc<Held>,
        partition: u32,
        runs: Vec<RunEntry>,
        to: WorkerId,
        number: u64,
    ) -> CallResult<()> {
        let port = Port::find(&self.stl).await?.with_patience(2 * BUFFER_PATIENCE);
        let way = Way { port, to: to.node, mailbox: self.peers.mailbox(to.core), number };
        let mut packer = Packer::new(self, way);
        let missing = || CallError::new(Status::Invalid, "an output has not the bytes it names");
        let whole = |buffer: &Buffer| buffer.part(0, buffer.len()).ok_or_else(missing);
        let mut outputs: Vec<Delivered> = Vec::new();
        // The output before, and how many buffers there were when the last of `outputs` began.
        let (mut last, mut before): (Option<&Kept>, u32) = (None, 0);
        for kept in held.made.kept().iter().filter(|it| !it.of(partition).is_empty()) {
            let mut pieces = kept.of(partition).to_vec();
            let told = |it: &Delivered| it.output.described() + 16 * pieces.len();
            let is_one = last.is_some_and(|last| last.joins(kept))
                && outputs.last().is_some_and(|it| told(it) <= MOST_TOLD);
            if !is_one {
                packer.send().await?;
                before = packer.begun;
                let note = Blob(kept.note().into());
                let output = Output { note, ..Output::default() };
                outputs.push(Delivered { output, own: 0 });
            }
            if kept.is_whole() {
                for buffer in kept.buffers() {
                    packer.send().await?;
                    packer.add(whole(buffer)?).await?;
                }
            } else {
                for range in &mut pieces {
                    let (buffer, start) = packer.add(kept.part(range).ok_or_else(missing)?).await?;
                    (range.buffer, range.start) = (buffer - before, start);
                }
            }
            if let Some(it) = outputs.last_mut() {
                it.output.pieces.extend(pieces);
                it.own = packer.begun - before;
            }
            last = Some(kept);
        }
        let buffers = packer.finish().await?;
        let delivery = Delivery { runs, buffers, ..Delivery::default() };
        self.tell_all(to, number, outputs, delivery).await
    }

    /// Something was told about a piece that this core has asked for.
    pub fn delivered(self: &Rc<Self>, number: u64, delivery: Delivery) {
        self.state.borrow_mut().fetches.tell(number, delivery);
        self.look_at_fetch(number);
    }

    /// A buffer has come to this core's mailbox.
    pub fn received(self: &Rc<Self>, label: u64, buffer: Buffer) {
        let (number, place) = (label / PLACES * PLACES, label % PLACES);
        {
            let state = &mut *self.state.borrow_mut();
            if let Some(parcel) = state.parcels.get_mut(&number) {
                *parcel = Some(buffer);
            } else {
                // What nobody waits for is free.
                drop(state.fetches.put(number, place as u32, buffer));
            }
        }
        self.look_at_fetch(number);
        self.changes.notify();
    }

    /// Takes a piece that is whole.
    fn look_at_fetch(self: &Rc<Self>, number: u64) {
        let whole = self.state.borrow_mut().fetches.take_whole(number);
        let Some(fetch) = whole else {
            let coming = |it: &Fetch| (it.job, it.piece, it.by);
            let coming = self.state.borrow().fetches.get(number).map(coming);
            if let Some((job, piece, by)) = coming {
                self.with(job, |worker, now| worker.coming(now, piece, by));
            }
            return;
        };
        let (job, by) = (fetch.job, fetch.by);
        let attempt = self.attempt(job, by);
        let is_taken = self.with(job, |worker, now| worker.arrived(now, fetch.piece, by));
        if let (Some(true), Some(attempt)) = (is_taken, attempt) {
            let map = fetch.piece.output.task;
            if !attempt.gather.borrow_mut().add(fetch) {
                let text = "was made again in the midst, partly on a disk: all of it is taken anew";
                self.fail(&attempt, Fault::Input, format!("{map} {text}"));
            }
        }
        self.pump(job);
    }
}

/// What a partition has of runs on this node's disks.
fn runs(held: &Held, partition: u32) -> Vec<RunEntry> {
    let entry = |run: &super::outputs::Run| RunEntry {
        store: run.store.0,
        draft: run.draft,
        first: run.first,
        blocks: run.blocks,
        bytes: run.bytes,
    };
    held.made.run_of(partition).map(entry).into_iter().collect()
}

/// Where bytes go.
struct Way {
    port: Port,
    to: NodeId,
    mailbox: u64,
    number: u64,
}

/// Gathers ranges, each whole in one buffer of the receiver's, and sends them from where they are.
struct Packer {
    engine: Rc<Engine>,
    way: Rc<Way>,
    /// What the next buffer is to have, and how many bytes that are.
    current: Vec<Part>,
    filled: usize,
    /// How many buffers there were.
    begun: u32,
    /// How many are on their way.
    open: Rc<Cell<usize>>,
    failed: Rc<RefCell<Option<CallError>>>,
}

/// A place among [`MOST_SENT`], free when this is dropped.
struct Slot(Rc<Engine>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.sending.set(self.0.sending.get() - 1);
        self.0.changes.notify();
    }
}

impl Packer {
    fn new(engine: &Rc<Engine>, way: Way) -> Packer {
        let (open, failed) = (Rc::default(), Rc::default());
        let (engine, way) = (engine.clone(), Rc::new(way));
        Packer { engine, way, current: Vec::new(), filled: 0, begun: 0, open, failed }
    }

    /// Adds a range, of at most a buffer; gives in which buffer it is going to be, and where. What
    /// there was before is sent if it has no room for it.
    async fn add(&mut self, part: Part) -> CallResult<(u32, u32)> {
        let bytes = part.bytes as usize;
        let is_full = self.filled + bytes > self.engine.pool.buffer_size();
        if is_full || self.current.len() == MOST_PARTS {
            self.send().await?;
        }
        if self.current.is_empty() {
            self.begun += 1;
        }
        let start = self.filled;
        self.filled += bytes;
        self.current.push(part);
        Ok((self.begun - 1, start as u32))
    }

    /// A place among what is sent; waits until there is one.
    async fn slot(&self) -> CallResult<Slot> {
        let engine = &self.engine;
        self.until(|| {
            (engine.sending.get() < MOST_SENT).then(|| {
                engine.sending.set(engine.sending.get() + 1);
                Slot(engine.clone())
            })
        })
        .await
    }

    /// Sends what there is, in a task of its own.
    async fn send(&mut self) -> CallResult<()> {
        let parts = mem::take(&mut self.current);
        self.filled = 0;
        if parts.is_empty() {
            return Ok(());
        }
        let place = u64::from(self.begun - 1);
        if place >= PLACES {
            let text = format!("a piece has more than {PLACES} buffers: splits are too large");
            return Err(CallError::new(Status::Invalid, text));
        }
        let slot = self.slot().await?;
        let label = self.way.number + place;
        self.open.set(self.open.get() + 1);
        let way = self.way.clone();
        let (open, failed) = (self.open.clone(), self.failed.clone());
        self.engine.stl.host().spawn(Box::pin(async move {
            let Way { port, to, mailbox, .. } = &*way;
            if let Err(error) = port.send_parts(*to, *mailbox, label, parts).await {
                failed.borrow_mut().get_or_insert(error);
            }
            open.set(open.get() - 1);
            drop(slot);
        }));
        Ok(())
    }

    /// Waits until `look` finds something, or a buffer did not get there.
    async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> CallResult<T> {
        let look = || match &*self.failed.borrow() {
            Some(error) => Some(Err(error.clone())),
            None => look().map(Ok),
        };
        self.engine.changes.until(look).await
    }

    /// Sends what is left; how many buffers there were.
    async fn finish(mut self) -> CallResult<u32> {
        self.send().await?;
        self.until(|| (self.open.get() == 0).then_some(())).await?;
        Ok(self.begun)
    }
}
