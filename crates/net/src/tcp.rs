//! All connections: whose a segment is, handshakes, and what is left of connections that are over.
//! What is hard to get right in one connection is the [engine](crate::engine)'s.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use nile_abi::Instant;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::tcp::State;
use smoltcp::wire::{IpAddress, Ipv4Packet, TcpControl, TcpPacket, TcpRepr};

use crate::engine::Engine;
use crate::half_open::{HalfOpen, Handshakes};
use crate::memory::{Field, Memory, RECEIVE_BYTES, Slot};
use crate::segment::{IP_HEADER, bare, emit, number};
use crate::siphash;
use crate::stream::Stream;

/// Packets that may wait to be sent before connections make more.
const WAITING: usize = 64;

/// How long it is known that a connection is over (RFC 9293, 3.4.2), and of how many.
const TIME_WAIT: Duration = Duration::from_secs(60);
const MOST_WAITING: usize = 1024;

/// The largest segment of a peer that names none, and the least that is believed of one.
const USUAL_SEGMENT: u16 = 536;
const LEAST_SEGMENT: u16 = 48;

/// How often the clock of initial sequence numbers ticks (RFC 6528).
const TICK_NANOS: u64 = 4000;

/// Whose a connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// The other side's address.
    pub address: Ipv4Addr,
    /// Its port.
    pub port: u16,
    /// Our port.
    pub local: u16,
}

impl Peer {
    pub(crate) fn encode(self) -> u64 {
        u64::from(self.address.to_bits()) << 32 | u64::from(self.port) << 16 | u64::from(self.local)
    }

    pub(crate) fn decode(word: u64) -> Peer {
        let address = Ipv4Addr::from_bits((word >> 32) as u32);
        Peer { address, port: (word >> 16) as u16, local: word as u16 }
    }
}

/// What a peer has said in its SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// Bytes of the largest segment that it takes.
    pub segment: u16,
    /// By how much it shifts its window, if it does.
    pub scale: Option<u8>,
    /// Whether it understands selective acknowledgements.
    pub sack: bool,
}

impl Options {
    pub fn encode(self) -> u64 {
        let scale = self.scale.map_or(0, |scale| u64::from(scale.min(14)) + 1);
        u64::from(self.segment) | scale << 16 | u64::from(self.sack) << 24
    }

    pub fn decode(word: u64) -> Options {
        let scale = (word >> 16) as u8;
        Options {
            segment: word as u16,
            scale: scale.checked_sub(1).map(|scale| scale.min(14)),
            sack: word >> 24 & 1 == 1,
        }
    }
}

/// A connection as lists have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Its number.
    pub serial: u64,
    /// Whose it is.
    pub peer: Peer,
    /// How it stands.
    pub phase: crate::Phase,
    /// Bytes that have come.
    pub received: u64,
    /// Bytes that the peer has acknowledged.
    pub acknowledged: u64,
    /// Bytes that it has not acknowledged yet.
    pub in_flight: u64,
}

/// What was counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TcpCounts {
    /// Connections that have come about.
    pub accepted: u64,
    /// Connections whose engine was made anew of what an earlier one has left.
    pub resumed: u64,
    /// Connections that were given up as their memory was damaged.
    pub damaged: u64,
    /// Connections that have ended.
    pub ended: u64,
    /// Handshakes that could not be completed as there were too many connections.
    pub crowded: u64,
    /// Segments that are of no connection.
    pub strays: u64,
    /// Segments with a wrong checksum, or of a wrong form.
    pub malformed: u64,
}

/// A connection that is over, as far as late segments of it are to be answered.
struct Over {
    peer: Peer,
    /// Our next sequence number and the peer's.
    numbers: (u32, u32),
    until: Instant,
}

/// The connections of one address.
pub(crate) struct Tcp<'m> {
    memory: Memory<'m>,
    local: Ipv4Addr,
    max_packet: usize,
    listeners: Vec<u16>,
    handshakes: Handshakes<'m>,
    engines: Vec<Option<Engine>>,
    slots: BTreeMap<Peer, usize>,
    over: VecDeque<Over>,
    /// The connection that is the first to make packets next.
    turn: usize,
    out: VecDeque<Vec<u8>>,
    pub counts: TcpCounts,
}

