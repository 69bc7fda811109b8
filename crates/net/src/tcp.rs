//! All connections: whose a segment is, handshakes, and what is left of connections that are over.
//! What is hard to get right in one connection is the [engine](crate::engine)'s.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use nile_abi::Instant;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::tcp::State;
use smoltcp::wire::{TcpControl, TcpPacket, TcpRepr};

use crate::engine::Engine;
use crate::half_open::{HalfOpen, Handshakes};
use crate::memory::{Field, Memory, RECEIVE_BYTES, Slot};
use crate::opening::{Openings, Progress};
use crate::own::Own;
use crate::peer::{Options, Peer};
use crate::segment::{TCP_HEADER, bare, emit, header_for, number, target_of};
use crate::siphash;
use crate::stream::{SHUT, Stream};

/// Packets that may wait to be sent before connections make more.
const WAITING: usize = 64;

/// How long it is known that a connection is over (RFC 9293, 3.4.2), and of how many.
const TIME_WAIT: Duration = Duration::from_secs(60);
const MOST_WAITING: usize = 1024;

/// Ports that connections are opened from (RFC 6335, 6).
pub const OWN_PORTS: core::ops::Range<u16> = 49152..65535;

/// How often the clock of initial sequence numbers ticks (RFC 6528).
const TICK_NANOS: u64 = 4000;

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
    /// Connections that were opened from here.
    pub opened: u64,
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

/// How long after its begin a stack says nothing to whoever asks for a port that nobody listens to:
/// the listeners of an earlier incarnation come back meanwhile, and a SYN comes again.
const SETTLES: Duration = Duration::from_secs(1);

/// The connections of an interface.
pub(crate) struct Tcp<'m> {
    memory: Memory<'m>,
    own: Own,
    listeners: Vec<u16>,
    /// When those who listen are there.
    settled: Instant,
    handshakes: Handshakes<'m>,
    engines: Vec<Option<Engine>>,
    slots: BTreeMap<Peer, usize>,
    over: VecDeque<Over>,
    openings: Openings,
    /// Where a port is looked for that nobody has.
    next_port: u16,
    /// Connections that peers have opened, and nobody has taken: slot and number.
    fresh: VecDeque<(usize, u64)>,
    /// The connection that is the first to make packets next.
    turn: usize,
    out: VecDeque<Vec<u8>>,
    pub counts: TcpCounts,
}

impl<'m> Tcp<'m> {
    /// The connections that are in `memory`, each with an engine of its own.
    pub fn new(memory: Memory<'m>, own: Own, now: Instant) -> Tcp<'m> {
        let mut tcp = Tcp {
            memory,
            own,
            listeners: Vec::new(),
            settled: now + SETTLES,
            handshakes: Handshakes::of(memory),
            engines: (0..memory.slots()).map(|_| None).collect(),
            slots: BTreeMap::new(),
            over: VecDeque::new(),
            openings: Openings::default(),
            next_port: OWN_PORTS.start,
            fresh: VecDeque::new(),
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
                Some(()) => {
                    tcp.counts.resumed += 1;
                    tcp.fresh.push_back((index, slot.get(Field::Serial)));
                }
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
        let peer = Peer::decode(slot.peer());
        if !slot.is_sound() || self.slots.contains_key(&peer) {
            return None;
        }
        let engine = Engine::resume(slot, &self.own, now)?;
        self.engines[index] = Some(engine);
        self.slots.insert(peer, index);
        Some(())
    }

    /// The addresses are others from now on: connections of those that are no more are over.
    pub fn move_to(&mut self, own: Own) {
        let former = core::mem::replace(&mut self.own, own);
        let stays = |peer: Peer| former.to(peer.address) == own.to(peer.address);
        for index in 0..self.engines.len() {
            let peer = Peer::decode(self.memory.slot(index).peer());
            if self.engines[index].is_some() && !stays(peer) {
                self.end(index, None);
            }
        }
        self.handshakes.retain(stays);
        self.over.retain(|it| stays(it.peer));
        let source_stays = |to| former.to(to) == own.to(to);
        self.out.retain(|packet| source_stays(target_of(packet)));
    }

    pub fn listen(&mut self, port: u16) {
        if !self.listeners.contains(&port) {
            self.listeners.push(port);
        }
    }

    pub fn unlisten(&mut self, port: u16) {
        self.listeners.retain(|it| *it != port);
    }

    pub fn listeners(&self) -> &[u16] {
        &self.listeners
    }

    /// A connection that a peer has opened and nobody has taken yet. Those that an earlier
    /// incarnation has left come first, whoever has opened them.
    pub fn next_fresh(&mut self) -> Option<Stream<'m>> {
        loop {
            let (index, serial) = self.fresh.pop_front()?;
            let slot = self.memory.slot(index);
            if slot.get(Field::Serial) == serial {
                return Some(Stream::of(slot));
            }
        }
    }

    /// Begins to open a connection. `None`: all ports to this peer are in use.
    pub fn connect(&mut self, now: Instant, to: SocketAddr) -> Option<Peer> {
        let (address, port) = (to.ip().to_canonical(), to.port());
        for _ in OWN_PORTS {
            let local = self.next_port;
            self.next_port = if local + 1 == OWN_PORTS.end { OWN_PORTS.start } else { local + 1 };
            let peer = Peer { address, port, local };
            let is_over = self.over.iter().any(|over| over.peer == peer);
            let is_known = self.slots.contains_key(&peer) || self.openings.has(peer);
            if !is_over && !is_known && !self.listeners.contains(&local) {
                let ours = self.initial_number(now, peer);
                self.openings.begin(now, peer, ours);
                return Some(peer);
            }
        }
        None
    }

    /// How the attempt to open a connection stands.
    pub fn progress(&mut self, peer: Peer) -> Progress<'m> {
        match self.slots.get(&peer) {
            Some(index) => Progress::Open(Stream::of(self.memory.slot(*index))),
            None => self.openings.progress(peer),
        }
    }

