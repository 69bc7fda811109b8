//! The network service: calls to instances on other nodes, calls of theirs to instances here, and
//! the messages of gossip (NileOS paper, III.D). It runs on the network core, which alone drives
//! the interface; its incarnation is the node's incarnation for all others, because what it
//! remembers of calls is gone with it.
//!
//! * `link`: the protocol over the interface.
//! * [`bulk`]: buffers of the pool between nodes, which go over the same interface.
//! * `serve`: calls of other nodes.
//! * `exports`: the numbers by which they call.
//! * [`gateway`]: calls to other nodes, as the transport layer of any core makes them.

pub mod bulk;
mod counters;
mod exports;
pub mod gateway;
mod link;
mod serve;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bosml::{Blob, Buffer, Bytes};
use nile_ipioe::wire::BootNonce;
use nile_ipioe::{ClusterKey, Endpoint, Event, Purpose, Request, Settings};
use nile_stl::node::{from_call, in_call};
use nile_stl::{
    CallError, CallResult, Caller, MethodNumber, Place, Record, ServiceNumber, Start, Stl, service,
};

use bulk::Post;
use exports::Exports;
use link::{Link, refused};
use serve::{Asked, Serving};

use crate::in_time::in_time;

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
    post: Rc<Post>,
}

struct Inner {
    own: Identity,
    link: Rc<Link>,
    shared: Rc<Shared>,
}

/// What the link's inbox and the service have in common.
#[derive(Default)]
struct Shared {
    exports: RefCell<Exports>,
    serving: Rc<Serving>,
    heard: RefCell<VecDeque<Heard>>,
    /// Who waits for what is heard.
    listener: RefCell<Option<Waker>>,
    /// Who was talked to since the last time that anybody heard.
    talked: RefCell<BTreeSet<NodeId>>,
}

/// A node in one of its incarnations.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Which node: 3 is n3.
    pub node: u32,
    /// Its incarnation.
    pub generation: u32,
}

/// Something that came over the network for the management core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Heard {
    /// From whom.
    pub from: Identity,
    /// 0 a message of gossip, 1 one that went to all, 2 the node was met, 3 this node has to begin
    /// anew with a generation above this one, 4 the node was talked to.
    pub kind: u8,
    /// The message.
    pub message: Blob,
}

/// A buffer that came to a mailbox.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Came {
    /// From whom; node 0 if this node is in no cluster.
    pub from: Identity,
    /// What its sender calls it.
    pub label: u64,
    /// The buffer, for the caller to claim.
    pub buffer: Buffer,
}

/// How a call to another node ended that was not refused.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// Whether the instance was not there, and nothing was done. (As the end of this service's own
    /// call it would say that this service is gone.)
    pub is_gone: bool,
    /// The reply.
    pub reply: Blob,
}

impl Default for Forwarded {
    /// Nothing was done.
    fn default() -> Forwarded {
        Forwarded { is_gone: true, reply: Blob(Vec::new()) }
    }
}

/// How often something happened.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

impl Start for Network {
    fn start(stl: &Stl) -> Network {
        let post = Post::start(stl);
        let inner = RefCell::new(Inner::start(stl, &post, None));
        Network { stl: stl.clone(), inner, post }
    }
}