impl<'m> Tcp<'m> {
    /// The connections that are in `memory`, each with an engine of its own.
    pub fn new(memory: Memory<'m>, local: Ipv4Addr, max_packet: usize, now: Instant) -> Tcp<'m> {
        let mut tcp = Tcp {
            memory,
            local,
            max_packet,
            listeners: Vec::new(),
            handshakes: Handshakes::of(memory),
            engines: (0..memory.slots()).map(|_| None).collect(),
            slots: BTreeMap::new(),
            over: VecDeque::new(),
            turn: 0,
            out: VecDeque::new(),
            counts: TcpCounts::default(),
        };
        for index in 0..memory.slots() {
            let slot = memory.slot(index);
            if slot.get(Field::Serial) == 0 {
                continue;
            }
            match tcp.start(index, &slot, now) {
                Some(()) => tcp.counts.resumed += 1,
                None => {
                    slot.set(Field::Serial, 0);
                    tcp.counts.damaged += 1;
                }
            }
        }
        tcp
    }

    /// Makes the engine of the connection in a slot.
    fn start(&mut self, index: usize, slot: &Slot<'m>, now: Instant) -> Option<()> {
        let peer = Peer::decode(slot.get(Field::Peer));
        if !slot.is_sound() || self.slots.contains_key(&peer) {
            return None;
        }
        let engine = Engine::resume(slot, self.local, self.max_packet, now)?;
        self.engines[index] = Some(engine);
        self.slots.insert(peer, index);
        Some(())
    }

    pub fn listen(&mut self, port: u16) {
        if !self.listeners.contains(&port) {
            self.listeners.push(port);
        }
    }

    pub fn listeners(&self) -> &[u16] {
        &self.listeners
    }

    pub fn half_open(&self) -> usize {
        self.handshakes.count()
    }

    pub fn streams(&self) -> impl Iterator<Item = Stream<'m>> + use<'m, '_> {
        self.slots.values().map(|index| Stream::of(self.memory.slot(*index)))
    }

    pub fn connections(&self) -> impl Iterator<Item = Connection> + use<'m, '_> {
        self.streams().map(|stream| Connection {
            serial: stream.serial(),
            peer: stream.peer(),
            phase: stream.phase(),
            received: stream.received(),
            acknowledged: stream.acknowledged(),
            in_flight: stream.produced().saturating_sub(stream.acknowledged()),
        })
    }

    /// Takes an IPv4 packet for us that has TCP in it; its header was checked.
    pub fn receive(&mut self, now: Instant, packet: &[u8]) {
        let ip = Ipv4Packet::new_unchecked(packet);
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        let parsed = TcpPacket::new_checked(ip.payload()).ok().and_then(|segment| {
            let (from, to) = (IpAddress::Ipv4(from), IpAddress::Ipv4(to));
            TcpRepr::parse(&segment, &from, &to, &ChecksumCapabilities::default()).ok()
        });
        let Some(segment) = parsed else {
            self.counts.malformed += 1;
            return;
        };
        let peer = Peer { address: from, port: segment.src_port, local: segment.dst_port };
        match self.slots.get(&peer) {
            Some(&index) => self.hand(now, index, packet),
            None => self.unknown(now, peer, packet, &segment),
        }
    }

    /// Gives a packet to the engine of its connection.
    fn hand(&mut self, now: Instant, index: usize, packet: &[u8]) {
        let slot = self.memory.slot(index);
        if let Some(engine) = &mut self.engines[index] {
            engine.receive(now, &slot, packet.to_vec());
            engine.publish(&slot);
        }
    }

    /// A segment of no connection: it begins one, ends one, or has no business here.
    fn unknown(&mut self, now: Instant, peer: Peer, packet: &[u8], segment: &TcpRepr<'_>) {
        let sequence = segment.seq_number.0 as u32;
        let is_new = segment.control == TcpControl::Syn && segment.ack_number.is_none();
        if let Some(place) = self.over.iter().position(|over| over.peer == peer) {
            let (ours, theirs) = self.over[place].numbers;
            let is_later = (sequence.wrapping_sub(theirs) as i32) > 0;
            if !(is_new && is_later) {
                if segment.control != TcpControl::Rst && segment.segment_len() > 0 {
                    let ports = (peer.local, peer.port);
                    self.send(peer, &bare(ports, TcpControl::None, ours, Some(theirs)));
                }
                return;
            }
            self.over.remove(place);
        }
        if is_new && self.listeners.contains(&peer.local) {
            return self.begin(now, peer, segment);
        }
        if let Some(it) = self.handshakes.find(peer) {
            let (theirs, ours) = it.sequences;
            let ahead = sequence.wrapping_sub(theirs.wrapping_add(1));
            let knows = segment.ack_number == Some(number(ours.wrapping_add(1)));
            match segment.control {
                TcpControl::Rst if ahead == 0 => self.handshakes.end(peer),
                // What is behind the last segment of the handshake may come before it.
                TcpControl::None | TcpControl::Psh | TcpControl::Fin
                    if knows && (ahead as usize) < RECEIVE_BYTES =>
                {
                    self.accept(now, peer, &it, packet, segment);
                }
                _ if knows => self.counts.strays += 1,
                _ => self.refuse(peer, segment),
            }
            return;
        }
        self.refuse(peer, segment);
    }

