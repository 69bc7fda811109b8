//! Frames in: what is not ours, not whole, not genuine or not new changes a counter and nothing
//! else.

use alloc::vec::Vec;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId};
use nile_seal::Seal;

use crate::callee::Asked;
use crate::caller::Reply;
use crate::endpoint::Endpoint;
use crate::event::Event;
use crate::greet::Said;
use crate::message::{Incoming, Taken};

use crate::settings::HOLD;
use crate::timers::Timer;
use crate::wire::{AUTHENTICATED_BYTES, Body, Frame, Header, Subject, authenticated};

/// Segmented gossip messages of one peer that are put together at a time.
const MOST_PARTIAL: usize = 4;

/// Opens a frame's data into `out`; whether they are genuine. Without a seal they are taken as
/// they are.
pub(crate) fn open(seal: Option<&Seal>, frame: &Frame<'_>, out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(frame.data());
    let (Some(seal), Some(sequence)) = (seal, frame.header().sequence) else { return true };
    let covered = &mut [0; AUTHENTICATED_BYTES];
    let covered = authenticated(frame.source(), frame.header_bytes(), covered);
    seal.open(sequence, covered, out, frame.tag())
}

/// For whom a frame is, and for which incarnation of it.
fn destination(body: &Body) -> Option<(NodeId, Option<Generation>)> {
    match *body {
        Body::Broadcast { .. } => None,
        Body::Hello { to, .. } => (to.0 != 0).then_some((to, None)),
        Body::Gossip { to, .. } => Some((to, None)),
        Body::Request { to, generation, .. } => {
            Some((to, (generation.0 != 0).then_some(generation)))
        }
        Body::Reply { to, generation, .. } | Body::Acknowledge { to, generation, .. } => {
            Some((to, Some(generation)))
        }
    }
}

