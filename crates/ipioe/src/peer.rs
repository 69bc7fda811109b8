//! What an endpoint knows of another node.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_order::SortedMap;
use nile_seal::Seal;

use crate::ended::Ended;
use crate::keys::Incarnation;
use crate::message::{Incoming, Outgoing};
use crate::rtt::Rtt;
use crate::settings::{FIRST_PROBE, PROBE};
use crate::window::Window;
use crate::wire::Asker;

/// Another node, met or not.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The incarnation that proved that it lives.
    pub session: Option<Session>,
    /// One that says so, and has been asked to prove it.
    pub candidate: Option<Candidate>,
    /// Hellos that have gone unanswered, while somebody waits for the peer.
    pub greetings: Option<u32>,
    /// Our announcements before this one prove nothing: a former incarnation may have had them.
    pub proof_floor: u64,
    /// When a boot of it was last refused.
    pub refused: Option<Instant>,
    /// Our calls that have not ended, by their numbers.
    pub calls: BTreeMap<u64, Call>,
    /// The next call's number; its low half is the message's id.
    pub next_call: u64,
    /// Calls that have ended here and of whose end the peer may not know, in order.
    pub untold: Vec<u64>,
    /// Whether a timer will tell it.
    pub is_telling: bool,
    /// Gossip that waits until the peer is met.
    pub held: VecDeque<Gossip>,
}

/// A boot that has to prove that it lives.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub incarnation: Incarnation,
    /// Of its announcements.
    pub seal: Option<Seal>,
    pub mac: MacAddress,
    /// The number of its last announcement.
    pub number: u64,
    /// Its broadcast, which is told when it has proved it.
    pub broadcast: Option<(bool, Vec<u8>)>,
}

/// Gossip on its way out.
#[derive(Debug)]
pub(crate) struct Gossip {
    pub node: NodeId,
    pub core: CoreId,
    pub encoded: bool,
    pub id: u32,
    pub message: Outgoing,
}

/// The seals between two boots.
#[derive(Debug)]
pub(crate) struct Seals {
    /// The peer's to all.
    pub announcement: Seal,
    /// Ours to the peer.
    pub to: Seal,
    /// The peer's to us.
    pub from: Seal,
}

/// What there is between this boot and one of a peer's.
#[derive(Debug)]
pub(crate) struct Session {
    pub incarnation: Incarnation,
    pub mac: MacAddress,
    /// None if frames go unsealed.
    pub seals: Option<Seals>,
    /// Its announcements that have come.
    pub announced: Window,
    /// Its other frames that have come.
    pub window: Window,
    /// The next sequence that we seal with.
    pub sequence: u64,
    pub next_gossip: u32,
    pub rtt: Rtt,
    /// Since when the peer has been sent to without saying anything.
    pub unanswered: Option<Instant>,
    /// Questions whether it still lives that have gone unanswered.
    pub probes: u32,
    /// Whether it ever said anything in this session, so that it has the session, too.
    pub is_confirmed: bool,
    /// When it last said something.
    pub heard: Instant,
    pub served: Served,
    /// Gossip of which only a part has come, by id, with when it is given up.
    pub partial: SortedMap<u32, (Incoming, Instant)>,
}

impl Session {
    pub fn new(now: Instant, incarnation: Incarnation, mac: MacAddress) -> Session {
        Session {
            incarnation,
            mac,
            seals: None,
            announced: Window::starting_at(0),
            window: Window::starting_at(0),
            sequence: 0,
            next_gossip: 0,
            rtt: Rtt::default(),
            unanswered: None,
            probes: 0,
            is_confirmed: false,
            heard: now,
            served: Served::default(),
            partial: SortedMap::default(),
        }
    }

    /// A genuine frame came from the peer.
    pub fn hear(&mut self, now: Instant, mac: MacAddress) {
        self.mac = mac;
        self.heard = now;
        self.unanswered = None;
        self.probes = 0;
    }

    /// Something is sent to the peer: whether it should be asked if it is still the same.
    pub fn should_probe(&mut self, now: Instant) -> bool {
        let patience = if self.is_confirmed { PROBE } else { FIRST_PROBE };
        let since = *self.unanswered.get_or_insert(now);
        let is_due = now.since(since) >= patience;
        if is_due {
            self.unanswered = Some(now);
            self.probes += 1;
        }
        is_due
    }
}

