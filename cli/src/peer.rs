//! This program as a peer on a cluster's network: it speaks the nodes' own protocols over a cable
//! of the virtual switch, learns by gossip what every node has without being a member, and calls
//! services as nodes do. A service that is known here is called by its generated client. Any other
//! can be called, too, by a document, which the callee's network service turns into the binary form
//! by the schema.
//!
//! * [`cable`]: frames to and from the switch.
//! * [`known`]: what the cluster has, as gossip told it.
//! * [`call`]: calls and how they end.
//! * [`clients`]: the typed clients of services that are known here.

mod cable;
pub mod call;
pub mod clients;
pub mod known;

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Clock, SystemTime, UNIX_EPOCH};

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_gossip::{Destination, Gossip, Member, State};
use nile_ipioe::{Asker, BootNonce, CallId, End, Endpoint, Event, FIRST_TOOL, Request};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::cluster::folder::{Folder, Record};
use crate::cluster::network;
use crate::failure::Failure;
use crate::interrupt;
use cable::Cable;
use call::{Call, CallFailed, Outcome};

/// How often waiting looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// How a call ends: with its reply, encoded, or why there is none.
type Reply = Result<Vec<u8>, CallFailed>;

/// A peer on the network of a cluster.
pub struct Peer {
    cable: Cable,
    endpoint: Endpoint,
    gossip: Gossip,
    folder: Folder,
    /// What the protocols' moments count from.
    start: Clock,
    ended: BTreeMap<CallId, Reply>,
    /// Whether Ctrl-C ends what waits.
    can_be_interrupted: bool,
}

impl Peer {
    /// Plugs in to the cluster's switch and asks who is there.
    pub fn join(folder: &Folder, record: &Record) -> Result<Peer, Failure> {
        let (key, max_frame, path) = (folder.key(record)?, record.max_frame(), folder.path());
        let cable =
            Cable::plug_in(path, max_frame).map_err(|error| network::silent(folder, &error))?;
        let nonce = random::<16>()?;
        let seed = u64::from_le_bytes(random()?);
        // All ones is nobody's number.
        let drawn = u32::from_le_bytes(random()?).min(u32::MAX - 1);
        let node = NodeId(FIRST_TOOL.0 | drawn);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Another tool that drew the same number before has a lower one.
        let generation = Generation((since.as_millis() / 250) as u32 | 1);
        let mac = MacAddress::local(node, 0);
        let mut settings = nile_ipioe::Settings::new(node, generation, mac, BootNonce(nonce));
        (settings.key, settings.seed, settings.max_frame) = (key, seed, max_frame);
        let mut rules = nile_gossip::Settings::new(node, generation, seed);
        rules.observer = true;
        let (endpoint, gossip) = (Endpoint::new(settings), Gossip::new(rules));
        let (start, ended) = (Clock::now(), BTreeMap::new());
        let mut peer = Peer {
            cable,
            endpoint,
            gossip,
            folder: folder.clone(),
            start,
            ended,
            can_be_interrupted: true,
        };
        peer.gossip.start(peer.now());
        peer.turn()?;
        Ok(peer)
    }

    /// What the cluster has, as far as it was told.
    pub fn known(&self) -> &Gossip {
        &self.gossip
    }

    /// Whether somebody tells of a node, or it itself, within `patience`.
    pub fn hears_of(&mut self, node: NodeId, patience: Duration) -> Result<bool, Failure> {
        self.until(patience, |peer| peer.gossip.member(node).is_some())
    }

    /// Tells the nodes that this one has ended, so that none has to miss it first. One that nobody
    /// has told of within `patience` is known to nobody.
    pub fn tell_end(&mut self, node: NodeId, patience: Duration) -> Result<(), Failure> {
        self.hears_of(node, patience)?;
        self.gossip.tell_end(node);
        self.turn()
    }

    /// Asks a node for what it has that is not known here.
    pub fn ask(&mut self, node: NodeId) {
        self.gossip.ask(node);
    }

