//! The network service: calls to instances on other nodes, calls of theirs to instances here, and
//! the messages of gossip (NileOS paper, III.D). It runs on a network core; that core's
//! incarnation is the node's incarnation for all others, because what it remembers of calls is
//! gone with it.
//!
//! * `calls`: the protocol over the core's line.
//! * `serve`: calls of other nodes.
//! * `standing`: what bulk transfer, which may be on another core, has to know of all nodes.
//! * `exports`: the numbers by which they call.
//! * [`gateway`]: calls to other nodes, as the transport layer of any core makes them.

mod calls;
mod counters;
mod exports;
pub mod gateway;
mod serve;
mod standing;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;

use nile_abi::ethernet::{BULK, CALLS};
use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bosml::{Blob, Bytes};
use nile_ipioe::wire::BootNonce;
use nile_ipioe::{Asker, ClusterKey, Endpoint, Event, Request, Settings};
use nile_order::SortedSet;
use nile_stl::{
    CallError, CallResult, Caller, MethodNumber, Place, ServiceNumber, Start, Stl, service,
};
use nile_sync::{Notify, Waiter};

use calls::{Calls, refused};
use exports::Exports;
use nile_interfaces::network::{Called, Counter, Heard, Identity, NetworkKernel, News, Standing};
use serve::{Asked, Serving};
use standing::Peers;

use crate::line::Line;

/// Messages of gossip that are kept for whoever asks; later ones take the place of the oldest.
const MOST_HEARD: usize = 512;

/// Bytes of such a message: so many of them fit one reply.
const LONGEST_HEARD: usize = 1500;
const MOST_TOLD: usize = 32;
const _: () = assert!((LONGEST_HEARD + 32) * MOST_TOLD < nile_bosml::MAX_MESSAGE);

/// The network of this node.
pub struct Network {
    stl: Stl,
    inner: RefCell<CallResult<Rc<Inner>>>,
}

/// One incarnation of the node.
struct Inner {
    own: Identity,
    nonce: BootNonce,
    calls: Rc<Calls>,
    shared: Rc<Shared>,
    /// The one incarnation of a core that runs bulk transfer for this one of the node.
    bulk: Cell<Option<(CoreId, Generation)>>,
}

/// What the calls' inbox and the service have in common.
#[derive(Default)]
struct Shared {
    exports: RefCell<Exports>,
    serving: Rc<Serving>,
    heard: RefCell<VecDeque<Heard>>,
    /// Who waits for what is heard.
    listener: Notify,
    /// Who was talked to since the last time that anybody heard.
    talked: RefCell<SortedSet<NodeId>>,
    peers: RefCell<Peers>,
    /// Who waits for news of them.
    follower: Waiter,
}

impl Start for Network {
    fn start(stl: &Stl) -> Network {
        Network { stl: stl.clone(), inner: RefCell::new(Inner::start(stl, None)) }
    }
}

impl Inner {
    /// The network of the node in its present incarnation, or in the one after `above`.
    fn start(stl: &Stl, above: Option<Generation>) -> CallResult<Rc<Inner>> {
        let node = stl.node()?;
        let alone = || CallError::new(Status::NotFound, "this node is not in a cluster");
        let mut member = node.member().ok_or_else(alone)?;
        member.generation = above.map_or(member.generation, Generation::next);
        let line = Line::of(stl)?;
        let mut nonce = [0; 16];
        let mut seed = [0; 8];
        // Keys come from the nonce: with one that can be guessed they would come twice.
        if !(node.entropy(&mut nonce) && node.entropy(&mut seed)) && member.key.is_some() {
            return Err(CallError::new(
                Status::Invalid,
                "no source of entropy to seal frames with",
            ));
        }
        let (nonce, address) = (BootNonce(nonce), line.interface().address());
        let mut settings = Settings::new(member.node, member.generation, address, nonce);
        settings.max_frame = line.interface().max_frame();
        settings.key = member.key.map(ClusterKey);
        settings.checksum = node.checksum().unwrap_or(settings.checksum);
        settings.seed = u64::from_le_bytes(seed);
        let shared: Rc<Shared> = Rc::default();
        let (own, inbox) = (stl.clone(), shared.clone());
        let inbox = Box::new(move |calls: &Rc<Calls>, event| inbox.take(&own, calls, event));
        let calls = Calls::start(line, Endpoint::new(settings), inbox);
        let own = Identity::new(member.node, member.generation);
        Ok(Rc::new(Inner { own, nonce, calls, shared, bulk: Cell::new(None) }))
    }

