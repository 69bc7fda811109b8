//! The endpoint: one node's end of all calls, and what its owner asks of it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Window};
use nile_order::SortedMap;
use nile_seal::Seal;

use crate::checksum::Checksum;
use crate::counters::Counters;
use crate::event::{CallId, End, Event, Refused, Request};
use crate::keys::{Incarnation, Keys};
use crate::message::Outgoing;
use crate::peer::{Call, Gossip, Peer, Session};
use crate::rtt::Jitter;
use crate::settings::{
    CHALLENGE_LIFE, FIRST_TOOL, Limits, MAX_PATIENCE, Settings, TELL, TOOL_SILENCE,
};
use crate::timers::{Timer, Timers};
use crate::transmit::{Hello, Work};
use crate::wire::{BootNonce, MAX_MESSAGE, MAX_SEGMENTS, MESSAGE_HEADER, TAG_BYTES, state};

/// The keys of a node in a cluster that has one.
#[derive(Debug)]
pub(crate) struct OwnKeys {
    pub cluster: Keys,
    pub announcement: Seal,
}

/// How much of the limits is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Nodes that it knows.
    pub peers: usize,
    /// Its own calls that have not ended.
    pub calls: usize,
    /// Calls of others that it remembers.
    pub remembered: usize,
    /// Bytes of messages.
    pub bytes: usize,
}

/// A node that was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerInfo {
    /// Which.
    pub node: NodeId,
    /// Its incarnation.
    pub generation: Generation,
    /// What tells its boot from every other: keys between it and this node come from that.
    pub nonce: BootNonce,
    /// The address of its interface.
    pub mac: MacAddress,
    /// When it last said something.
    pub heard: Instant,
    /// How long a round trip takes, once there was one.
    pub round_trip: Option<Duration>,
}

/// One node's end of the protocol. Frames and moments go in, frames, events and deadlines come
/// out; nothing blocks.
///
/// After every call that takes a moment, the owner sends what [`transmit`](Endpoint::transmit)
/// gives, takes what [`poll`](Endpoint::poll) gives, and calls [`on_time`](Endpoint::on_time) when
/// [`next_due`](Endpoint::next_due) has come.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) me: Incarnation,
    pub(crate) mac: MacAddress,
    pub(crate) max_frame: usize,
    pub(crate) keys: Option<OwnKeys>,
    pub(crate) limits: Limits,
    pub(crate) checksum: Checksum,
    pub(crate) jitter: Jitter,
    pub(crate) peers: SortedMap<NodeId, Box<Peer>>,
    pub(crate) timers: Timers,
    pub(crate) work: VecDeque<Work>,
    pub(crate) events: VecDeque<Event>,
    /// The number of our next announcement: its sequence, and in its low half its id.
    pub(crate) announced: u64,
    /// What it was at two moments, at least [`CHALLENGE_LIFE`] apart.
    recent: [(Instant, u64); 2],
    /// Announcements before this one prove nothing, as boots have left since.
    pub(crate) proof_floor: u64,
    /// Above all sequences and numbers of calls that were used with peers since forgotten.
    pub(crate) first_sequence: u64,
    pub(crate) first_call: u64,
    pub(crate) usage: Usage,
    pub(crate) counters: Counters,
    /// Where data are opened before anybody believes them.
    pub(crate) scratch: Vec<u8>,
}

impl Endpoint {
    /// An endpoint that knows nobody yet.
    ///
    /// # Panics
    ///
    /// If the node or its generation is zero, or a frame of `max_frame` bytes is too short for any
    /// message to fit its segments: mistakes of the owner's.
    pub fn new(settings: Settings) -> Endpoint {
        let me = settings.incarnation();
        assert!(me.node.0 != 0 && me.generation.0 != 0, "zero names no node and no generation");
        assert!(settings.max_frame >= Settings::LEAST_FRAME, "frames are too short");
        let keys = settings.key.as_ref().map(|key| {
            let cluster = Keys::new(key);
            let announcement = cluster.announcement(&me);
            OwnKeys { cluster, announcement }
        });
        let mut jitter = Jitter(settings.seed);
        Endpoint {
            me,
            mac: settings.mac,
            max_frame: settings.max_frame,
            keys,
            limits: settings.limits,
            checksum: settings.checksum,
            first_call: jitter.next() >> 32,
            jitter,
            peers: SortedMap::default(),
            timers: Timers::default(),
            work: VecDeque::new(),
            events: VecDeque::new(),
            announced: 0,
            recent: [(Instant::START, 0); 2],
            proof_floor: 0,
            first_sequence: 0,
            usage: Usage::default(),
            counters: Counters::default(),
            scratch: Vec::new(),
        }
    }