impl Inner {
    /// The network of the node in its present incarnation, or in the one after `above`.
    fn start(stl: &Stl, post: &Post, above: Option<Generation>) -> CallResult<Rc<Inner>> {
        post.connect(None);
        let node = stl.node()?;
        let alone = || CallError::new(Status::NotFound, "this node is not in a cluster");
        let mut member = node.member().ok_or_else(alone)?;
        member.generation = above.map_or(member.generation, Generation::next);
        let no_link = || CallError::new(Status::NotFound, "this core drives no interface");
        let interface = node.interfaces().into_iter().next().ok_or_else(no_link)?;
        let mut nonce = [0; 16];
        let mut seed = [0; 8];
        // Keys come from the nonce: with one that can be guessed they would come twice.
        if !(node.entropy(&mut nonce) && node.entropy(&mut seed)) && member.key.is_some() {
            return Err(CallError::new(Status::Invalid, "no source of entropy to seal frames with"));
        }
        let mut settings =
            Settings::new(member.node, member.generation, interface.address(), BootNonce(nonce));
        settings.max_frame = interface.max_frame();
        settings.key = member.key.map(ClusterKey);
        settings.checksum = node.checksum().unwrap_or(settings.checksum);
        settings.seed = u64::from_le_bytes(seed);
        let shared: Rc<Shared> = Rc::default();
        let bulk_link = nile_bulk::Link {
            max_frame: settings.max_frame,
            rate: None,
            window: 0,
            trusted: false,
        };
        let bulk = nile_bulk::Settings {
            sealed: settings.key.is_some(),
            checksum: settings.checksum,
            seed: settings.seed,
            ..nile_bulk::Settings::new(member.node, member.generation, settings.mac, bulk_link)
        };
        let bulk = post.transfers(bulk);
        let (own, inbox) = (stl.clone(), shared.clone());
        let inbox = Box::new(move |link: &Rc<Link>, event| inbox.take(&own, link, event));
        let link = Link::start(stl, Endpoint::new(settings), bulk, interface, inbox);
        post.connect(Some(link.clone()));
        let own = Identity { node: member.node.0, generation: member.generation.0 };
        Ok(Rc::new(Inner { own, link, shared }))
    }
}

impl Shared {
    fn take(&self, stl: &Stl, link: &Rc<Link>, event: Event) {
        let identity = |node: NodeId, generation: Generation| Identity {
            node: node.0,
            generation: generation.0,
        };
        match event {
            Event::Request { serving, service, method, encoded, deadline, data, .. } => {
                self.talk(serving.node);
                let place = self.exports.borrow().find(ServiceNumber(service));
                let method = MethodNumber(method);
                let asked = Asked { serving, place, method, encoded, deadline, data };
                self.serving.begin(stl, link, asked);
            }
            Event::Cancelled { serving } => self.serving.cancel(serving),
            Event::Gossip { from, generation, data, .. } => {
                self.hear(identity(from, generation), 0, data);
            }
            Event::Broadcast { from, generation, data, .. } => {
                self.hear(identity(from, generation), 1, data);
            }
            Event::Met { node, generation } => {
                agree(link, node, generation);
                self.hear(identity(node, generation), 2, Vec::new());
            }
            Event::Restarted { node, old, new } => {
                link.with_bulk(|bulk, _| bulk.peer_dead(node, old));
                agree(link, node, new);
                self.hear(identity(node, new), 2, Vec::new());
            }
            Event::Outdated { known } => self.hear(identity(NodeId(0), known), 3, Vec::new()),
            // The link has told whoever waits.
            Event::Ended { .. } => {}
        }
    }

    /// Gossip has the node hear what it has not: a call goes there anyway.
    fn talk(&self, node: NodeId) {
        if self.talked.borrow_mut().insert(node) {
            self.hear(Identity { node: node.0, generation: 0 }, 4, Vec::new());
        }
    }

    fn hear(&self, from: Identity, kind: u8, message: Vec<u8>) {
        // Gossip says nothing that is longer than a frame: whoever does says no gossip.
        if message.len() > LONGEST_HEARD {
            return;
        }
        let mut heard = self.heard.borrow_mut();
        if heard.len() == MOST_HEARD {
            // Gossip tells everything more than once.
            heard.pop_front();
        }
        heard.push_back(Heard { from, kind, message: Blob::from(Bytes::from(&message[..])) });
        if let Some(listener) = self.listener.borrow_mut().take() {
            listener.wake();
        }
    }
}

