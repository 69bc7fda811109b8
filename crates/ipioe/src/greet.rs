//! How nodes meet: announcements, and the proof that an incarnation lives.
//!
//! Whoever gets an announcement of a boot that it does not know answers with a hello that echoes
//! it. Only a hello that echoes one of ours, sent not long ago and after the last time that we met
//! the node, proves that its sender lives: a recording cannot echo what was sent later.

use nile_abi::{Generation, Instant, MacAddress, NodeId};
use nile_seal::Seal;

use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::keys::{Incarnation, Purpose};
use crate::peer::{Candidate, Peer, Seals, Session};
use crate::receive::open;
use crate::rtt::back_off;
use crate::settings::{FIRST_HELLO, LEAST_REFUSAL, MOST_HELLO};
use crate::timers::Timer;
use crate::transmit::{Hello, Work};
use crate::window::Window;
use crate::wire::{Body, BootNonce, Frame, state};

/// Hellos after which nobody waits any longer to tell an unmet peer something: their back-off
/// takes `HOLD` or a little more.
const MOST_GREETINGS: u32 = 8;

/// What a hello says of its receiver.
#[derive(Clone, Copy)]
pub(crate) struct Said {
    pub known: Generation,
    pub state: u16,
    pub echo: u32,
    pub echo_nonce: BootNonce,
    pub sequence: u64,
}

impl Said {
    fn has(&self, bit: u16) -> bool {
        self.state & bit != 0
    }
}

/// The number whose low half is `id` and that is nearest to `near`.
fn nearest(near: u64, id: u32) -> u64 {
    let ahead = id.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}

impl Endpoint {
    /// A broadcast, or a hello that says something, came.
    pub(crate) fn on_announcement(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        nonce: BootNonce,
        said: Option<Said>,
    ) {
        let header = frame.header();
        let them = Incarnation { node: header.node, generation: header.generation, nonce };
        if header.sequence.is_some_and(|sequence| sequence as u32 != header.id) {
            self.counters.malformed += 1;
            return;
        }
        let session = self.peers.get_mut(&them.node).and_then(|peer| peer.session.as_mut());
        let known = session.as_ref().map(|session| session.incarnation);
        let Some(session) = session.filter(|session| session.incarnation == them) else {
            return self.on_stranger(now, frame, them, known, said);
        };

        let number = header.sequence.unwrap_or(nearest(session.announced.next(), header.id));
        if !session.announced.is_new(number) {
            self.counters.replayed += 1;
            return;
        }
        let seal = session.seals.as_ref().map(|seals| &seals.announcement);
        if !open(seal, frame, &mut self.scratch) {
            self.counters.forged += 1;
            return;
        }
        session.announced.note(number);
        session.hear(now, frame.source());
        self.counters.accepted += 1;
        let Some(said) = said else {
            let data = self.scratch.clone();
            return self.tell_broadcast(them, header.encoded, data);
        };
        if said.has(state::LEAVES) {
            return self.left(now, them);
        }
        if self.is_proof(now, them.node, &said) {
            if said.has(state::REFUSES) {
                return self.refused_by(&said);
            }
            if !said.has(state::ASKS)
                && let Some(peer) = self.peers.get_mut(&them.node)
                && let Some(session) = &mut peer.session
            {
                session.is_confirmed = true;
            }
        }
        if said.has(state::ASKS) {
            self.answer(them, frame.source(), header.id, 0);
        }
    }

    /// A boot that was met ends: no call of it or to it goes on.
    fn left(&mut self, now: Instant, them: Incarnation) {
        let (node, generation) = (them.node, them.generation);
        self.end_calls_to(now, node, generation);
        // A recording of its last hellos proves nothing, though nobody remembers it.
        self.proof_floor = self.announced;
        let is_used = |peer: &Peer| !peer.calls.is_empty() || !peer.held.is_empty();
        match self.peers.get_mut(&node) {
            // Somebody waits for the next boot of this node.
            Some(peer) if is_used(peer) => {
                let session = peer.session.take();
                peer.proof_floor = self.announced;
                session.into_iter().for_each(|session| self.drop_session(session));
            }
            _ => self.forget(node),
        }
        self.tell(Event::Left { node, generation });
    }

