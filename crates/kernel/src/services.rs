//! The service transport layer of a core: what it stands on here, and its links to other cores.
//!
//! A link is a channel to each core that this one has called or answered, opened when it is first
//! needed; a core takes every link that others open to it. A core's end shows on either of its
//! links, and then its calls end here.

mod begun;
mod buffers;
mod channels;
mod desk;
mod host;
mod link;
mod node;
mod package;
mod policies;

use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;
use core::future::poll_fn;

use nile_abi::{CoreId, Generation, Status};
use nile_order::SortedMap;
use nile_platform::Machine;
use nile_ring::Message;
use nile_stl::frame::{Assembler, CallId};
use nile_stl::{PeerEnd, Stl};

use crate::channel::Inbound;
use crate::config::Config;
use crate::core::Core;
use crate::packages::{LocalFuture, Package};
pub(crate) use desk::Desk;
use host::CoreHost;
use link::Link;
pub use package::ServiceCalls;

/// The tag of channels that carry calls.
const TAG: u32 = u32::from_be_bytes(*b"STL\0");

/// A core's services and links.
pub(crate) struct Services<M: Machine> {
    stl: RefCell<Option<Stl>>,
    /// By the core they lead to.
    links: RefCell<SortedMap<CoreId, Rc<Link<M>>>>,
    /// The incarnation of each core that was last heard of.
    alive: RefCell<SortedMap<CoreId, Generation>>,
    /// The package whose calls are served here.
    package: RefCell<Option<Package<M>>>,
    /// Whether this core offers the services that the node's configuration names.
    offers: SortedMap<String, bool>,
    /// The rings that this core's packages may accept.
    rings: Rc<channels::Offers>,
}

impl<M: Machine> Services<M> {
    /// The services of `core`, of which none has been started.
    pub fn new(config: &Config, core: CoreId) -> Services<M> {
        Services {
            stl: RefCell::default(),
            links: RefCell::default(),
            alive: RefCell::default(),
            package: RefCell::default(),
            offers: config.offers(core),
            rings: Rc::default(),
        }
    }

    /// Calls that services here work on, and calls made here that have not ended.
    pub fn open_calls(&self) -> (usize, usize) {
        self.stl.borrow().as_ref().map_or((0, 0), Stl::open_calls)
    }

    /// What is under way besides calls.
    pub fn engaged(&self) -> usize {
        self.stl.borrow().as_ref().map_or(0, Stl::engaged)
    }

    /// Whether nothing is worked on here, and each answer has been taken.
    pub fn is_drained(&self) -> bool {
        self.open_calls().0 == 0
            && self.engaged() == 0
            && self.links.borrow().values().all(|link| link.is_drained())
    }

    /// The core's end: forgets every link. (What the layer holds holds the core.)
    pub fn close(&self) {
        let links = core::mem::take(&mut *self.links.borrow_mut());
        drop(links);
        self.package.take();
        if let Some(stl) = self.stl.take() {
            stl.close();
        }
    }
}

impl<M: Machine> Core<M> {
    /// The service transport layer of this core.
    pub fn stl(&self) -> Stl {
        let mut stl = self.services.stl.borrow_mut();
        stl.get_or_insert_with(|| Stl::kernel(Rc::new(CoreHost(self.clone())))).clone()
    }

    /// Says whose calls services on this core serve: what the heap grows for a package of the core.
    /// `None` when it has ended.
    pub fn serve_package(&self, package: Option<Package<M>>) {
        let before = self.services.package.replace(package);
        drop(before);
    }

    /// Answers a call of a package's: while that is worked on, services serve this package and not
    /// another one of the core.
    pub(crate) async fn serving<T>(&self, package: &Package<M>, mut call: LocalFuture<T>) -> T {
        poll_fn(|context| {
            if self.client.packages() > 1 {
                self.serve_package(Some(package.clone()));
            }
            call.as_mut().poll(context)
        })
        .await
    }

    /// Whether the node's configuration wants the service of this name here; `None` if it does not
    /// say.
    pub fn offers(&self, service: &str) -> Option<bool> {
        self.services.offers.get(service).copied()
    }

    /// Takes the links that other cores open.
    pub(crate) fn start_services(&self) {
        self.start_package_channels();
        let core = self.clone();
        self.spawn(async move {
            loop {
                match core.accept(TAG).await {
                    Ok(inbound) => {
                        let reader = core.clone();
                        core.spawn(async move { reader.read_link(inbound).await });
                    }
                    // That link is lost; the others are to come.
                    Err(status) => {
                        core.machine.log(format_args!("a link could not be taken: {status}"));
                    }
                }
            }
        });
    }