/// The same keys seal bulk transfer.
fn agree(link: &Link, node: NodeId, generation: Generation) {
    let seals = link.endpoint.borrow().seals(node, Purpose::Bulk);
    if let Some(seals) = seals {
        link.with_bulk(|bulk, _| bulk.agree(node, generation, seals));
    }
}

/// Calls between nodes, buffers that go there, and gossip's messages.
#[service(
    subsystem = "network",
    capability = "calls",
    layer = micro,
    on = network,
    keywords(network = 5, call = 3, node = 2, export = 1)
)]
impl Network {
    /// Which node this is, in which incarnation.
    #[stl_k(reply = "identity")]
    fn identity(&self) -> CallResult<Identity> {
        Ok(self.inner()?.own)
    }

    /// Calls a method of an instance that another node exports; the arguments and the reply are
    /// encoded.
    #[stl_k(reply = "forwarded")]
    async fn call(
        &self,
        caller: &Caller,
        to: Identity,
        core: u16,
        number: u16,
        method: u16,
        arguments: Bytes<'_>,
    ) -> CallResult<Forwarded> {
        let request = Request {
            to: NodeId(to.node),
            generation: Some(Generation(to.generation)),
            source_core: caller.own_core()?,
            core: CoreId(core),
            service: number,
            method,
            encoded: true,
            deadline: caller.deadline,
        };
        let inner = self.inner()?;
        inner.shared.talk(request.to);
        let call = inner.link.call(request, arguments.0.into_owned())?;
        match call.await {
            Ok(reply) => Ok(Forwarded { is_gone: false, reply: Blob(reply) }),
            Err(error) if error.status == Status::Gone => Ok(Forwarded::default()),
            Err(error) => Err(error),
        }
    }

    /// The number by which other nodes call an instance here.
    #[stl_k(reply = "exported")]
    fn export(
        &self,
        caller: &Caller,
        core: u16,
        generation: u32,
        number: u16,
    ) -> CallResult<u16> {
        caller.own_core()?;
        let (node, core, generation) = (Place::HERE, CoreId(core), Generation(generation));
        let place = Place { node, core, generation, number: ServiceNumber(number) };
        let used_up = || CallError::new(Status::NoMemory, "all numbers of this node are used up");
        self.inner()?.shared.exports.borrow_mut().add(place).ok_or_else(used_up)
    }

    /// Ends an export.
    #[stl_k]
    fn withdraw(&self, caller: &Caller, exported: u16) -> CallResult<()> {
        caller.own_core()?;
        self.inner()?.shared.exports.borrow_mut().remove(exported);
        Ok(())
    }

    /// Sends a message of gossip to a node, or to all that hear it when that is 0.
    #[stl_k]
    fn gossip(&self, caller: &Caller, to: u32, message: Bytes<'_>) -> CallResult<()> {
        caller.own_core()?;
        let inner = self.inner()?;
        let gossiped = inner.link.with(|endpoint, now| match NodeId(to) {
            NodeId(0) => endpoint.broadcast(true, message.0.into_owned()),
            node => endpoint.gossip(now, node, CoreId::BOOT, true, message.0.into_owned()),
        });
        gossiped.map_err(refused)
    }

    /// What came for the management core since the last time; waits until something has.
    #[stl_k(reply = "heard")]
    async fn hear(&self, caller: &Caller) -> CallResult<Vec<Heard>> {
        caller.own_core()?;
        let shared = self.inner()?.shared.clone();
        Ok(poll_fn(|context| {
            let mut heard = shared.heard.borrow_mut();
            if heard.is_empty() {
                *shared.listener.borrow_mut() = Some(context.waker().clone());
                return Poll::Pending;
            }
            let some = heard.len().min(MOST_TOLD);
            shared.talked.borrow_mut().clear();
            Poll::Ready(heard.drain(..some).collect())
        })
        .await)
    }

