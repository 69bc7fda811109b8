//! Transfers over an interface, between buffers of the pool: the protocol's endpoint, the buffers
//! that it reads and fills, and those that are announced and wait for room.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::{Poll, Waker};
use core::time::Duration;

use nile_abi::{Generation, Instant, NodeId, Status};
use nile_bulk::{
    Counters, Endpoint, Event, Gone, IncomingId, Memory, OutgoingId, Refused, Send, Sessions,
    Settings, Shown, Transfer, Why,
};
use nile_ipioe::Seal;
use nile_order::SortedMap;
use nile_stl::node::{Buffer, DrivenInterface, Pool};
use nile_sync::Waiter;

use super::mailboxes::{Arrived, Mailboxes};
use super::source::Source;

/// How soon the pool is looked at again while a transfer waits for a buffer: whoever frees one
/// tells nobody.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// What a transfer is for: the protocol's tag names a mailbox.
#[derive(Clone, Copy)]
struct Address {
    mailbox: u64,
    label: u64,
}

/// The end of a transfer at its sender, and what was sent.
pub type Ended = (Result<(), Why>, Source);

/// The transfers of a link.
pub struct Transfers {
    endpoint: Endpoint,
    sessions: Sessions,
    held: Held,
    /// Announced, and not accepted yet.
    waiting: VecDeque<Announced>,
    /// Whether one of them waits for a buffer.
    dry: bool,
    mailboxes: Rc<RefCell<Mailboxes>>,
    pool: Pool,
    interface: Rc<DrivenInterface>,
    /// By which name receivers can read this node's pool, and this node theirs.
    shows: Option<u64>,
}

/// What all transfers send, and the buffers that they fill.
struct Held {
    pool: Pool,
    outgoing: SortedMap<OutgoingId, Outgoing>,
    incoming: SortedMap<IncomingId, Incoming>,
}

struct Outgoing {
    source: Source,
    end: Option<Result<(), Why>>,
    waiter: Waiter,
}

struct Incoming {
    to: Address,
    buffer: Buffer,
}

struct Announced {
    transfer: IncomingId,
    to: Address,
    bytes: u64,
}

impl Memory for Held {
    fn read(&mut self, transfer: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        self.outgoing.get(&transfer).ok_or(Gone)?.source.read(&self.pool, offset, into)
    }