    /// Whether bulk transfer may run for this incarnation of the node on that of a core: on one
    /// only. Another knows nothing of the sequences that its predecessor has sealed with, and of
    /// those that it has opened; the node then begins anew, so that other keys are agreed on.
    fn carries_bulk(&self, on: (CoreId, Generation)) -> bool {
        match self.bulk.replace(Some(on)) {
            None => true,
            Some(known) if known == on => true,
            Some(known) => {
                self.bulk.set(Some(known));
                self.shared.begin_anew(self.own);
                false
            }
        }
    }
}

impl Shared {
    fn take(&self, stl: &Stl, calls: &Rc<Calls>, event: Event) {
        match event {
            Event::Request { serving, service, method, encoded, asker, deadline, data, .. } => {
                self.talk(serving.node);
                let place = self.exports.borrow().find(ServiceNumber(service));
                let method = MethodNumber(method);
                let asked = Asked { serving, place, method, encoded, asker, deadline, data };
                self.serving.begin(stl, calls, asked);
            }
            Event::Cancelled { serving } => self.serving.cancel(serving),
            Event::Gossip { from, generation, data, .. } => {
                self.hear(Identity::new(from, generation), News::Gossip(Blob(data)));
            }
            Event::Broadcast { from, generation, data, .. } => {
                self.hear(Identity::new(from, generation), News::Announced(Blob(data)));
            }
            Event::Namesake { node, generation, address, data, .. } => {
                let (address, message) = (Blob(address.0.into()), Blob(data));
                let what = News::Namesake { address, message };
                self.hear(Identity::new(node, generation), what);
            }
            Event::Met { node, generation } | Event::Restarted { node, new: generation, .. } => {
                let met = calls.endpoint.borrow().peer(node);
                if let Some(met) = met.filter(|met| met.generation == generation) {
                    self.learn(|peers| peers.met(node, generation, met.nonce));
                }
                self.hear(Identity::new(node, generation), News::Met);
            }
            Event::Outdated { known } => self.begin_anew(Identity::new(NodeId(0), known)),
            // Whoever waits was told. What says that it ends is a tool, which nobody remembers.
            Event::Ended { .. } | Event::Left { .. } => {}
        }
    }

    /// Something has changed that the protocol of bulk transfer has to know.
    fn learn(&self, change: impl FnOnce(&mut Peers)) {
        change(&mut self.peers.borrow_mut());
        self.follower.wake();
    }

    /// Has gossip begin anew with a generation above this one.
    fn begin_anew(&self, above: Identity) {
        self.hear(above, News::Outdated);
    }

    /// Gossip has the node hear what it has not: a call goes there anyway.
    fn talk(&self, node: NodeId) {
        if self.talked.borrow_mut().insert(node) {
            self.hear(Identity { node: node.0, generation: 0 }, News::Talked);
        }
    }

    fn hear(&self, from: Identity, what: News) {
        // Gossip says nothing that is longer than a frame: whoever does says no gossip.
        if let News::Gossip(message) | News::Announced(message) | News::Namesake { message, .. } =
            &what
            && message.0.len() > LONGEST_HEARD
        {
            return;
        }
        let mut heard = self.heard.borrow_mut();
        if heard.len() == MOST_HEARD {
            // Gossip tells everything more than once.
            heard.pop_front();
        }
        heard.push_back(Heard { from, what });
        self.listener.notify();
    }
}

#[service(on = network, keywords(network = 5, call = 3, node = 2, export = 1))]
impl NetworkKernel for Network {
    fn identity(&self) -> CallResult<Identity> {
        Ok(self.inner()?.own)
    }

