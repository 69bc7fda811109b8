//! Frames out: what waits to be sent, and how it is written, where the device reads it.

use alloc::vec::Vec;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_seal::Seal;

use crate::checksum::Checksum;
use crate::endpoint::Endpoint;
use crate::keys::Incarnation;
use crate::peer::{Gossip, Seals, Session, State};
use crate::wire::{
    AUTHENTICATED_BYTES, Body, BootNonce, Header, Subject, TAG_BYTES, set_crc, state,
};

/// Something that waits to be sent.
#[derive(Debug)]
pub(crate) enum Work {
    /// Segments of a call of ours.
    Request(NodeId, u64),
    /// Segments of the reply to a call of a peer's.
    Reply(NodeId, u64),
    /// The reply to a request that is not even remembered.
    Refusal(Refusal),
    Acknowledge(Acknowledge),
    Gossip(Gossip),
    Broadcast {
        encoded: bool,
        data: Vec<u8>,
    },
    Hello(Hello),
}

/// A request that is answered at once.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub node: NodeId,
    pub id: u32,
    pub status: Status,
    pub source_core: CoreId,
    pub core: CoreId,
    pub service: u16,
}

/// What has come from a peer.
#[derive(Debug)]
pub(crate) struct Acknowledge {
    pub node: NodeId,
    pub subject: Subject,
    pub id: u32,
    pub segment: u16,
    pub bitmap: u32,
}

/// Who we are, to one node, or to all of which one is meant.
#[derive(Debug)]
pub(crate) struct Hello {
    pub node: NodeId,
    pub mac: MacAddress,
    pub state: u16,
    /// Whose announcement it answers.
    pub echo: Option<(BootNonce, u32)>,
}

/// A frame that is being written.
struct Draft<'a> {
    header: Header,
    to: MacAddress,
    from: MacAddress,
    data: &'a [u8],
}

impl Draft<'_> {
    /// Writes it to the front of `out`; its bytes, or nothing if there is no room.
    fn write(self, seal: Option<&Seal>, checksum: Checksum, out: &mut [u8]) -> Option<usize> {
        let bytes = HEADER_BYTES + self.header.bytes() + self.data.len();
        let whole = bytes + if seal.is_some() { TAG_BYTES } else { 0 };
        let out = out.get_mut(..whole)?;
        let data_at = self.header.emit(self.to, self.from, self.data.len() as u16, out);
        out[data_at..bytes].copy_from_slice(self.data);
        if let (Some(seal), Some(sequence)) = (seal, self.header.sequence) {
            // What is sealed has a CRC of zero, as it still is here.
            let (front, rest) = out.split_at_mut(data_at);
            let (data, tag) = rest.split_at_mut(bytes - data_at);
            let header = &mut [0; AUTHENTICATED_BYTES];
            let header = crate::wire::authenticated(self.from, &front[HEADER_BYTES..], header);
            tag.copy_from_slice(&seal.seal(sequence, header, data));
        }
        set_crc(&mut out[..bytes], checksum);
        Some(whole)
    }
}

/// The header of a frame in one piece, in plain form.
fn header(us: &Incarnation, id: u32, sequence: Option<u64>, body: Body) -> Header {
    let (node, generation) = (us.node, us.generation);
    Header { id, node, generation, encoded: false, segment: None, route: None, sequence, body }
}

/// The next sequence under the pair's key, if there is one.
fn next_sequence(seals: &Option<Seals>, sequence: &mut u64) -> Option<u64> {
    let next = *sequence;
    seals.as_ref().map(|_| {
        *sequence += 1;
        next
    })
}

impl Session {
    /// The header of the next frame to this peer.
    fn header(&mut self, us: &Incarnation, id: u32, body: Body) -> Header {
        header(us, id, next_sequence(&self.seals, &mut self.sequence), body)
    }
}