    /// Bytes of data of one frame.
    pub(crate) fn step(&self) -> usize {
        const LEAST: usize = Settings::LEAST_FRAME - HEADER_BYTES - MESSAGE_HEADER - TAG_BYTES;
        const { assert!(MAX_SEGMENTS * LEAST >= MAX_MESSAGE, "any message fits its segments") };
        let tag = if self.keys.is_some() { TAG_BYTES } else { 0 };
        self.max_frame - HEADER_BYTES - MESSAGE_HEADER - tag
    }

    /// Calls a method on another node. The call ends once, by [`Event::Ended`], unless it is
    /// cancelled before; its deadline is moved to [`MAX_PATIENCE`] from now if it is beyond.
    pub fn call(&mut self, now: Instant, it: Request, data: Vec<u8>) -> Result<CallId, Refused> {
        if data.len() > MAX_MESSAGE {
            return Err(Refused::TooLong);
        }
        if it.to == self.me.node || it.to.0 == 0 {
            return Err(Refused::NotAPeer);
        }
        if it.deadline <= now {
            return Err(Refused::Late);
        }
        if self.usage.calls >= self.limits.calls {
            return Err(Refused::Full);
        }
        let step = self.step();
        let peer = self.meet(now, it.to).ok_or(Refused::TooManyPeers)?;
        let number = peer.next_call;
        if number - peer.oldest() >= 1 << 30 {
            return Err(Refused::Full);
        }
        peer.next_call += 1;
        let deadline = it.deadline.min(now + MAX_PATIENCE);
        let call = Call {
            wanted: it.generation,
            bound: None,
            source_core: it.source_core,
            core: it.core,
            service: it.service,
            method: it.method,
            encoded: it.encoded,
            asker: it.asker,
            deadline,
            message: Outgoing::new(data, step),
            sent: None,
            tries: 0,
            was_resent: false,
            is_queued: false,
            due: deadline,
            reply: None,
        };
        peer.calls.insert(number, call);
        self.usage.calls += 1;
        self.timers.set(deadline, Timer::Call(it.to, number));
        self.bind(now, it.to, number);
        Ok(CallId { node: it.to, number })
    }

    /// Forgets a call: it ends without an event, and its callee learns that nobody waits. Nothing
    /// happens if it has ended.
    pub fn cancel(&mut self, now: Instant, call: CallId) {
        self.forget_call(now, call.node, call.number);
    }

    /// Sends a message to a core without acknowledgement. It is lost if the peer cannot be met
    /// within [`HOLD`](crate::settings::HOLD), or a frame of it is.
    pub fn gossip(
        &mut self,
        now: Instant,
        to: NodeId,
        core: CoreId,
        encoded: bool,
        data: Vec<u8>,
    ) -> Result<(), Refused> {
        if data.len() > MAX_MESSAGE {
            return Err(Refused::TooLong);
        }
        if to == self.me.node || to.0 == 0 {
            return Err(Refused::NotAPeer);
        }
        let bytes = self.usage.bytes + data.len();
        if bytes > self.limits.bytes || self.work.len() >= self.limits.queue {
            return Err(Refused::Full);
        }
        let step = self.step();
        let most_held = self.limits.queue.min(64);
        let peer = self.meet(now, to).ok_or(Refused::TooManyPeers)?;
        let message = Outgoing::new(data, step);
        let mut gossip = Gossip { node: to, core, encoded, id: 0, message };
        if let Some(session) = &mut peer.session {
            gossip.id = session.next_gossip;
            session.next_gossip = gossip.id.wrapping_add(1);
            self.work.push_back(Work::Gossip(gossip));
        } else {
            if peer.held.len() >= most_held {
                return Err(Refused::Full);
            }
            peer.held.push_back(gossip);
            self.greet(now, to);
        }
        self.usage.bytes = bytes;
        Ok(())
    }

    /// Sends a message to every node of the link, in one frame, without acknowledgement.
    pub fn broadcast(&mut self, encoded: bool, data: Vec<u8>) -> Result<(), Refused> {
        if data.len() > self.step() {
            return Err(Refused::TooLong);
        }
        let bytes = self.usage.bytes + data.len();
        if bytes > self.limits.bytes || self.work.len() >= self.limits.queue {
            return Err(Refused::Full);
        }
        self.usage.bytes = bytes;
        self.work.push_back(Work::Broadcast { encoded, data });
        Ok(())
    }

    /// Says to everybody that this boot ends: those that have met it forget it. What is still to
    /// be sent goes first; after this nothing should.
    pub fn leave(&mut self) {
        let everybody = (NodeId(0), MacAddress::BROADCAST);
        let (node, mac) = everybody;
        self.offer(Work::Hello(Hello { node, mac, state: state::LEAVES, echo: None }));
    }

    /// The most bytes of a [`broadcast`](Endpoint::broadcast), and of any message in one frame.
    pub fn frame_room(&self) -> usize {
        self.step()
    }