    async fn call(
        &self,
        caller: &Caller,
        to: Identity,
        called: Called,
        arguments: Bytes<'_>,
    ) -> CallResult<Option<Blob>> {
        let request = Request {
            to: NodeId(to.node),
            generation: Some(Generation(to.generation)),
            source_core: caller.own_core()?,
            core: CoreId(called.core),
            service: called.number,
            method: called.method,
            encoded: true,
            asker: if called.for_package { Asker::Package } else { Asker::Kernel },
            deadline: caller.deadline,
        };
        let inner = self.inner()?;
        if inner.shared.peers.borrow().is_dead(request.to, Generation(to.generation)) {
            // Nobody would answer until the deadline.
            let gone = format!("{} is gone", request.to);
            return Err(CallError::new(Status::Dead, gone));
        }
        inner.shared.talk(request.to);
        let call = inner.calls.call(request, arguments.0.into_owned())?;
        match call.await {
            Ok(reply) => Ok(Some(Blob(reply))),
            Err(error) if error.status == Status::Gone => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn export(&self, caller: &Caller, core: u16, generation: u32, number: u16) -> CallResult<u16> {
        caller.own_core()?;
        let (node, core, generation) = (Place::HERE, CoreId(core), Generation(generation));
        let place = Place { node, core, generation, number: ServiceNumber(number) };
        let used_up = || CallError::new(Status::NoMemory, "all numbers of this node are used up");
        self.inner()?.shared.exports.borrow_mut().add(place).ok_or_else(used_up)
    }

    fn withdraw(&self, caller: &Caller, exported: u16) -> CallResult<()> {
        caller.own_core()?;
        self.inner()?.shared.exports.borrow_mut().remove(exported);
        Ok(())
    }

    fn gossip(&self, caller: &Caller, to: u32, message: Bytes<'_>) -> CallResult<()> {
        caller.own_core()?;
        let inner = self.inner()?;
        let gossiped = inner.calls.with(|endpoint, now| match NodeId(to) {
            NodeId(0) => endpoint.broadcast(true, message.0.into_owned()),
            node => endpoint.gossip(now, node, CoreId::BOOT, true, message.0.into_owned()),
        });
        gossiped.map_err(refused)
    }

    async fn hear(&self, caller: &Caller) -> CallResult<Vec<Heard>> {
        caller.own_core()?;
        let shared = self.inner()?.shared.clone();
        let some = || {
            let mut heard = shared.heard.borrow_mut();
            let some = heard.len().min(MOST_TOLD);
            (some > 0).then(|| heard.drain(..some).collect())
        };
        let heard = shared.listener.until(some).await;
        shared.talked.borrow_mut().clear();
        Ok(heard)
    }

    fn peer_down(&self, caller: &Caller, gone: Identity) -> CallResult<()> {
        caller.own_core()?;
        let (node, generation) = (NodeId(gone.node), Generation(gone.generation));
        let inner = self.inner()?;
        inner.calls.with(|endpoint, now| endpoint.peer_dead(now, node, generation));
        inner.shared.learn(|peers| peers.died(node, generation));
        Ok(())
    }

    fn peer_up(&self, caller: &Caller, back: Identity) -> CallResult<()> {
        caller.own_core()?;
        let (node, generation) = (NodeId(back.node), Generation(back.generation));
        self.inner()?.shared.learn(|peers| peers.lives(node, generation));
        Ok(())
    }

    fn counters(&self) -> CallResult<Vec<Counter>> {
        let calls = &self.inner()?.calls;
        let counted = counters::of(calls.endpoint.borrow().counters());
        let line = &calls.line;
        let carried = [
            ("carried-calls", line.carried(CALLS)),
            ("carried-bulk", line.carried(BULK)),
            ("strays", line.strays()),
        ];
        Ok(counted.into_iter().chain(carried).map(Counter::from).collect())
    }

    fn talk(&self, caller: &Caller, node: u32) -> CallResult<()> {
        caller.own_core()?;
        self.inner()?.shared.talk(NodeId(node));
        Ok(())
    }

    async fn standing(&self, caller: &Caller, generation: u32, seen: u64) -> CallResult<Standing> {
        let core = caller.own_core()?;
        let asker = (core, self.stl.host().generation_of(core));
        poll_fn(|context| {
            let inner = match self.inner() {
                Ok(inner) => inner,
                Err(error) => return Poll::Ready(Err(error)),
            };
            if !inner.carries_bulk(asker) {
                let busy = CallError::new(Status::Busy, "the node begins anew for this core");
                return Poll::Ready(Err(busy));
            }
            let (own, is_new) = (inner.own, inner.own.generation != generation);
            let news = inner.shared.peers.borrow().since(if is_new { 0 } else { seen });
            let news = news.or(is_new.then(|| (0, Vec::new())));
            let Some((seen, peers)) = news else {
                inner.shared.follower.wait(context.waker());
                return Poll::Pending;
            };
            let nonce = Blob(inner.nonce.0.into());
            Poll::Ready(Ok(Standing { own, nonce, seen, peers }))
        })
        .await
    }

    fn renew(&self, caller: &Caller, above: u32) -> CallResult<Identity> {
        caller.own_core()?;
        let before = self.inner()?;
        if before.own.generation <= above {
            before.calls.close();
            *self.inner.borrow_mut() = Inner::start(&self.stl, Some(Generation(above)));
            before.shared.learn(|_| ());
        }
        Ok(self.inner()?.own)
    }

    fn retire(&self, caller: &Caller) -> CallResult<()> {
        caller.own_core()?;
        self.inner()?.calls.close();
        let why = "another node has this node's number: it is in no cluster any more";
        *self.inner.borrow_mut() = Err(CallError::new(Status::NotFound, why));
        Ok(())
    }
}

impl Network {
    fn inner(&self) -> CallResult<Rc<Inner>> {
        self.inner.borrow().clone()
    }
}