/// One of our calls.
#[derive(Debug)]
pub(crate) struct Call {
    /// The incarnation that the owner named.
    pub wanted: Option<Generation>,
    /// The incarnation that it is sent to.
    pub bound: Option<Generation>,
    pub source_core: CoreId,
    pub core: CoreId,
    pub service: u16,
    pub method: u16,
    pub encoded: bool,
    pub asker: Asker,
    pub deadline: Instant,
    pub message: Outgoing,
    /// When it was first sent.
    pub sent: Option<Instant>,
    /// Retransmissions since the peer last acknowledged something.
    pub tries: u32,
    /// Whether anything of it was ever sent again: its round trip then says nothing.
    pub was_resent: bool,
    /// Whether it waits in the queue of what is to be sent.
    pub is_queued: bool,
    /// When its timer is due.
    pub due: Instant,
    /// What has come of a reply in segments.
    pub reply: Option<(Status, bool, Incoming)>,
}

/// Calls of a peer's that must not be done twice.
#[derive(Debug, Default)]
pub(crate) struct Served {
    /// Whether a request has come, and with it the numbers' beginning.
    pub has_begun: bool,
    pub entries: BTreeMap<u64, Entry>,
    pub ended: Ended,
}

/// Where a call of a peer's stands.
#[derive(Debug)]
pub(crate) struct Entry {
    pub state: State,
    pub source_core: CoreId,
    pub core: CoreId,
    pub service: u16,
    pub method: u16,
    pub encoded: bool,
    pub asker: Asker,
    /// When the caller stops waiting, by our clock.
    pub deadline: Instant,
    /// When its timer is due.
    pub due: Instant,
}

/// How far it is.
#[derive(Debug)]
pub(crate) enum State {
    /// Segments are missing.
    Assembling(Incoming),
    /// The owner has it.
    Working,
    /// The owner answered.
    Replied(Answer),
}

/// The answer, as long as it may have to be repeated.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: Status,
    pub encoded: bool,
    pub message: Outgoing,
    pub tries: u32,
    pub is_queued: bool,
}

impl Entry {
    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        match &self.state {
            State::Assembling(message) => message.len(),
            State::Working => 0,
            State::Replied(answer) => answer.message.len(),
        }
    }
}

impl Served {
    /// How much of the limit on remembered calls it takes.
    pub fn size(&self) -> usize {
        self.entries.len() + self.ended.ranges()
    }

    /// The number of the call with this id; `None` if it is below the floor.
    pub fn number(&self, id: u32) -> Option<u64> {
        let floor = self.ended.floor();
        let ahead = id.wrapping_sub(floor as u32);
        (ahead < 1 << 31).then(|| floor + u64::from(ahead))
    }

    /// The first request of a session says where its numbers begin.
    pub fn begin(&mut self, oldest: u32) {
        if !self.has_begun {
            self.has_begun = true;
            self.ended.raise(1 << 32 | u64::from(oldest));
        }
    }
}

impl Peer {
    /// Every call before this one has ended.
    pub fn oldest(&self) -> u64 {
        self.calls.first_key_value().map_or(self.next_call, |(number, _)| *number)
    }

    /// The number of our call with this id; `None` if there was none in a long while.
    pub fn number(&self, id: u32) -> Option<u64> {
        let back = (self.next_call as u32).wrapping_sub(id);
        self.next_call.checked_sub(u64::from(back)).filter(|_| back != 0 && back < 1 << 31)
    }

    /// Whether anybody waits for the peer to be met.
    pub fn is_awaited(&self) -> bool {
        !self.held.is_empty()
            || self.candidate.as_ref().is_some_and(|it| it.broadcast.is_some())
            || self.calls.values().any(|call| call.bound.is_none())
    }

    /// Whether a tool has gone without a word, as far as can be told: nothing is done for it, and
    /// it has said nothing for `silence`, not even to what is sent to it.
    pub fn has_left(&self, now: Instant, silence: Duration) -> bool {
        let is_working = |entry: &Entry| matches!(entry.state, State::Working);
        self.calls.is_empty()
            && self.session.as_ref().is_none_or(|session| {
                let mut entries = session.served.entries.values();
                !entries.any(is_working) && now.since(session.heard) >= silence
            })
    }

    /// Whether nothing would be lost by forgetting the peer, which has said nothing for `silence`.
    pub fn is_idle(&self, now: Instant, silence: Duration) -> bool {
        self.calls.is_empty()
            && self.held.is_empty()
            && self.session.as_ref().is_none_or(|session| {
                session.served.entries.is_empty() && now.since(session.heard) >= silence
            })
    }
}