    fn write(&mut self, transfer: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone> {
        let buffer = &mut self.incoming.get_mut(&transfer).ok_or(Gone)?.buffer;
        let place = buffer.get_mut(offset as usize..).and_then(|it| it.get_mut(..bytes.len()));
        place.ok_or(Gone)?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Transfers {
    /// The transfers of an endpoint with these settings over this interface.
    pub fn new(
        settings: Settings,
        mailboxes: Rc<RefCell<Mailboxes>>,
        pool: Pool,
        interface: Rc<DrivenInterface>,
    ) -> Transfers {
        let (outgoing, incoming) = (SortedMap::new(), SortedMap::new());
        // What is to be sealed goes in frames.
        let shows = interface.shows_pool().filter(|_| !settings.sealed);
        Transfers {
            endpoint: Endpoint::new(settings),
            sessions: Sessions::new(),
            held: Held { pool: pool.clone(), outgoing, incoming },
            waiting: VecDeque::new(),
            dry: false,
            mailboxes,
            pool,
            interface,
            shows,
        }
    }

    /// Takes a frame of the protocol.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.endpoint.receive(now, frame, &mut self.held, &mut self.sessions);
    }

    /// Writes the next frame that is to be sent.
    pub fn transmit(&mut self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        self.endpoint.transmit(now, frame, &mut self.held, &mut self.sessions)
    }

    /// Does what is due, and takes what has happened.
    pub fn turn(&mut self, now: Instant) {
        if self.endpoint.next_due().is_some_and(|due| due <= now) {
            self.endpoint.on_time(now);
        }
        loop {
            while let Some(event) = self.endpoint.poll() {
                match event {
                    Event::Announced { transfer, tag, label, total, .. } => {
                        self.announced(transfer, Address { mailbox: tag, label }, total);
                    }
                    Event::Finished { transfer, bytes } => self.over(transfer, Ok(bytes)),
                    Event::Failed { transfer, why } => self.over(transfer, Err(why)),
                    Event::Progress { .. } => {}
                }
            }
            // A transfer without a byte is over when it is accepted.
            if !self.accept(now) {
                return;
            }
        }
    }

    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let look = self.dry.then(|| now + LOOK_AGAIN);
        self.endpoint.next_due().into_iter().chain(look).min()
    }

    pub fn counters(&self) -> &Counters {
        self.endpoint.counters()
    }

    /// An incarnation of a node was met, and these seals agreed on.
    pub fn agree(&mut self, node: NodeId, generation: Generation, seals: (Seal, Seal)) {
        self.sessions.agree(node, generation, seals);
    }

    /// That incarnation of a node, and those before it, are gone.
    pub fn peer_dead(&mut self, node: NodeId, generation: Generation) {
        self.endpoint.peer_dead(node, generation);
    }

    /// That incarnation of a node lives, even if it was told to be gone.
    pub fn peer_alive(&mut self, node: NodeId, generation: Generation) {
        self.endpoint.peer_alive(node, generation);
    }

    /// Begins to send; gives back what cannot be sent.
    pub fn send(
        &mut self,
        now: Instant,
        send: Send,
        source: Source,
    ) -> Result<OutgoingId, (Refused, Source)> {
        match self.endpoint.send(now, send) {
            Ok(id) => {
                if let Some(name) = self.shows {
                    self.endpoint.show(id, &source.shown(name));
                }
                self.held
                    .outgoing
                    .insert(id, Outgoing { source, end: None, waiter: Waiter::default() });
                Ok(id)
            }
            Err(refused) => Err((refused, source)),
        }
    }

    /// How a transfer has ended, and what was sent; until it has, `waker` is woken when it does.
    /// `None` if there is no such transfer.
    pub fn ended(&mut self, id: OutgoingId, waker: &Waker) -> Option<Poll<Ended>> {
        let outgoing = self.held.outgoing.get_mut(&id)?;
        let Some(end) = outgoing.end else {
            outgoing.waiter.wait(waker);
            return Some(Poll::Pending);
        };
        let Outgoing { source, .. } = self.held.outgoing.remove(&id)?;
        Some(Poll::Ready((end, source)))
    }

    /// Nobody waits for the end of a transfer any more.
    pub fn forget(&mut self, id: OutgoingId) {
        if self.held.outgoing.remove(&id).is_some() {
            self.endpoint.cancel(id, Status::Timeout);
        }
    }

    /// Ends all transfers to a mailbox, whose senders are told `why`, and closes it. `false` if it
    /// is not open.
    pub fn close(&mut self, mailbox: u64, why: Status) -> bool {
        let coming = self.held.incoming.iter().filter(|(_, it)| it.to.mailbox == mailbox);
        let coming: Vec<IncomingId> = coming.map(|(id, _)| *id).collect();
        for id in coming {
            self.held.incoming.remove(&id);
            self.endpoint.cancel(id, why);
        }
        let endpoint = &mut self.endpoint;
        self.waiting.retain(|it| {
            let stays = it.to.mailbox != mailbox;
            if !stays {
                endpoint.cancel(it.transfer, why);
            }
            stays
        });
        self.mailboxes.borrow_mut().close(mailbox, &self.pool)
    }

    /// The link is closed: who waits for an end learns that its peer is gone.
    pub fn give_up(&mut self) {
        for outgoing in self.held.outgoing.values_mut() {
            outgoing.end = Some(Err(Why::Dead));
            outgoing.waiter.wake();
        }
        let mut mailboxes = self.mailboxes.borrow_mut();
        core::mem::take(&mut self.held.incoming).into_values().for_each(|incoming| {
            mailboxes.end(incoming.to.mailbox, None);
        });
    }

    fn announced(&mut self, transfer: IncomingId, to: Address, total: Option<u64>) {
        match total.filter(|bytes| *bytes <= self.pool.buffer_size() as u64) {
            None => self.endpoint.cancel(transfer, Status::Invalid),
            Some(_) if self.mailboxes.borrow().owner(to.mailbox).is_none() => {
                self.endpoint.cancel(transfer, Status::NotFound);
            }
            Some(bytes) => self.waiting.push_back(Announced { transfer, to, bytes }),
        }
    }

    /// Accepts, in the order of their announcements, what there is room for; whether there was
    /// any. What its sender shows is read at once.
    fn accept(&mut self, now: Instant) -> bool {
        let before = self.waiting.len();
        if before == 0 {
            self.dry = false;
            return false;
        }
        let mut mailboxes = self.mailboxes.borrow_mut();
        let (pool, endpoint, held) = (&self.pool, &mut self.endpoint, &mut self.held);
        let interface = self.shows.map(|_| &*self.interface);
        let mut dry = false;
        self.waiting.retain(|Announced { transfer, to, bytes }| {
            let room = mailboxes.has_room(to.mailbox, pool.capacity()).unwrap_or(false);
            if dry || !room {
                return true;
            }
            let Some(mut buffer) = pool.alloc_any() else {
                dry = true;
                return true;
            };
            let into = buffer.get_mut(..*bytes as usize);
            let is_read = interface.zip(into).is_some_and(|(interface, into)| {
                let from = endpoint.address_of(transfer.from);
                endpoint.shown(*transfer).is_some_and(|Shown { memory, parts }| {
                    interface.read_pool(from, *memory, parts, into)
                })
            });
            mailboxes.begin(to.mailbox);
            held.incoming.insert(*transfer, Incoming { to: *to, buffer });
            match is_read {
                true => endpoint.fetched(*transfer),
                false => endpoint.accept(now, *transfer, *bytes),
            }
            false
        });
        self.dry = dry;
        self.waiting.len() < before
    }

    fn over(&mut self, transfer: Transfer, end: Result<u64, Why>) {
        match transfer {
            Transfer::Out(id) => {
                if let Some(outgoing) = self.held.outgoing.get_mut(&id) {
                    outgoing.end = Some(end.map(drop));
                    outgoing.waiter.wake();
                }
            }
            Transfer::In(id) => {
                self.waiting.retain(|it| it.transfer != id);
                let Some(Incoming { to, buffer }) = self.held.incoming.remove(&id) else { return };
                let arrived = end.ok().map(|bytes| Arrived {
                    from: id.from,
                    generation: id.generation,
                    label: to.label,
                    buffer,
                    bytes: bytes as usize,
                });
                self.mailboxes.borrow_mut().end(to.mailbox, arrived);
            }
        }
    }
}