    /// Takes part until `done` says so or `patience` is over; whether it did.
    pub fn until(
        &mut self,
        patience: Duration,
        mut done: impl FnMut(&mut Peer) -> bool,
    ) -> Result<bool, Failure> {
        let deadline = Clock::now() + patience;
        loop {
            self.turn()?;
            if done(self) {
                return Ok(true);
            }
            let now = Clock::now();
            if now >= deadline {
                return Ok(false);
            }
            if self.can_be_interrupted && interrupt::requested() {
                return Err(Failure::Interrupted);
            }
            self.cable.wait(self.rest().min(deadline - now).min(LOOK));
        }
    }

    /// From now on Ctrl-C does not end what waits: there is something to be put in order.
    pub fn insist(&mut self) {
        self.heed(false);
    }

    /// Whether Ctrl-C ends what waits from now on; whether it did before.
    pub fn heed(&mut self, can_be_interrupted: bool) -> bool {
        std::mem::replace(&mut self.can_be_interrupted, can_be_interrupted)
    }

    /// Makes all of `calls` at once and waits for their ends, in their order. None takes longer
    /// than `patience`.
    pub fn calls(&mut self, calls: &[Call], patience: Duration) -> Result<Vec<Outcome>, Failure> {
        let begin = |call: &Call| {
            let Call { target, method, document } = call.clone();
            let request = call::Request { target, method, arguments: document.into_bytes() };
            self.begin_as(request, false, patience)
        };
        let waiting: Vec<_> = calls.iter().map(begin).collect();
        let all: Vec<CallId> = waiting.iter().flatten().copied().collect();
        // Each ends by its deadline; the rest is for looking.
        self.until(patience + LOOK * 10, |peer| {
            all.iter().all(|call| peer.ended.contains_key(call))
        })?;
        let timed_out = |call: CallId| Err(CallFailed::timed_out(call.node));
        let end = |(call, begun): (&Call, Result<CallId, CallFailed>)| {
            let end = begun.and_then(|id| self.ended.remove(&id).unwrap_or_else(|| timed_out(id)));
            let node = call.target.node;
            let no_text = |_| CallFailed::new(Status::Invalid, format!("{node} answered no text"));
            String::from_utf8(end?).map_err(no_text)
        };
        Ok(calls.iter().zip(waiting).map(end).collect())
    }

    /// Begins a call in the binary form, which ends within `patience`.
    pub fn begin(
        &mut self,
        request: call::Request,
        patience: Duration,
    ) -> Result<CallId, CallFailed> {
        self.begin_as(request, true, patience)
    }

    fn begin_as(
        &mut self,
        call: call::Request,
        encoded: bool,
        patience: Duration,
    ) -> Result<CallId, CallFailed> {
        let now = self.now();
        let (node, generation) = (call.target.node, call.target.generation);
        let is_down = |it: Member| it.state == State::Down && it.generation >= generation;
        if self.gossip.member(node).is_some_and(is_down) {
            return Err(dead(node));
        }
        let request = Request {
            to: node,
            generation: Some(generation),
            source_core: CoreId::BOOT,
            core: call.target.core,
            service: call.target.number,
            method: call.method,
            encoded,
            asker: Asker::Operator,
            deadline: now + patience,
        };
        self.endpoint.call(now, request, call.arguments).map_err(CallFailed::refused)
    }

    /// Waits until one of these calls has ended, for at most `patience`; which, and how.
    pub fn first_end(
        &mut self,
        calls: &[CallId],
        patience: Duration,
    ) -> Result<Option<(CallId, Reply)>, Failure> {
        let mut first = None;
        self.until(patience, |peer| {
            let end = |call: &CallId| Some((*call, peer.ended.remove(call)?));
            first = calls.iter().find_map(end);
            first.is_some()
        })?;
        Ok(first)
    }

    /// Nobody waits for the end of a call any more.
    pub fn give_up(&mut self, call: CallId) {
        self.endpoint.cancel(self.now(), call);
        self.ended.remove(&call);
    }

    /// Makes one call.
    pub fn call(&mut self, call: &Call, patience: Duration) -> Result<Outcome, Failure> {
        let mut ends = self.calls(std::slice::from_ref(call), patience)?;
        Ok(ends.pop().expect("one call has one end"))
    }