    /// Answers a SYN. One that comes again gets the same answer.
    fn begin(&mut self, now: Instant, peer: Peer, segment: &TcpRepr<'_>) {
        let theirs = segment.seq_number.0 as u32;
        let options = Options {
            segment: segment.max_seg_size.unwrap_or(USUAL_SEGMENT).max(LEAST_SEGMENT),
            scale: segment.window_scale,
            sack: segment.sack_permitted,
        };
        let known = self.handshakes.find(peer).filter(|it| it.sequences.0 == theirs);
        let it = known.unwrap_or_else(|| {
            // RFC 6528: what differs from peer to peer, and rises with time for the same one.
            let hash = siphash::hash(self.memory.secret(), [peer.encode(), 0]);
            let ours = (hash as u32).wrapping_add((now.as_nanos() / TICK_NANOS) as u32);
            HalfOpen { sequences: (theirs, ours), options }
        });
        self.handshakes.begin(now, peer, it);
        let ports = (peer.local, peer.port);
        let answer = TcpRepr {
            window_len: RECEIVE_BYTES as u16,
            // A window of less than 64 KiB needs no scale, but the peer's is allowed by ours.
            window_scale: it.options.scale.map(|_| 0),
            max_seg_size: Some((self.max_packet - 2 * IP_HEADER) as u16),
            sack_permitted: it.options.sack,
            ..bare(ports, TcpControl::Syn, it.sequences.1, Some(theirs.wrapping_add(1)))
        };
        self.send(peer, &answer);
    }

    /// The last segment of a handshake: the connection has come about.
    fn accept(
        &mut self,
        now: Instant,
        peer: Peer,
        it: &HalfOpen,
        packet: &[u8],
        segment: &TcpRepr<'_>,
    ) {
        let is_free = |index: &usize| self.memory.slot(*index).get(Field::Serial) == 0;
        let Some(index) = (0..self.memory.slots()).find(is_free) else {
            // The peer asks again, and there may be room by then.
            self.counts.crowded += 1;
            return;
        };
        let slot = self.memory.slot(index);
        let (theirs, ours) = it.sequences;
        let sequences = u64::from(theirs) << 32 | u64::from(ours);
        let record = [peer.encode(), sequences, it.options.encode()];
        slot.open(self.memory.next_serial(), record, segment.window_len.into());
        self.handshakes.end(peer);
        match self.start(index, &slot, now) {
            Some(()) => {
                self.counts.accepted += 1;
                self.hand(now, index, packet);
            }
            None => {
                slot.set(Field::Serial, 0);
                self.refuse(peer, segment);
            }
        }
    }

    /// Tells a peer that there is no such connection (RFC 9293, 3.5.2).
    fn refuse(&mut self, peer: Peer, segment: &TcpRepr<'_>) {
        self.counts.strays += 1;
        if segment.control == TcpControl::Rst || self.out.len() >= WAITING {
            return;
        }
        let ports = (peer.local, peer.port);
        let answer = match segment.ack_number {
            Some(ack) => bare(ports, TcpControl::Rst, ack.0 as u32, None),
            None => {
                let end = (segment.seq_number.0 as u32).wrapping_add(segment.segment_len() as u32);
                bare(ports, TcpControl::Rst, 0, Some(end))
            }
        };
        self.send(peer, &answer);
    }

    fn send(&mut self, peer: Peer, segment: &TcpRepr<'_>) {
        self.out.push_back(emit(self.local, peer.address, segment));
    }

    /// Does what is due and what users want.
    pub fn turn(&mut self, now: Instant) {
        self.over.retain(|over| over.until > now);
        let slots = self.memory.slots();
        for step in 0..slots {
            if self.out.len() >= WAITING {
                break;
            }
            let index = (self.turn + step) % slots;
            let slot = self.memory.slot(index);
            let Some(engine) = &mut self.engines[index] else { continue };
            engine.turn(&slot, now);
            self.out.extend(core::iter::from_fn(|| engine.transmit()));
            match engine.state() {
                State::Closed => self.end(index, None),
                State::TimeWait => self.end(index, Some(now + TIME_WAIT)),
                _ => {}
            }
        }
        self.turn = (self.turn + 1) % slots;
    }

    /// Frees a slot. Late segments of the connection are answered until then.
    fn end(&mut self, index: usize, until: Option<Instant>) {
        let slot = self.memory.slot(index);
        let peer = Peer::decode(slot.get(Field::Peer));
        if let Some(until) = until {
            if self.over.len() >= MOST_WAITING {
                self.over.pop_front();
            }
            self.over.push_back(Over { peer, numbers: Engine::last_numbers(&slot), until });
        }
        slot.set(Field::Serial, 0);
        self.engines[index] = None;
        self.slots.remove(&peer);
        self.counts.ended += 1;
    }

    /// The next packet that is to be sent, and where it goes.
    pub fn transmit(&mut self) -> Option<(Ipv4Addr, Vec<u8>)> {
        let packet = self.out.pop_front()?;
        Some((Ipv4Packet::new_unchecked(&packet[..]).dst_addr(), packet))
    }

    /// When something is to be done although nothing comes.
    pub fn next_due(&mut self, now: Instant) -> Option<Instant> {
        if !self.out.is_empty() {
            return Some(now);
        }
        let engines = self
            .slots
            .values()
            .filter_map(|index| self.engines.get_mut(*index)?.as_mut()?.next_due(now));
        engines.min()
    }
}