impl Endpoint {
    /// Writes the next frame to the front of `out`, which has room for the link's largest; its
    /// bytes, Ethernet header included. `None` if there is none to send.
    pub fn transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        if out.len() < self.max_frame {
            return None;
        }
        while let Some(work) = self.work.pop_front() {
            let written = match work {
                Work::Request(node, number) => self.write_request(now, node, number, out),
                Work::Reply(node, number) => self.write_reply(node, number, out),
                Work::Refusal(refusal) => self.write_refusal(&refusal, out),
                Work::Acknowledge(ack) => self.write_acknowledge(&ack, out),
                Work::Gossip(gossip) => self.write_gossip(now, gossip, out),
                Work::Broadcast { encoded, data } => {
                    self.usage.bytes -= data.len();
                    let body = Body::Broadcast { nonce: self.me.nonce };
                    self.write_announcement(now, MacAddress::BROADCAST, body, encoded, &data, out)
                }
                Work::Hello(hello) => self.write_hello(now, &hello, out),
            };
            if let Some(bytes) = written {
                self.counters.sent += 1;
                return Some(bytes);
            }
        }
        None
    }

    fn write_request(
        &mut self,
        now: Instant,
        node: NodeId,
        number: u64,
        out: &mut [u8],
    ) -> Option<usize> {
        let peer = self.peers.get_mut(&node)?;
        let oldest = peer.oldest();
        let (session, call) = (peer.session.as_mut()?, peer.calls.get_mut(&number)?);
        if call.bound != Some(session.incarnation.generation) {
            call.is_queued = false;
            return None;
        }
        let Some(index) = call.message.next() else {
            call.is_queued = false;
            return None;
        };
        let patience = call.deadline.since(now).as_micros().clamp(1, u128::from(u32::MAX)) as u32;
        let body = Body::Request {
            to: node,
            generation: session.incarnation.generation,
            source_core: call.source_core,
            core: call.core,
            service: call.service,
            method: call.method,
            patience,
            oldest: oldest as u32,
            asker: call.asker,
        };
        let mut header = session.header(&self.me, number as u32, body);
        let (data, segment) = call.message.segment(index);
        (header.encoded, header.segment) = (call.encoded, segment);
        call.sent.get_or_insert(now);
        self.counters.retransmitted += u64::from(call.tries > 0);
        let draft = Draft { header, to: session.mac, from: self.mac, data };
        let seal = session.seals.as_ref().map(|seals| &seals.to);
        let written = draft.write(seal, self.checksum, out);
        call.is_queued = call.message.count() > 1;
        let (is_queued, probe) = (call.is_queued, session.should_probe(now));
        // What the request says of ended calls need not be said again.
        let told = peer.untold.partition_point(|number| *number < oldest);
        peer.untold.drain(..told);
        if is_queued {
            self.work.push_front(Work::Request(node, number));
        }
        if probe {
            self.probe(node);
        }
        written
    }

    fn write_reply(&mut self, node: NodeId, number: u64, out: &mut [u8]) -> Option<usize> {
        let session = self.peers.get_mut(&node)?.session.as_mut()?;
        let entry = session.served.entries.get_mut(&number)?;
        let State::Replied(answer) = &mut entry.state else { return None };
        let Some(index) = answer.message.next() else {
            answer.is_queued = false;
            return None;
        };
        let (source_core, core, service) = (entry.core, entry.source_core, entry.service);
        let (status, encoded) = (answer.status.code(), answer.encoded);
        let generation = session.incarnation.generation;
        let body = Body::Reply { to: node, generation, source_core, core, service, status };
        let sequence = next_sequence(&session.seals, &mut session.sequence);
        let mut header = header(&self.me, number as u32, sequence, body);
        let (data, segment) = answer.message.segment(index);
        (header.encoded, header.segment) = (encoded, segment);
        self.counters.retransmitted += u64::from(answer.tries > 0);
        let draft = Draft { header, to: session.mac, from: self.mac, data };
        let seal = session.seals.as_ref().map(|seals| &seals.to);
        let written = draft.write(seal, self.checksum, out);
        answer.is_queued = answer.message.count() > 1;
        if answer.is_queued {
            self.work.push_front(Work::Reply(node, number));
        }
        written
    }

    fn write_refusal(&mut self, it: &Refusal, out: &mut [u8]) -> Option<usize> {
        let session = self.peers.get_mut(&it.node)?.session.as_mut()?;
        let body = Body::Reply {
            to: it.node,
            generation: session.incarnation.generation,
            source_core: it.core,
            core: it.source_core,
            service: it.service,
            status: it.status.code(),
        };
        let header = session.header(&self.me, it.id, body);
        let draft = Draft { header, to: session.mac, from: self.mac, data: &[] };
        draft.write(session.seals.as_ref().map(|seals| &seals.to), self.checksum, out)
    }

    fn write_acknowledge(&mut self, it: &Acknowledge, out: &mut [u8]) -> Option<usize> {
        let session = self.peers.get_mut(&it.node)?.session.as_mut()?;
        let body = Body::Acknowledge {
            to: it.node,
            generation: session.incarnation.generation,
            id: it.id,
            bitmap: it.bitmap,
            subject: it.subject,
            segment: it.segment,
        };
        let header = session.header(&self.me, 0, body);
        let draft = Draft { header, to: session.mac, from: self.mac, data: &[] };
        draft.write(session.seals.as_ref().map(|seals| &seals.to), self.checksum, out)
    }

    fn write_gossip(&mut self, now: Instant, mut it: Gossip, out: &mut [u8]) -> Option<usize> {
        let forgotten = it.message.len();
        let Some(session) = self.peers.get_mut(&it.node).and_then(|peer| peer.session.as_mut())
        else {
            self.usage.bytes -= forgotten;
            return None;
        };
        let Some(index) = it.message.next() else {
            self.usage.bytes -= forgotten;
            return None;
        };
        let mut header =
            session.header(&self.me, it.id, Body::Gossip { to: it.node, core: it.core });
        let (data, segment) = it.message.segment(index);
        (header.encoded, header.segment) = (it.encoded, segment);
        let draft = Draft { header, to: session.mac, from: self.mac, data };
        let seal = session.seals.as_ref().map(|seals| &seals.to);
        let written = draft.write(seal, self.checksum, out);
        let probe = session.should_probe(now);
        // Nobody acknowledges gossip: what was sent counts as come.
        it.message.acknowledge(index as u16 + 1, 0);
        let node = it.node;
        if it.message.is_complete() {
            self.usage.bytes -= forgotten;
        } else {
            self.work.push_front(Work::Gossip(it));
        }
        if probe {
            self.probe(node);
        }
        written
    }

    fn write_hello(&mut self, now: Instant, it: &Hello, out: &mut [u8]) -> Option<usize> {
        let session = self.peers.get(&it.node).and_then(|peer| peer.session.as_ref());
        let known = session.map_or(Generation(0), |session| session.incarnation.generation);
        let sequence = session.map_or(self.first_sequence, |session| session.sequence);
        let (echo_nonce, echo) = it.echo.unwrap_or_default();
        let state = it.state | if it.echo.is_some() { state::ECHOES } else { 0 };
        let nonce = self.me.nonce;
        let body = Body::Hello { to: it.node, known, state, echo, echo_nonce, sequence, nonce };
        self.write_announcement(now, it.mac, body, false, &[], out)
    }

    /// Writes what is sealed with the announcement key.
    fn write_announcement(
        &mut self,
        now: Instant,
        to: MacAddress,
        body: Body,
        encoded: bool,
        data: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        self.freshest(now);
        let number = self.announced;
        self.announced += 1;
        let sequence = self.keys.as_ref().map(|_| number);
        let mut header = header(&self.me, number as u32, sequence, body);
        header.encoded = encoded;
        let seal = self.keys.as_ref().map(|keys| &keys.announcement);
        Draft { header, to, from: self.mac, data }.write(seal, self.checksum, out)
    }

    /// Puts a message's next segments in the queue, unless they are there.
    pub(crate) fn queue_request(&mut self, node: NodeId, number: u64) {
        let call = self.peers.get_mut(&node).and_then(|peer| peer.calls.get_mut(&number));
        if let Some(call) = call
            && !core::mem::replace(&mut call.is_queued, true)
        {
            self.work.push_back(Work::Request(node, number));
        }
    }
}