    /// An announcement of a boot that has not proved that it lives.
    fn on_stranger(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        them: Incarnation,
        known: Option<Incarnation>,
        said: Option<Said>,
    ) {
        let candidate = self.peers.get(&them.node).and_then(|peer| peer.candidate.as_ref());
        let seal = match candidate.filter(|it| it.incarnation == them) {
            Some(candidate) => candidate.seal.clone(),
            None => self.keys.as_ref().map(|keys| keys.cluster.announcement(&them)),
        };
        if !open(seal.as_ref(), frame, &mut self.scratch) {
            self.counters.forged += 1;
            return;
        }
        if said.as_ref().is_some_and(|said| said.has(state::LEAVES)) {
            // Nobody here has met it, and nobody will.
            return;
        }
        let (header, mac) = (*frame.header(), frame.source());
        if known.is_some_and(|known| them.generation <= known.generation) {
            self.counters.stale += 1;
            let Some(peer) = self.peers.get_mut(&them.node) else { return };
            if peer.refused.is_none_or(|at| now.since(at) >= LEAST_REFUSAL) {
                peer.refused = Some(now);
                self.answer(them, mac, header.id, state::REFUSES);
            }
            return;
        }

        let is_proof = said.as_ref().is_some_and(|said| self.is_proof(now, them.node, said));
        if let Some(said) = said.filter(|_| is_proof) {
            if said.has(state::REFUSES) {
                return self.refused_by(&said);
            }
            self.counters.accepted += 1;
            let number = header.sequence.unwrap_or(1 << 32 | u64::from(header.id));
            if said.has(state::ASKS) {
                // Before what waits for the session: the peer has none until this arrives.
                self.answer(them, mac, header.id, 0);
            }
            return self.install(now, them, seal, mac, number, said.sequence);
        }

        if self.meet(now, them.node).is_none() {
            return;
        }
        let Some(peer) = self.peers.get_mut(&them.node) else { return };
        let before = peer.candidate.as_ref().filter(|it| it.incarnation == them);
        let near = before.map_or(1 << 32 | u64::from(header.id), |it| it.number);
        let number = header.sequence.unwrap_or(nearest(near, header.id));
        if before.is_some_and(|it| number <= it.number) {
            self.counters.replayed += 1;
            return;
        }
        let is_later = |it: &Candidate| it.incarnation.generation > them.generation;
        if peer.candidate.as_ref().is_none_or(|it| !is_later(it)) {
            let old = peer.candidate.take();
            let same = old.as_ref().is_some_and(|it| it.incarnation == them);
            let (kept, lost) = match old.and_then(|it| it.broadcast) {
                Some(broadcast) if same && said.is_some() => (Some(broadcast), 0),
                other => (None, other.map_or(0, |(_, data)| data.len())),
            };
            self.usage.bytes -= lost;
            let bytes = self.usage.bytes + self.scratch.len();
            let has_room = said.is_none() && bytes <= self.limits.bytes;
            if has_room {
                self.usage.bytes = bytes;
            }
            let broadcast =
                if has_room { Some((header.encoded, self.scratch.clone())) } else { kept };
            peer.candidate = Some(Candidate { incarnation: them, seal, mac, number, broadcast });
        }
        self.answer(them, mac, header.id, state::ASKS);
        if said.is_none() {
            self.greet_later(now, them.node);
        }
    }

    /// Whether a hello proves that its sender lives: it echoes what we sent not long ago, and not
    /// before the last time that we met this node.
    fn is_proof(&mut self, now: Instant, node: NodeId, said: &Said) -> bool {
        let freshest = self.freshest(now);
        let met = self.peers.get(&node).map_or(0, |peer| peer.proof_floor);
        let floor = met.max(freshest).max(self.proof_floor);
        let back = (self.announced as u32).wrapping_sub(said.echo);
        let echoed = self.announced.checked_sub(u64::from(back)).filter(|_| back != 0);
        let is_ours = said.has(state::ECHOES) && said.echo_nonce == self.me.nonce;
        let is_proof = is_ours && echoed.is_some_and(|number| number >= floor);
        self.counters.stale += u64::from(is_ours && !is_proof);
        is_proof
    }

    /// A peer that lives knows a generation of this node that is not below ours.
    fn refused_by(&mut self, said: &Said) {
        if said.known >= self.me.generation {
            self.tell(Event::Outdated { known: said.known });
        }
    }

    /// Says hello to whoever sent the announcement `id`, and echoes it.
    fn answer(&mut self, them: Incarnation, mac: MacAddress, id: u32, state: u16) {
        let echo = Some((them.nonce, id));
        self.offer(Work::Hello(Hello { node: them.node, mac, state, echo }));
    }