    /// Others found that this incarnation of a node is gone: calls to it end as [`End::Dead`]. If
    /// it lives after all, it can still be called.
    pub fn peer_dead(&mut self, now: Instant, node: NodeId, generation: Generation) {
        let Some(peer) = self.peers.get(&node) else { return };
        let is_for_it = |call: &Call| call.bound.or(call.wanted) == Some(generation);
        let calls = peer.calls.iter().filter(|(_, call)| is_for_it(call));
        let numbers: Vec<u64> = calls.map(|(number, _)| *number).collect();
        for number in numbers {
            self.end_call(now, node, number, End::Dead);
        }
    }

    /// The next event, in the order in which things happened.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`on_time`](Endpoint::on_time) has something to do.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The same, for a driver that has other things to do: what no call waits for can wait a
    /// little.
    pub fn next_window(&self) -> Option<Window> {
        self.timers.next_window()
    }

    /// Whether there is a frame to send.
    pub fn has_frames(&self) -> bool {
        !self.work.is_empty()
    }

    /// The nodes that were met, by id.
    pub fn peers(&self) -> impl Iterator<Item = PeerInfo> {
        self.peers.iter().filter_map(|(_, peer)| peer.session.as_ref().map(info))
    }

    /// One node, if it was met.
    pub fn peer(&self, node: NodeId) -> Option<PeerInfo> {
        self.peers.get(&node)?.session.as_ref().map(info)
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How much of the limits is used.
    pub fn usage(&self) -> Usage {
        Usage { peers: self.peers.len(), ..self.usage }
    }

    /// Tells the owner.
    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Puts something that nobody misses in the queue, if there is room.
    pub(crate) fn offer(&mut self, work: Work) {
        if self.work.len() < self.limits.queue.max(1) * 2 {
            self.work.push_back(work);
        } else {
            self.counters.dropped += 1;
        }
    }

    /// The peer's row, which is made if there is room.
    pub(crate) fn meet(&mut self, now: Instant, node: NodeId) -> Option<&mut Peer> {
        if !self.peers.contains_key(&node) {
            let is_tool = node >= FIRST_TOOL;
            let alike = |it: &&NodeId| (**it >= FIRST_TOOL) == is_tool;
            let known = self.peers.keys().filter(alike).count();
            let most = if is_tool { self.limits.tools } else { self.limits.peers };
            if known >= most && !self.evict(now, is_tool) {
                self.counters.dropped += 1;
                return None;
            }
            let peer = Peer { next_call: self.first_call, ..Peer::default() };
            self.peers.insert(node, Box::new(peer));
        }
        self.peers.get_mut(&node).map(|peer| &mut **peer)
    }

    /// Forgets one node or tool of which nothing is needed: one that was never met, else the one
    /// that has said nothing for longest.
    fn evict(&mut self, now: Instant, is_tool: bool) -> bool {
        let idle = self.peers.iter().filter(|(node, peer)| match is_tool {
            true => **node >= FIRST_TOOL && peer.has_left(now, TOOL_SILENCE),
            false => **node < FIRST_TOOL && peer.is_idle(now, MAX_PATIENCE),
        });
        let heard = |peer: &Peer| peer.session.as_ref().map(|session| session.heard);
        let Some(node) = idle.min_by_key(|(_, peer)| heard(peer)).map(|(node, _)| *node) else {
            return false;
        };
        self.forget(node);
        true
    }

    /// Forgets a peer of which nothing is needed.
    pub(crate) fn forget(&mut self, node: NodeId) {
        let Some(peer) = self.peers.remove(&node) else { return };
        self.first_call = self.first_call.max(peer.next_call);
        let broadcast = peer.candidate.and_then(|it| it.broadcast);
        self.usage.bytes -= broadcast.map_or(0, |(_, data)| data.len());
        if let Some(session) = peer.session {
            self.drop_session(session);
        }
    }

    /// Rounds of announcements: those that were sent before the last but one prove nothing.
    pub(crate) fn freshest(&mut self, now: Instant) -> u64 {
        let mark = (now, self.announced);
        let age = now.since(self.recent[1].0);
        if age >= CHALLENGE_LIFE * 2 {
            self.recent = [mark; 2];
        } else if age >= CHALLENGE_LIFE {
            self.recent = [self.recent[1], mark];
        }
        self.recent[0].1
    }

    /// Plans to tell a peer which calls have ended.
    pub(crate) fn plan_telling(&mut self, now: Instant, node: NodeId) {
        self.timers.set(now + TELL, Timer::Tell(node));
    }
}

fn info(session: &Session) -> PeerInfo {
    PeerInfo {
        node: session.incarnation.node,
        generation: session.incarnation.generation,
        nonce: session.incarnation.nonce,
        mac: session.mac,
        heard: session.heard,
        round_trip: session.rtt.mean(),
    }
}