impl Endpoint {
    /// Takes an Ethernet frame without its check sequence. Never fails: what is wrong is counted.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.counters.received += 1;
        if frame.len() > self.max_frame {
            self.counters.oversized += 1;
            return;
        }
        let Ok(frame) = Frame::parse(frame) else {
            self.counters.malformed += 1;
            return;
        };
        let header = frame.header();
        let is_for_us = [self.mac, MacAddress::BROADCAST].contains(&frame.destination());
        let to = destination(&header.body);
        if !is_for_us || to.is_some_and(|(node, _)| node != self.me.node) {
            self.counters.elsewhere += 1;
            return;
        }
        let cause = match (&self.keys, header.sequence) {
            (Some(_), None) => Some(&mut self.counters.unsealed),
            (None, Some(_)) => Some(&mut self.counters.sealed),
            _ if header.route.is_some() => Some(&mut self.counters.routed),
            _ if !frame.is_intact(self.checksum) => Some(&mut self.counters.corrupt),
            _ => None,
        };
        if let Some(cause) = cause {
            *cause += 1;
            return;
        }
        if header.node == self.me.node {
            self.counters.own += 1;
            return self.on_own_number(&frame);
        }
        match header.body {
            Body::Broadcast { nonce } => self.on_announcement(now, &frame, nonce, None),
            Body::Hello { known, state, echo, echo_nonce, sequence, nonce, .. } => {
                let said = Said { known, state, echo, echo_nonce, sequence };
                self.on_announcement(now, &frame, nonce, Some(said));
            }
            _ => self.on_message(now, &frame, to.and_then(|(_, generation)| generation)),
        }
    }

    /// A frame between two that have met.
    fn on_message(&mut self, now: Instant, frame: &Frame<'_>, us: Option<Generation>) {
        let header = frame.header();
        let peer = self.peers.get_mut(&header.node);
        let Some(session) = peer.and_then(|peer| peer.session.as_mut()) else {
            self.counters.unmet += 1;
            return;
        };
        let is_gone = us.is_some_and(|us| us != self.me.generation);
        if is_gone || session.incarnation.generation != header.generation {
            self.counters.stale += 1;
            return;
        }
        if header.sequence.is_some_and(|sequence| !session.window.is_new(sequence)) {
            self.counters.replayed += 1;
            return;
        }
        let seal = session.seals.as_ref().map(|seals| &seals.from);
        let mut data = core::mem::take(&mut self.scratch);
        if open(seal, frame, &mut data) {
            if let Some(sequence) = header.sequence {
                session.window.note(sequence);
            }
            session.hear(now, frame.source());
            session.is_confirmed = true;
            self.counters.accepted += 1;
            self.on_genuine(now, header, &data);
        } else {
            self.counters.forged += 1;
        }
        self.scratch = data;
    }

    fn on_genuine(&mut self, now: Instant, header: &Header, data: &[u8]) {
        let &Header { id, node, encoded, segment, .. } = header;
        match header.body {
            Body::Request {
                source_core, core, service, method, patience, oldest, asker, ..
            } => {
                let asked = Asked {
                    node,
                    id,
                    source_core,
                    core,
                    service,
                    method,
                    patience,
                    oldest,
                    asker,
                    encoded,
                    segment,
                };
                self.on_request(now, &asked, data);
            }
            Body::Reply { source_core, core, service, status, .. } => {
                let reply =
                    Reply { node, id, source_core, core, service, status, encoded, segment };
                self.on_reply(now, &reply, data);
            }
            Body::Gossip { core, .. } => self.on_gossip(now, header, core, data),
            Body::Acknowledge { id, bitmap, subject, segment, .. } => match subject {
                Subject::Ended => self.calls_ended(node, id, bitmap),
                Subject::Request => self.request_acknowledged(now, node, id, segment, bitmap),
                Subject::Reply => self.reply_acknowledged(now, node, id, segment, bitmap),
            },
            Body::Broadcast { .. } | Body::Hello { .. } => {}
        }
    }

    fn on_gossip(&mut self, now: Instant, header: &Header, core: CoreId, data: &[u8]) {
        let Some(segment) = header.segment else {
            return self.tell_gossip(header, core, data.to_vec());
        };
        let peer = self.peers.get_mut(&header.node);
        let Some(session) = peer.and_then(|peer| peer.session.as_mut()) else { return };
        let timer = Timer::Partial(header.node, header.id);
        if !session.partial.contains_key(&header.id) {
            let bytes = self.usage.bytes + segment.total as usize;
            let has_room = session.partial.len() < MOST_PARTIAL && bytes <= self.limits.bytes;
            let message = Incoming::new(segment, data.len()).filter(|_| has_room);
            let Some(message) = message else {
                self.counters.dropped += 1;
                return;
            };
            self.usage.bytes = bytes;
            session.partial.insert(header.id, (message, now + HOLD));
            self.timers.set(now + HOLD, timer);
        }
        let Some((message, due)) = session.partial.get_mut(&header.id) else { return };
        let due = *due;
        if message.take(segment, data) == Taken::Contradicts {
            self.counters.unexpected += 1;
        } else if message.is_complete()
            && let Some((message, _)) = session.partial.remove(&header.id)
        {
            self.timers.clear(due, timer);
            self.usage.bytes -= message.len();
            self.tell_gossip(header, core, message.into_data());
        }
    }

    /// Gossip of which the rest has not come.
    pub(crate) fn partial_due(&mut self, now: Instant, node: NodeId, id: u32) {
        let peer = self.peers.get_mut(&node);
        let Some(session) = peer.and_then(|peer| peer.session.as_mut()) else { return };
        if session.partial.get(&id).is_some_and(|(_, due)| *due <= now)
            && let Some((message, _)) = session.partial.remove(&id)
        {
            self.usage.bytes -= message.len();
        }
    }

    fn tell_gossip(&mut self, header: &Header, core: CoreId, data: Vec<u8>) {
        if self.events.len() >= self.limits.queue {
            self.counters.dropped += 1;
            return;
        }
        let &Header { node: from, generation, encoded, .. } = header;
        self.tell(Event::Gossip { from, generation, core, encoded, data });
    }

    /// Does what is due by now.
    pub fn on_time(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Call(node, number) => self.call_due(now, node, number),
                Timer::Entry(node, number) => self.entry_due(now, node, number),
                Timer::Greet(node) => self.greet_due(now, node),
                Timer::Tell(node) => self.tell_ended(node),
                Timer::Partial(node, id) => self.partial_due(now, node, id),
            }
        }
    }
}
