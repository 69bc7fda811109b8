//! The way to another core: a channel, and what waits for room in it.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::iter;

use nile_abi::{CoreId, Generation, Status};
use nile_platform::Machine;
use nile_ring::Message;
use nile_stl::frame::{self, Header};

use super::TAG;
use crate::channel::{FULL_BACKOFF, Outbound};
use crate::core::Core;
use crate::packages::next_pass;

/// Cells of a link's channel: half of those of a long call, which waits for the other core to take
/// them once and not fifteen times. With the ring's own lines they fill nine frames.
const CELLS: u32 = 512;

/// Cells that may wait before further calls are refused: those of a few long ones. Replies, and
/// words that nobody waits for a call any more, are no more than the calls before them.
const MOST_WAITING: usize = 1 << 12;

/// The way to another core.
pub(super) struct Link<M: Machine> {
    /// The incarnation of the other core that it leads to.
    generation: Generation,
    channel: RefCell<Option<Rc<Outbound<M>>>>,
    /// Cells that have yet to be sent, in order.
    waiting: RefCell<VecDeque<Message>>,
    /// Whether a task sends what waits.
    flushing: Cell<bool>,
}

impl<M: Machine> Link<M> {
    /// A link to an incarnation of a core, opened when something is sent.
    pub fn new(generation: Generation) -> Link<M> {
        Link {
            generation,
            channel: RefCell::default(),
            waiting: RefCell::default(),
            flushing: Cell::new(false),
        }
    }

    /// The incarnation of the other core that it leads to.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether the other core takes so little that no more should be asked of it.
    pub fn is_crowded(&self) -> bool {
        self.waiting.borrow().len() >= MOST_WAITING
    }

    /// Whether all that was sent has been taken, or never will be.
    pub fn is_drained(&self) -> bool {
        let channel = self.channel.borrow();
        self.waiting.borrow().is_empty() && channel.as_ref().is_none_or(|it| it.is_drained())
    }

    /// Sends a frame after all that was sent before. A channel that is full or not open yet makes
    /// it wait, not the caller.
    pub fn send(self: Rc<Self>, core: &Core<M>, to: CoreId, header: &Header, data: &[u8]) {
        let mut cells = frame::cells(header, data);
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty()
            && let Some(channel) = self.channel.borrow().as_ref()
            && let Ok(rest) = channel.try_send_all(&mut cells)
        {
            waiting.extend(rest);
        }
        waiting.extend(cells);
        if waiting.is_empty() || self.flushing.replace(true) {
            return;
        }
        drop(waiting);
        let flusher = core.clone();
        core.spawn(async move { self.flush(&flusher, to).await });
    }

    /// Opens the channel if it is not, and sends what waits.
    async fn flush(self: Rc<Self>, core: &Core<M>, to: CoreId) {
        if let Err(status) = self.flush_all(core, to).await {
            if status != Status::Dead {
                core.machine.log(format_args!("no link to core {to}: {status}"));
            }
            core.lose(to, &self, status);
        }
        self.flushing.set(false);
    }

    async fn flush_all(self: &Rc<Self>, core: &Core<M>, to: CoreId) -> Result<(), Status> {
        let open = self.channel.borrow().clone();
        let channel = match open {
            Some(channel) => channel,
            None => self.open(core, to).await?,
        };
        // As many at a time as there is room for: the other core wakes once for all of them.
        let mut taken = (self.waiting.borrow().len(), core.now());
        while self.send_waiting(&channel)? {
            let (left, now) = (self.waiting.borrow().len(), core.now());
            if left != taken.0 {
                taken = (left, now);
            }
            // While the other core takes them there is room before a sleep would end.
            match now.since(taken.1) < FULL_BACKOFF {
                true => next_pass(core).await,
                false => core.sleep(FULL_BACKOFF).await,
            }
        }
        Ok(())
    }

    /// Sends what there is room for; whether something still waits.
    fn send_waiting(&self, channel: &Outbound<M>) -> Result<bool, Status> {
        let mut waiting = self.waiting.borrow_mut();
        let rest = channel.try_send_all(&mut iter::from_fn(|| waiting.pop_front()))?;
        let Some(first) = rest else { return Ok(false) };
        waiting.push_front(first);
        Ok(true)
    }

    async fn open(self: &Rc<Self>, core: &Core<M>, to: CoreId) -> Result<Rc<Outbound<M>>, Status> {
        let channel = loop {
            match core.open(to, TAG, CELLS).await {
                // The managing core's end, not that of the one that the link leads to.
                Err(Status::Dead) if !core.is_gone(to, self.generation) => {}
                opened => break Rc::new(opened?),
            }
        };
        // It may lead to a successor, which was not meant.
        if core.is_gone(to, self.generation) {
            return Err(Status::Dead);
        }
        *self.channel.borrow_mut() = Some(channel.clone());
        let (watcher, link, closed) = (core.clone(), Rc::downgrade(self), channel.closed());
        core.spawn(async move {
            closed.await;
            if let Some(link) = link.upgrade() {
                watcher.lose(to, &link, Status::Dead);
            }
        });
        Ok(channel)
    }

    /// The other core is gone: nothing that waits is sent.
    pub fn give_up(&self) {
        self.waiting.borrow_mut().clear();
        self.channel.borrow_mut().take();
    }
}