    /// Gossip holds an incarnation of a node for dead: calls to it end so.
    #[stl_k]
    fn mourn(&self, caller: &Caller, gone: Identity) -> CallResult<()> {
        caller.own_core()?;
        let (node, generation) = (NodeId(gone.node), Generation(gone.generation));
        let link = &self.inner()?.link;
        link.with(|endpoint, now| endpoint.peer_dead(now, node, generation));
        link.with_bulk(|bulk, _| bulk.peer_dead(node, generation));
        Ok(())
    }

    /// What the protocol has counted.
    #[stl_k(reply = "counters")]
    fn counters(&self) -> CallResult<Vec<Counter>> {
        let link = &self.inner()?.link;
        let mut counted = counters::of_calls(link.endpoint.borrow().counters()).to_vec();
        let bulk = link.look_at_bulk(|bulk| Some(counters::of_bulk(bulk.counters())));
        counted.extend(bulk.into_iter().flatten());
        let counter = |(name, count)| Counter { name: String::from(name), count };
        Ok(counted.into_iter().map(counter).collect())
    }

    /// Begins anew with the generation after one that another node knows as this one's: nothing
    /// is exported any more, and calls that wait end as `Dead`.
    #[stl_k(reply = "identity")]
    fn renew(&self, caller: &Caller, above: u32) -> CallResult<Identity> {
        caller.own_core()?;
        let before = self.inner()?;
        if before.own.generation <= above {
            before.link.close();
            *self.inner.borrow_mut() = Inner::start(&self.stl, &self.post, Some(Generation(above)));
        }
        Ok(self.inner()?.own)
    }

    /// Sends a buffer of the pool to a mailbox of a node, 0 for this one; over when it is there.
    /// The buffer is gone, however it ends.
    #[stl_k]
    async fn send(
        &self,
        caller: &Caller,
        to: Identity,
        mailbox: u64,
        label: u64,
        buffer: Buffer,
    ) -> CallResult<()> {
        let source_core = self.post.sender(caller)?;
        let stale = |error| CallError::new(Status::Invalid, alloc::format!("{error}"));
        let buffer = self.post.pool()?.claim(from_call(buffer)).map_err(stale)?;
        let own = self.inner().map_or(Identity { node: 0, generation: 0 }, |inner| inner.own);
        if to.node == 0 || to.node == own.node {
            let from = (NodeId(own.node), Generation(own.generation));
            return in_time(&self.stl, caller, self.post.pass(from, mailbox, label, buffer)).await;
        }
        let inner = self.inner()?;
        inner.shared.talk(NodeId(to.node));
        let send = nile_bulk::Send {
            to: NodeId(to.node),
            generation: (to.generation != 0).then_some(Generation(to.generation)),
            source_core,
            core: CoreId::BOOT,
            tag: mailbox,
            label,
            total: Some(buffer.len() as u64),
        };
        in_time(&self.stl, caller, bulk::deliver(&self.stl, &inner.link, send, buffer)).await
    }

    /// Opens a mailbox for the calling core, until it closes it or its incarnation ends.
    #[stl_k]
    fn open(&self, caller: &Caller, mailbox: u64) -> CallResult<()> {
        self.post.open(caller, mailbox)
    }

    /// Closes a mailbox of the calling core.
    #[stl_k]
    fn close(&self, caller: &Caller, mailbox: u64) -> CallResult<()> {
        self.post.close(caller, mailbox)
    }

    /// What came first to a mailbox of the calling core; waits until something has.
    #[stl_k(reply = "came")]
    async fn next(&self, caller: &Caller, mailbox: u64) -> CallResult<Came> {
        let given = in_time(&self.stl, caller, self.post.next(caller, mailbox)).await?;
        let from = Identity { node: given.from.0, generation: given.generation.0 };
        Ok(Came { from, label: given.label, buffer: in_call(given.handle) })
    }

    fn inner(&self) -> CallResult<Rc<Inner>> {
        self.inner.borrow().clone()
    }
}