    fn now(&self) -> Instant {
        Instant::START + self.start.elapsed()
    }

    /// How long nothing is due.
    fn rest(&self) -> Duration {
        let due = [self.endpoint.next_due(), self.gossip.next_due()].into_iter().flatten().min();
        due.map_or(LOOK, |due| due.since(self.now()))
    }

    /// Takes what has come, does what is due, and sends what came of it.
    fn turn(&mut self) -> Result<(), Failure> {
        let lost = |error: std::io::Error, folder: &Folder| network::silent(folder, &error);
        loop {
            let now = self.now();
            let endpoint = &mut self.endpoint;
            let taken = self
                .cable
                .receive(|frame| endpoint.receive(now, frame))
                .map_err(|error| lost(error, &self.folder))?;
            self.endpoint.on_time(now);
            self.gossip.on_time(now);
            self.exchange(now)?;
            while let Some(length) = self.endpoint.transmit(now, self.cable.frame()) {
                self.cable.send(length).map_err(|error| lost(error, &self.folder))?;
            }
            if !taken {
                return Ok(());
            }
        }
    }

    /// Lets the two protocols tell each other what happened.
    fn exchange(&mut self, now: Instant) -> Result<(), Failure> {
        while let Some(event) = self.endpoint.poll() {
            match event {
                Event::Ended { call, end } => {
                    self.ended.insert(call, outcome(call.node, end));
                }
                Event::Gossip { from, data, .. } => self.gossip.receive(now, from, &data, false),
                Event::Broadcast { from, data, .. } => self.gossip.receive(now, from, &data, true),
                Event::Request { serving, .. } => {
                    let why = b"a tool offers no services".to_vec();
                    // It fails only if nobody waits.
                    let _ = self.endpoint.reply(now, serving, Status::NotFound, false, why);
                }
                Event::Outdated { .. } => {
                    return Err(Failure::failed(
                        "another tool has this one's number, or the clock went back; try again",
                    ));
                }
                Event::Cancelled { .. }
                | Event::Met { .. }
                | Event::Restarted { .. }
                | Event::Left { .. }
                | Event::Namesake { .. } => {}
            }
        }
        while let Some(event) = self.gossip.poll_event() {
            match event {
                nile_gossip::Event::NodeDown { node, generation }
                | nile_gossip::Event::NodeRestarted { node, old: generation, .. } => {
                    self.endpoint.peer_dead(now, node, generation);
                }
                _ => {}
            }
        }
        while let Some((to, message)) = self.gossip.poll_transmit() {
            // What has no room is lost, as on the network.
            let _ = match to {
                Destination::Broadcast => self.endpoint.broadcast(true, message),
                Destination::Node(node) => {
                    self.endpoint.gossip(now, node, CoreId::BOOT, true, message)
                }
            };
        }
        Ok(())
    }
}

/// A tool that ends says so: nodes would remember it for ten minutes, and have room for a thousand.
impl Drop for Peer {
    fn drop(&mut self) {
        let now = self.now();
        self.endpoint.leave();
        while let Some(length) = self.endpoint.transmit(now, self.cable.frame()) {
            if self.cable.send(length).is_err() {
                return;
            }
        }
    }
}

fn outcome(node: NodeId, end: End) -> Reply {
    match end {
        End::Answered { status: Status::Ok, data, .. } => Ok(data),
        End::Answered { status, data, .. } => {
            Err(CallFailed::new(status, String::from_utf8_lossy(&data)))
        }
        End::Dead => Err(dead(node)),
        End::TimedOut => Err(CallFailed::timed_out(node)),
    }
}

fn dead(node: NodeId) -> CallFailed {
    CallFailed::new(Status::Dead, format!("{node} is held for dead, or has begun anew"))
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    // So few bytes come whole.
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(count) if count == N => Ok(bytes),
        Ok(_) => Err(Failure::failed("Linux gave less entropy than was asked for")),
        Err(error) => Err(Failure::failed(format!("Linux gives no entropy: {error}"))),
    }
}

/// A new key for a cluster.
pub fn new_key() -> Result<[u8; 32], Failure> {
    random()
}