    /// An incarnation has proved that it lives.
    fn install(
        &mut self,
        now: Instant,
        them: Incarnation,
        announcement: Option<Seal>,
        mac: MacAddress,
        number: u64,
        sequence: u64,
    ) {
        let (me, node) = (self.me, them.node);
        let proof_floor = self.announced;
        let seals = self.keys.as_ref().zip(announcement).map(|(keys, announcement)| {
            let (to, from) = keys.cluster.pair(Purpose::Calls, &me, &them);
            Seals { announcement, to, from }
        });
        let mut session = Session::new(now, them, mac);
        session.seals = seals;
        session.window = Window::starting_at(sequence);

        if self.meet(now, node).is_none() {
            return;
        }
        let first_sequence = self.first_sequence;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        // A hello that the peer may go by has named the old session's sequence.
        let last_sequence = peer.session.as_ref().map_or(0, |old| old.sequence);
        session.sequence = first_sequence.max(last_sequence);
        peer.proof_floor = proof_floor;
        peer.greetings = None;
        peer.untold.clear();
        let candidate = peer.candidate.take();
        let held = core::mem::take(&mut peer.held);
        let is_same = candidate.as_ref().is_some_and(|it| it.incarnation == them);
        let announced = candidate.as_ref().filter(|_| is_same).map_or(number, |it| it.number);
        session.announced = Window::starting_at(announced.min(number));
        session.announced.note(number);
        if announced != number {
            session.announced.note(announced);
        }
        let old = peer.session.replace(session);
        let generation = them.generation;
        match old {
            Some(old) => {
                let gone = old.incarnation.generation;
                self.tell(Event::Restarted { node, old: gone, new: generation });
                self.drop_session(old);
                self.end_calls_to(now, node, gone);
            }
            None => self.tell(Event::Met { node, generation }),
        }
        if let Some((encoded, data)) = candidate.and_then(|it| it.broadcast) {
            self.usage.bytes -= data.len();
            if is_same {
                self.tell_broadcast(them, encoded, data);
            }
        }
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if let Some(session) = &mut peer.session {
            for mut gossip in held {
                gossip.id = session.next_gossip;
                session.next_gossip = gossip.id.wrapping_add(1);
                self.work.push_back(Work::Gossip(gossip));
            }
        }
        let waiting = peer.calls.iter().filter(|(_, call)| call.bound.is_none());
        let waiting: alloc::vec::Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.bind(now, node, number);
        }
    }

    /// A frame whose sender has this node's number. This node's own, which came back, says nothing.
    pub(crate) fn on_own_number(&mut self, frame: &Frame<'_>) {
        let header = frame.header();
        let Body::Broadcast { nonce } = header.body else { return };
        let them = Incarnation { node: header.node, generation: header.generation, nonce };
        if them == self.me {
            return;
        }
        let seal = self.keys.as_ref().map(|keys| keys.cluster.announcement(&them));
        if !open(seal.as_ref(), frame, &mut self.scratch) {
            self.counters.forged += 1;
        } else if self.events.len() >= self.limits.queue {
            self.counters.dropped += 1;
        } else {
            let (encoded, data) = (header.encoded, self.scratch.clone());
            let Incarnation { node, generation, .. } = them;
            let address = frame.source();
            self.tell(Event::Namesake { node, generation, address, encoded, data });
        }
    }

    fn tell_broadcast(&mut self, them: Incarnation, encoded: bool, data: alloc::vec::Vec<u8>) {
        if self.events.len() >= self.limits.queue {
            self.counters.dropped += 1;
            return;
        }
        let (from, generation) = (them.node, them.generation);
        self.tell(Event::Broadcast { from, generation, encoded, data });
    }

    /// Has a peer met that somebody waits for.
    pub(crate) fn greet(&mut self, now: Instant, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.greetings.is_none() {
            self.say_hello(node, 0);
            self.greet_later(now, node);
        }
    }

    /// Plans a hello, unless one is planned.
    fn greet_later(&mut self, now: Instant, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.greetings.is_none() {
            peer.greetings = Some(0);
            self.timers.set(now + FIRST_HELLO, Timer::Greet(node));
        }
    }

    /// A hello has gone unanswered for a while.
    pub(crate) fn greet_due(&mut self, now: Instant, node: NodeId) {
        let jitter = self.jitter.next();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(tries) = peer.greetings else { return };
        if tries >= MOST_GREETINGS {
            let held = peer.held.drain(..).map(|gossip| gossip.message.len());
            let candidate = peer.candidate.take().and_then(|it| it.broadcast);
            let bytes = held.sum::<usize>() + candidate.map_or(0, |(_, data)| data.len());
            self.usage.bytes -= bytes;
        }
        if !peer.is_awaited() {
            peer.greetings = None;
            return;
        }
        let tries = (tries + 1).min(MOST_GREETINGS);
        peer.greetings = Some(tries);
        let wait = back_off(FIRST_HELLO, tries, MOST_HELLO, jitter);
        self.timers.set(now + wait, Timer::Greet(node));
        self.say_hello(node, tries);
    }

    /// Asks a peer that was met whether it is still the same.
    pub(crate) fn probe(&mut self, node: NodeId) {
        let session = self.peers.get(&node).and_then(|peer| peer.session.as_ref());
        let probes = session.map_or(0, |session| session.probes);
        self.say_hello(node, probes);
    }

    /// Asks a node to prove that it lives: where it was last seen, or everywhere if that has
    /// failed so often.
    fn say_hello(&mut self, node: NodeId, tries: u32) {
        let Some(peer) = self.peers.get(&node) else { return };
        let candidate = peer.candidate.as_ref().map(|it| it.mac);
        let seen = candidate.or(peer.session.as_ref().map(|session| session.mac));
        let mac = seen.filter(|_| tries < 2).unwrap_or(MacAddress::BROADCAST);
        self.offer(Work::Hello(Hello { node, mac, state: state::ASKS, echo: None }));
    }
}
