//! One node of a run: its endpoint, the calls that it has made, and those that it has to answer.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_ipioe::{BootNonce, CallId, ClusterKey, Endpoint, Limits, ServingId, Settings};

use super::ledger::{Token, name};

/// What all nodes of a run have in common.
#[derive(Clone)]
pub struct Kind {
    pub key: Option<ClusterKey>,
    pub limits: Limits,
    /// Distinguishes the boots of one run from those of all others.
    pub seed: u64,
}

/// A node and what the checks know of it.
pub struct Node {
    pub id: NodeId,
    pub generation: Generation,
    pub endpoint: Endpoint,
    /// Calls that have not ended.
    pub open: BTreeMap<CallId, Token>,
    /// Answers to give, by when.
    pub work: BTreeSet<(Instant, ServingId)>,
    /// Which call each of them is.
    pub serving: BTreeMap<ServingId, Token>,
    /// When the node does something of its own again.
    pub next_act: Instant,
    /// Names of frames that this incarnation accepted.
    accepted: HashSet<u64>,
    /// Gossip that this incarnation was told, by whom and token.
    heard: HashSet<(NodeId, Token)>,
}

/// The key that the nodes of a run share.
pub fn key(seed: u64) -> ClusterKey {
    let mut key = [0x5a; 32];
    key[..8].copy_from_slice(&seed.to_be_bytes());
    ClusterKey(key)
}

/// A boot's endpoint.
pub fn endpoint(id: NodeId, generation: Generation, kind: &Kind) -> Endpoint {
    let mut nonce = [0; 16];
    nonce[..4].copy_from_slice(&id.0.to_be_bytes());
    nonce[4..8].copy_from_slice(&generation.0.to_be_bytes());
    nonce[8..].copy_from_slice(&kind.seed.to_be_bytes());
    Endpoint::new(Settings {
        key: kind.key.clone(),
        limits: kind.limits,
        seed: kind.seed ^ u64::from(id.0) << 32 ^ u64::from(generation.0),
        checksum: crc32c::crc32c_append,
        ..Settings::new(id, generation, MacAddress::local(id, 0), BootNonce(nonce))
    })
}

impl Node {
    pub fn new(id: NodeId, kind: &Kind, next_act: Instant) -> Node {
        let generation = Generation::FIRST;
        Node {
            id,
            generation,
            endpoint: endpoint(id, generation, kind),
            open: BTreeMap::new(),
            work: BTreeSet::new(),
            serving: BTreeMap::new(),
            next_act,
            accepted: HashSet::new(),
            heard: HashSet::new(),
        }
    }

    /// Begins another incarnation; the calls that ended with the last one.
    pub fn restart(&mut self, kind: &Kind, keeps_generation: bool) -> BTreeMap<CallId, Token> {
        if !keeps_generation {
            self.generation = self.generation.next();
            self.accepted.clear();
            self.heard.clear();
        }
        self.endpoint = endpoint(self.id, self.generation, kind);
        self.work.clear();
        self.serving.clear();
        std::mem::take(&mut self.open)
    }

    /// When something is due.
    pub fn next_due(&self) -> Instant {
        let work = self.work.first().map(|(at, _)| *at);
        let due = self.endpoint.next_due();
        [work, due].into_iter().flatten().fold(self.next_act, Instant::min)
    }

    /// Takes a frame; its name, if it was accepted.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) -> Option<u64> {
        let before = self.endpoint.counters().accepted;
        self.endpoint.receive(now, frame);
        (self.endpoint.counters().accepted != before).then(|| name(frame))
    }

    /// Notes a frame that was accepted; whether this incarnation has accepted it before.
    pub fn note(&mut self, name: u64) -> bool {
        !self.accepted.insert(name)
    }

    /// Notes gossip; whether this incarnation was told it before.
    pub fn hear(&mut self, from: NodeId, token: Token) -> bool {
        !self.heard.insert((from, token))
    }

    /// Takes a call that is to be answered after `time`, or never.
    pub fn serve(&mut self, serving: ServingId, token: Token, due: Option<Instant>) {
        self.serving.insert(serving, token);
        self.work.extend(due.map(|due| (due, serving)));
    }

    /// Nobody waits any more.
    pub fn cancel(&mut self, serving: ServingId) {
        self.serving.remove(&serving);
        self.work.retain(|(_, other)| *other != serving);
    }

    /// The next answer that is due.
    pub fn due(&mut self, now: Instant) -> Option<(ServingId, Token)> {
        let (at, serving) = *self.work.first()?;
        if at > now {
            return None;
        }
        self.work.pop_first();
        self.serving.remove(&serving).map(|token| (serving, token))
    }

    /// Answers a call.
    pub fn reply(&mut self, now: Instant, serving: ServingId, data: Vec<u8>) {
        // Gone if the caller did not wait: that is told by an event which may still be queued.
        let _ = self.endpoint.reply(now, serving, Status::Ok, true, data);
    }

    /// Whether the endpoint remembers more than `limits` allow.
    pub fn is_greedy(&self, limits: &Limits) -> bool {
        let usage = self.endpoint.usage();
        usage.peers > limits.peers
            || usage.calls > limits.calls
            || usage.remembered > 2 * limits.remembered
            || usage.bytes > limits.bytes
    }
}

/// How many cores the nodes of a run have.
pub const CORES: u16 = 8;

/// A core, by any number.
pub fn core(number: u64) -> CoreId {
    CoreId((number % u64::from(CORES)) as u16)
}

/// A span between the two, by any number.
pub fn span(number: u64, least: Duration, most: Duration) -> Duration {
    let width = (most - least).as_nanos().max(1);
    least + Duration::from_nanos((u128::from(number) % width) as u64)
}
