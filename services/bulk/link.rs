//! Bulk transfer over this core's line in one incarnation of the node: the protocol's frames, and
//! what it has to know of this node and of all others, which the network service tells it.
//!
//! Its keys come from both nodes' boots. A boot belongs to one incarnation of the core that runs
//! this (the network service sees to it), and here to one link, the only one that seals with its
//! keys: no sequence is used twice, and none is accepted that was sealed for another link.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::convert::Infallible;
use core::time::Duration;

use nile_abi::ethernet::BULK;
use nile_abi::{Generation, Instant, NodeId, Status, Window};
use nile_ipioe::keys::{Incarnation, Keys};
use nile_ipioe::wire::BootNonce;
use nile_ipioe::{ClusterKey, Purpose};
use nile_order::SortedMap;
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Place, Stl};

use super::post::Post;
use super::transfers::Transfers;
use crate::line::{Line, Protocol};
use nile_interfaces::network::{NetworkClient, Peer, Standing};

/// How long a call waits that ends when something happens.
const LONG: Duration = Duration::from_secs(3600);

/// How long until a network service that is not there is tried again, at first and at most.
const RETRY: Duration = Duration::from_millis(1);
const MOST_RETRY: Duration = Duration::from_millis(100);

/// How soon the network service is told again that a node was talked to.
const TALK: Duration = Duration::from_millis(100);

/// The most nodes of which that is remembered.
const MOST_TALKED: usize = 256;

/// The fewest bytes that may be on their way to this node: with small frames a dozen of them would
/// not last until its sleeping core has looked.
const LEAST_WINDOW: u64 = 128 << 10;

/// No wire carries larger frames, since Ethernet's own checksum would not do for them. Nodes of one
/// machine have them that are linked by memory alone, which needs none.
const LARGEST_ON_WIRES: usize = 16 << 10;

/// How many of a link's largest frames may be on their way.
const WINDOW_FRAMES: u64 = 12;

/// The transfers of one incarnation of this node.
pub struct Link {
    pub line: Rc<Line>,
    pub transfers: RefCell<Transfers>,
    /// This node, as others have met it.
    own: Incarnation,
    /// `None` if frames are not sealed.
    keys: Option<Keys>,
    stl: Stl,
    network: Place,
    /// Who was talked to, and when the network service was told.
    talked: RefCell<SortedMap<NodeId, Instant>>,
}

impl Link {
    fn new(stl: &Stl, post: &Post, network: Place, own: Incarnation) -> CallResult<Rc<Link>> {
        let (node, line) = (stl.node()?, Line::of(stl)?);
        let alone = || CallError::new(Status::NotFound, "this node is not in a cluster");
        let keys = node.member().ok_or_else(alone)?.key.map(|key| Keys::new(&ClusterKey(key)));
        let (address, max_frame) = (line.interface().address(), line.interface().max_frame());
        let window = (WINDOW_FRAMES * max_frame as u64).max(LEAST_WINDOW);
        let trusted = max_frame > LARGEST_ON_WIRES;
        let way = nile_bulk::Link { max_frame, rate: None, window, trusted };
        let mut settings = nile_bulk::Settings::new(own.node, own.generation, address, way);
        settings.sealed = keys.is_some();
        settings.checksum = node.checksum().unwrap_or(settings.checksum);
        let mut seed = [0; 8];
        if node.entropy(&mut seed) {
            settings.seed = u64::from_le_bytes(seed);
        }
        Ok(Rc::new(Link {
            transfers: RefCell::new(post.transfers(settings, line.interface().clone())?),
            line,
            own,
            keys,
            stl: stl.clone(),
            network,
            talked: RefCell::default(),
        }))
    }

    /// The line's frames of bulk transfer are this link's from now on.
    pub fn open(self: &Rc<Self>) {
        self.line.attach(BULK, self);
    }

    /// This node in the incarnation that the link is of.
    pub fn own(&self) -> (NodeId, Generation) {
        (self.own.node, self.own.generation)
    }

    /// Does something with the transfers, and sends what came of it.
    pub fn with<T>(&self, act: impl FnOnce(&mut Transfers, Instant) -> T) -> T {
        let result = act(&mut self.transfers.borrow_mut(), self.line.now());
        self.line.flush();
        result
    }