    /// RFC 6528: what differs from peer to peer, and rises with time for the same one.
    fn initial_number(&self, now: Instant, peer: Peer) -> u32 {
        let [ports, high, low] = peer.encode();
        let secret = self.memory.secret();
        let hash = siphash::hash(secret, [siphash::hash(secret, [high, low]), ports]);
        (hash as u32).wrapping_add((now.as_nanos() / TICK_NANOS) as u32)
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

    /// Takes a packet for us with a segment behind so many bytes of its header, which was checked.
    pub fn receive(&mut self, now: Instant, from: IpAddr, packet: &[u8], header: usize) {
        let to = self.own.to(from);
        let parsed = TcpPacket::new_checked(&packet[header..]).ok().and_then(|segment| {
            let checksums = ChecksumCapabilities::default();
            TcpRepr::parse(&segment, &from.into(), &to.into(), &checksums).ok()
        });
        let Some(segment) = parsed else {
            self.counts.malformed += 1;
            return;
        };
        let packet = (packet, header);
        let peer = Peer { address: from, port: segment.src_port, local: segment.dst_port };
        match self.slots.get(&peer) {
            Some(&index) => self.hand(now, index, packet),
            None => self.unknown(now, peer, packet, &segment),
        }
    }

    /// Gives a packet to the engine of its connection.
    fn hand(&mut self, now: Instant, index: usize, (packet, header): (&[u8], usize)) {
        let slot = self.memory.slot(index);
        if let Some(engine) = &mut self.engines[index] {
            engine.receive(now, &slot, packet.to_vec(), header);
            engine.publish(&slot);
        }
    }

    /// Hears that nobody takes what a packet of ours said, of which this is quoted: that ends the
    /// attempt to open a connection, and nothing else (RFC 1122, 4.2.3.9; RFC 5927, 5.2).
    pub fn unreachable(&mut self, address: IpAddr, quoted: &[u8]) {
        let Some([a, b, c, d, sequence @ ..]) = quoted.first_chunk::<8>() else { return };
        let (local, port) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let peer = Peer { address, port, local };
        if self.openings.find(peer).is_some_and(|it| it.ours == u32::from_be_bytes(*sequence)) {
            self.openings.refuse(peer);
        }
    }

    /// A segment of no connection: it begins one, ends one, or has no business here.
    fn unknown(&mut self, now: Instant, peer: Peer, packet: (&[u8], usize), segment: &TcpRepr<'_>) {
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
        if let Some(opening) = self.openings.find(peer) {
            return self.answered(now, peer, opening.ours, segment);
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
        match is_new && now < self.settled {
            true => self.counts.strays += 1,
            false => self.refuse(peer, segment),
        }
    }

    /// Answers a SYN. One that comes again gets the same answer.
    fn begin(&mut self, now: Instant, peer: Peer, segment: &TcpRepr<'_>) {
        let theirs = segment.seq_number.0 as u32;
        let options = Options::of(segment);
        let known = self.handshakes.find(peer).filter(|it| it.sequences.0 == theirs);
        let it = known.unwrap_or_else(|| HalfOpen {
            sequences: (theirs, self.initial_number(now, peer)),
            options,
        });
        self.handshakes.begin(now, peer, it);
        let answer = TcpRepr {
            // A window of less than 64 KiB needs no scale, but the peer's is allowed by ours.
            window_scale: it.options.scale.map(|_| 0),
            sack_permitted: it.options.sack,
            ..self.syn(peer, it.sequences.1, Some(theirs.wrapping_add(1)))
        };
        self.send(peer, &answer);
    }

    /// A SYN of ours, with all that we can.
    fn syn(&self, peer: Peer, ours: u32, acknowledges: Option<u32>) -> TcpRepr<'static> {
        let most = self.own.most(peer.address) - header_for(peer.address) - TCP_HEADER;
        TcpRepr {
            window_len: RECEIVE_BYTES as u16,
            window_scale: Some(0),
            max_seg_size: Some(most as u16),
            sack_permitted: true,
            ..bare((peer.local, peer.port), TcpControl::Syn, ours, acknowledges)
        }
    }

    /// What comes of a connection that is being opened.
    fn answered(&mut self, now: Instant, peer: Peer, ours: u32, segment: &TcpRepr<'_>) {
        let next = ours.wrapping_add(1);
        let knows = segment.ack_number == Some(number(next));
        match segment.control {
            TcpControl::Rst if knows => return self.openings.refuse(peer),
            TcpControl::Syn if knows => {}
            // Both sides at once, and what an earlier connection has left.
            _ if knows || segment.ack_number.is_none() => return self.counts.strays += 1,
            _ => return self.refuse(peer, segment),
        }
        let Some(index) = self.free_slot() else { return };
        let (theirs, options) = (segment.seq_number.0 as u32, Options::of(segment));
        // A SYN's window is not shifted, all others are.
        let window = segment.window_len >> options.scale.unwrap_or(0);
        match self.open(now, index, peer, (theirs, ours), options, window) {
            Some(()) => {
                self.openings.end(peer);
                self.counts.opened += 1;
                let ack = TcpRepr {
                    window_len: RECEIVE_BYTES as u16,
                    ..bare(
                        (peer.local, peer.port),
                        TcpControl::None,
                        next,
                        Some(theirs.wrapping_add(1)),
                    )
                };
                self.send(peer, &ack);
            }
            None => self.openings.refuse(peer),
        }
    }

    /// The first slot that is free. The peer asks again if there is none, and there may be one by
    /// then.
    fn free_slot(&mut self) -> Option<usize> {
        let is_free = |index: &usize| self.memory.slot(*index).get(Field::Serial) == 0;
        let index = (0..self.memory.slots()).find(is_free);
        self.counts.crowded += u64::from(index.is_none());
        index
    }

    /// Makes a connection that has just come about, with the peer's initial sequence number before
    /// ours.
    fn open(
        &mut self,
        now: Instant,
        index: usize,
        peer: Peer,
        (theirs, ours): (u32, u32),
        options: Options,
        window: u16,
    ) -> Option<()> {
        let slot = self.memory.slot(index);
        let sequences = u64::from(theirs) << 32 | u64::from(ours);
        let said = [sequences, options.encode()];
        slot.open(self.memory.next_serial(), peer.encode(), said, window.into());
        let started = self.start(index, &slot, now);
        if started.is_none() {
            slot.set(Field::Serial, 0);
        }
        started
    }

    /// The last segment of a handshake: the connection has come about.
    fn accept(
        &mut self,
        now: Instant,
        peer: Peer,
        it: &HalfOpen,
        packet: (&[u8], usize),
        segment: &TcpRepr<'_>,
    ) {
        let Some(index) = self.free_slot() else { return };
        let opened = self.open(now, index, peer, it.sequences, it.options, segment.window_len);
        // Not before: whoever dies in between still knows of it.
        self.handshakes.end(peer);
        match opened {
            Some(()) => {
                self.counts.accepted += 1;
                self.fresh.push_back((index, self.memory.slot(index).get(Field::Serial)));
                self.hand(now, index, packet);
            }
            None => self.refuse(peer, segment),
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
        self.out.push_back(emit(self.own.to(peer.address), peer.address, segment));
    }

    /// Does what is due and what users want.
    pub fn turn(&mut self, now: Instant) {
        self.over.retain(|over| over.until > now);
        while let Some((peer, ours)) = self.openings.next_due(now) {
            let syn = self.syn(peer, ours, None);
            self.send(peer, &syn);
        }
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
                // What has come is still to be read.
                State::Closed | State::TimeWait if is_read_on(&slot) => {}
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
        let peer = Peer::decode(slot.peer());
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
    pub fn transmit(&mut self) -> Option<(IpAddr, Vec<u8>)> {
        let packet = self.out.pop_front()?;
        Some((target_of(&packet), packet))
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
        engines.chain(self.openings.due()).min()
    }
}

/// Whether all of a connection is over but for its user, who reads what has come.
fn is_read_on(slot: &Slot<'_>) -> bool {
    slot.get(Field::Closed) == SHUT
        && slot.get(Field::Finished) != 0
        && slot.get(Field::Acknowledged) >= slot.get(Field::Produced)
}