    /// Delivers what comes over a link until its other end is gone.
    async fn read_link(&self, inbound: Inbound<M>) {
        let from = inbound.from();
        let generation = self.meet(from);
        let mut assembler = Assembler::default();
        loop {
            match inbound.receive().await {
                Ok(message) => self.deliver(from, &mut assembler, &message),
                Err(_) => break,
            }
            // What is there already needs no waker.
            while let Ok(Some(message)) = inbound.try_receive() {
                self.deliver(from, &mut assembler, &message);
            }
        }
        // A core that lives has only given up this way to here.
        if self.is_gone(from, generation) {
            self.peer_down(from, generation);
        }
    }

    fn deliver(&self, from: CoreId, assembler: &mut Assembler, message: &Message) {
        match assembler.push(message) {
            Ok(Some(header)) => self.stl().deliver(from, &header, assembler.data()),
            Ok(None) => {}
            Err(malformed) => self.machine.log(format_args!("from core {from}: {malformed}")),
        }
    }

    /// The incarnation of a core that this one has to do with from now on, the present one. The
    /// end of the one before is told first, so that the two are never taken for each other.
    fn meet(&self, peer: CoreId) -> Generation {
        let now = self.machine.board().record(peer).generation();
        let before = self.services.alive.borrow().get(&peer).copied();
        if let Some(before) = before.filter(|before| *before != now) {
            self.peer_down(peer, before);
        }
        self.services.alive.borrow_mut().insert(peer, now);
        now
    }

    /// Whether an incarnation of a core has ended.
    fn is_gone(&self, peer: CoreId, generation: Generation) -> bool {
        let record = self.machine.board().record(peer);
        record.generation() != generation || record.phase().is_out()
    }

    /// An incarnation of a core has ended: with it the calls between the two, and what this core
    /// would have sent. What tells of it twice, or late, tells nothing.
    fn peer_down(&self, peer: CoreId, generation: Generation) {
        let mut alive = self.services.alive.borrow_mut();
        if alive.get(&peer) != Some(&generation) {
            return;
        }
        alive.remove(&peer);
        drop(alive);
        let link = self.services.links.borrow_mut().remove(&peer);
        if let Some(link) = link {
            link.give_up();
        }
        let end = match self.culprit(peer, generation) {
            _ if self.has_left(peer, generation) => PeerEnd::Left,
            Some(culprit) => PeerEnd::By(culprit),
            None => PeerEnd::Died,
        };
        self.stl().peer_ended(peer, generation, end);
    }

    /// Nothing can be sent over a link any more: its peer is gone, or it could not be opened.
    fn lose(&self, peer: CoreId, link: &Link<M>, why: Status) {
        if self.is_gone(peer, link.generation()) {
            self.peer_down(peer, link.generation());
        }
        let mut links = self.services.links.borrow_mut();
        if links.get(&peer).is_some_and(|known| core::ptr::eq(&**known, link)) {
            links.remove(&peer);
            drop(links);
            link.give_up();
            self.stl().link_lost(peer, why);
        }
    }

    /// Whether an incarnation of another core ended as planned: what it had not answered then, it
    /// had not looked at.
    fn has_left(&self, peer: CoreId, generation: Generation) -> bool {
        self.machine.board().record(peer).has_left(generation)
    }

    /// The call of this core that an incarnation of another one worked on when its own code
    /// ended it.
    fn culprit(&self, peer: CoreId, generation: Generation) -> Option<CallId> {
        let record = self.machine.board().record(peer);
        let by_itself = record.fault().is_some_and(|fault| fault.is_its_own());
        // The record tells why the last incarnation ended, not those before.
        if record.generation() != generation.next() || !by_itself {
            return None;
        }
        let (caller, call) = record.working_for(generation)?;
        (caller == self.id()).then_some(CallId(call))
    }

    /// The link to a core's present incarnation, made if there is none.
    fn link(&self, to: CoreId) -> Result<Rc<Link<M>>, Status> {
        if to.index() >= self.machine.board().cores() {
            return Err(Status::NotFound);
        }
        let generation = self.meet(to);
        let mut links = self.services.links.borrow_mut();
        Ok(links.entry(to).or_insert_with(|| Rc::new(Link::new(generation))).clone())
    }
}