    /// Ends the link: who waits for an end learns that its peer is gone.
    pub fn close(&self) {
        self.line.detach(BULK);
        self.transfers.borrow_mut().give_up();
    }

    /// Something is about to be sent to a node: it is met if it was not, and gossip has it hear
    /// what it has not.
    pub fn talk(self: &Rc<Self>, node: NodeId) {
        let now = self.line.now();
        let mut talked = self.talked.borrow_mut();
        if talked.get(&node).is_some_and(|told| now.since(*told) < TALK) {
            return;
        }
        if talked.len() >= MOST_TALKED {
            talked.clear();
        }
        talked.insert(node, now);
        let link = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            // Should that be gone, this link soon is, too.
            let _ = NetworkClient::at(&link.stl, link.network).talk(node.0).await;
        }));
    }

    /// A node was met, or is gone.
    fn learn(&self, peer: &Peer) {
        let (node, generation) = (NodeId(peer.identity.node), Generation(peer.identity.generation));
        let mut transfers = self.transfers.borrow_mut();
        match peer.dead {
            true => transfers.peer_dead(node, generation),
            false => transfers.peer_alive(node, generation),
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| !peer.dead)
            && let Some(nonce) = nonce(&peer.nonce.0)
        {
            let them = Incarnation { node, generation, nonce };
            transfers.agree(node, generation, keys.pair(Purpose::Bulk, &self.own, &them));
        }
    }
}

impl Protocol for Link {
    fn receive(&self, now: Instant, frame: &[u8]) {
        self.transfers.borrow_mut().receive(now, frame);
    }

    fn turn(self: Rc<Self>, now: Instant) {
        self.transfers.borrow_mut().turn(now);
    }

    fn transmit(&self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        self.transfers.borrow_mut().transmit(now, frame)
    }

    fn next_due(&self, now: Instant) -> Option<Window> {
        self.transfers.borrow().next_due(now).map(Window::at)
    }
}

/// Sees to it, for as long as this core lives, that the way to other nodes is that of this node's
/// present incarnation.
pub async fn follow(stl: Stl, post: Rc<Post>) {
    let stl = stl.acting_as(Binder::Operator);
    let log = |why: &CallError| stl.host().log(format_args!("bulk: no way to other nodes: {why}"));
    if let Err(error) = Line::of(&stl) {
        log(&error);
        // There will not be one later.
        let _ = post.connect(Err(error));
        return;
    }
    let (mut wait, mut said) = (RETRY, None);
    loop {
        let Err(error) = follow_one(&stl, &post).await;
        // A network service that restarts, or begins anew, is not there for a moment.
        let soon = error.status.try_again() || error.status == Status::Dead;
        if !soon && said != Some(error.status) && wait == MOST_RETRY {
            said = Some(error.status);
            log(&error);
        }
        wait = if soon { RETRY } else { (wait * 2).min(MOST_RETRY) };
        stl.host().pause(wait).await;
    }
}

/// Follows one incarnation of the network service's core, and says why that is over.
async fn follow_one(stl: &Stl, post: &Rc<Post>) -> CallResult<Infallible> {
    let gone = || CallError::new(Status::Dead, "this node's calls are not there");
    let network = NetworkClient::find(&stl.with_patience(LONG)).await?;
    let place = network.place().filter(Place::is_here).ok_or_else(gone)?;
    let (mut generation, mut seen) = (0, 0);
    loop {
        let standing = match network.standing(generation, seen).await {
            Err(error) if error.status == Status::Timeout => continue,
            standing => standing?,
        };
        let Standing { own, nonce: bytes, peers, .. } = standing;
        let strange = || CallError::new(Status::Invalid, "a boot is told by 16 bytes");
        let own = Incarnation {
            node: NodeId(own.node),
            generation: Generation(own.generation),
            nonce: nonce(&bytes.0).ok_or_else(strange)?,
        };
        let link = match post.link() {
            Ok(link) if link.own == own => link,
            _ => post.connect(Link::new(stl, post, place, own))?,
        };
        peers.iter().for_each(|peer| link.learn(peer));
        link.line.flush();
        (generation, seen) = (own.generation.0, standing.seen);
    }
}

fn nonce(bytes: &[u8]) -> Option<BootNonce> {
    Some(BootNonce(bytes.try_into().ok()?))
}
