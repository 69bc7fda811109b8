//! The state machine of one connection: a stock smoltcp socket, alone in an interface of its own,
//! so that neither a segment nor a deadline has to be looked for among others (docs/network.md).
//!
//! It is made of the connection's slot by replaying a handshake to it, whether the connection has
//! just come about or its engine was lost. The socket draws its own initial sequence number. Ours
//! differs from it by a constant, which is added to what leaves and taken from what comes.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nile_abi::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration as EngineDuration;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Packet, TcpControl, TcpPacket, TcpRepr};

use crate::memory::{Field, RECEIVE_BYTES, SEND_BYTES, Slot};
use crate::own::Own;
use crate::peer::{Options, Peer};
use crate::queues::Queues;
use crate::segment::{bare, emit, header_for, number};
use crate::stream::{ABORTED, CLOSED, SHUT};
use crate::{engine_time, from_engine_time};

/// How long a peer may acknowledge nothing before the connection is given up.
const PATIENCE: EngineDuration = EngineDuration::from_secs(120);

/// How long nothing may be said before the peer is asked whether it is still there.
const ASKED: EngineDuration = EngineDuration::from_secs(45);

/// How long a peer may neither take what is left nor end, once the user has closed the connection.
const LINGERS: Duration = Duration::from_secs(60);

/// How long an acknowledgement may wait for more to acknowledge.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// Packets that an engine makes in one turn: others are to have theirs.
const BURST: usize = 16;

/// One connection at work.
pub struct Engine {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    wire: Queues,
    local: IpAddr,
    /// Bytes before the segments of its packets.
    header: usize,
    peer: Peer,
    /// Our sequence numbers less those of the socket.
    shift: u32,
    /// Offsets: how much the socket has been given to send, and has handed over.
    pushed: u64,
    taken: u64,
    /// Our highest sequence number that has left.
    sent: u32,
    /// The peer's window as it said it last.
    window: u16,
    /// Once the user has closed it: since when the peer has acknowledged no more than this.
    lingers: Option<(Instant, u64)>,
}

impl Engine {
    /// The engine of the connection in a slot, whose [`is_sound`](Slot::is_sound) holds. `None` if
    /// it cannot be brought to that state, which other versions of smoltcp may be to blame for.
    pub fn resume(slot: &Slot<'_>, own: &Own, now: Instant) -> Option<Engine> {
        let peer = Peer::decode(slot.peer());
        let (local, max_packet) = (own.to(peer.address), own.most(peer.address));
        let options = Options::decode(slot.get(Field::Options));
        let sequences = slot.get(Field::Sequences);
        let (consumed, acknowledged) = (slot.get(Field::Consumed), slot.get(Field::Acknowledged));
        // The socket's stream begins where this one has got to.
        let theirs = ((sequences >> 32) as u32).wrapping_add(consumed as u32);
        let ours = (sequences as u32).wrapping_add(acknowledged as u32);

        let mut wire = Queues::of_packets(max_packet);
        let mut interface =
            Interface::new(Config::new(HardwareAddress::Ip), &mut wire, engine_time(now));
        interface.update_ip_addrs(|own| {
            let _ = own.push(IpCidr::new(local.into(), if local.is_ipv4() { 32 } else { 128 }));
        });
        let mut socket = Socket::new(
            SocketBuffer::new(vec![0; RECEIVE_BYTES]),
            SocketBuffer::new(vec![0; SEND_BYTES]),
        );
        socket.set_congestion_control(CongestionControl::Reno);
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(Some(ACK_DELAY.into()));
        socket.set_timeout(Some(PATIENCE));
        socket.set_keep_alive(Some(ASKED));
        socket.listen(peer.local).ok()?;
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let window = slot.get(Field::Window) as u16;
        let mut engine = Engine {
            interface,
            sockets,
            handle,
            wire,
            local,
            header: header_for(local),
            peer,
            shift: 0,
            sent: ours.wrapping_add(1),
            pushed: acknowledged,
            taken: consumed,
            window,
            lingers: None,
        };

        let ports = (peer.port, peer.local);
        let syn = TcpRepr {
            window_len: window,
            max_seg_size: Some(options.segment),
            window_scale: options.scale,
            sack_permitted: options.sack,
            ..bare(ports, TcpControl::Syn, theirs, None)
        };
        engine.replay(now, &syn);
        engine.interface.poll_egress(engine_time(now), &mut engine.wire, &mut engine.sockets);
        let answer = engine.wire.goes.pop_front()?;
        let answer = TcpPacket::new_checked(answer.get(engine.header..)?).ok()?;
        let drawn = answer.seq_number().0 as u32;
        let next = theirs.wrapping_add(1);
        let ack = TcpRepr {
            window_len: window,
            ..bare(ports, TcpControl::None, next, Some(drawn.wrapping_add(1)))
        };
        engine.replay(now, &ack);
        if engine.state() != State::Established {
            return None;
        }
        engine.shift = ours.wrapping_sub(drawn);

        let unread = slot.get(Field::Received).saturating_sub(consumed) as usize;
        let mut bytes = vec![0; unread];
        slot.received().read(consumed, &mut bytes);
        let control = match slot.get(Field::Finished) {
            0 => TcpControl::None,
            _ => TcpControl::Fin,
        };
        if unread > 0 || control == TcpControl::Fin {
            let segment = TcpRepr { control, payload: &bytes, ..ack };
            engine.replay(now, &segment);
        }
        // Whatever the socket has answered to this the peer has not asked for.
        engine.wire.goes.clear();
        engine.follow(slot);
        Some(engine)
    }

    /// Has the socket get a segment in the numbers of its own.
    fn replay(&mut self, now: Instant, segment: &TcpRepr<'_>) {
        self.give(now, emit(self.peer.address, self.local, segment));
    }

    fn give(&mut self, now: Instant, packet: Vec<u8>) {
        self.wire.came.push_back(packet);
        let now = engine_time(now);
        self.interface.poll_ingress_single(now, &mut self.wire, &mut self.sockets);
        self.wire.came.clear();
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// The state of the socket.
    pub fn state(&mut self) -> State {
        self.socket().state()
    }

    /// Takes a packet with a segment of this connection behind its header, both of which were
    /// checked.
    ///
    /// A socket of smoltcp goes back to its oldest byte when it sends again, and so do the numbers
    /// of its acknowledgements, which another such socket then takes for old segments, and ignores.
    /// If both sides have lost something neither hears the other for ever. What an old segment
    /// acknowledges is heard here, and [ours](Self::transmit) are never old.
    ///
    /// Nor does it answer what RFC 5961 has challenged: a SYN, a reset of another number than the
    /// next one, an acknowledgement from far before.
    pub fn receive(&mut self, now: Instant, slot: &Slot<'_>, mut packet: Vec<u8>, header: usize) {
        let mut segment = TcpPacket::new_unchecked(&mut packet[header..]);
        let (sequences, is_finished) = (slot.get(Field::Sequences), slot.get(Field::Finished) != 0);
        let expected = offset((sequences >> 32) as u32, slot.get(Field::Received))
            .wrapping_add(u32::from(is_finished));
        let ahead = (segment.seq_number().0 as u32).wrapping_sub(expected);
        if segment.syn() || segment.rst() && (1..RECEIVE_BYTES as u32).contains(&ahead) {
            return self.challenge(now, expected);
        }
        self.window = segment.window_len();
        if !segment.ack() {
            return self.give(now, packet);
        }
        let first = offset(sequences as u32, slot.get(Field::Acknowledged));
        let mut acknowledges = (segment.ack_number().0 as u32).wrapping_sub(self.shift);
        let late = first.wrapping_sub(self.shift).wrapping_sub(acknowledges) as i32;
        if late > SEND_BYTES as i32 && !segment.rst() {
            return self.challenge(now, expected);
        }
        if late > 0 && !segment.payload_mut().is_empty() {
            // Its bytes count although what it acknowledges is known.
            acknowledges = first.wrapping_sub(self.shift);
        }
        segment.set_ack_number(number(acknowledges));
        let end = (segment.seq_number().0 as u32).wrapping_add(segment.segment_len() as u32);
        if is_finished && is_before(expected, end) {
            // Nothing is behind the end of a stream.
            return self.hear(now, expected, acknowledges);
        }
        let is_old = is_before(segment.seq_number().0 as u32, expected)
            && !is_before(expected, end)
            && !segment.rst();
        let is_news = is_before(first.wrapping_sub(self.shift), acknowledges);
        if is_old && is_news {
            self.hear(now, expected, acknowledges);
        }
        self.give(now, packet);
    }

    /// Hears a segment that does nothing but acknowledge.
    fn hear(&mut self, now: Instant, sequence: u32, acknowledges: u32) {
        let ports = (self.peer.port, self.peer.local);
        let heard = TcpRepr {
            window_len: self.window,
            ..bare(ports, TcpControl::None, sequence, Some(acknowledges))
        };
        self.replay(now, &heard);
    }

    /// Says what is expected to whoever may mean another connection (RFC 5961): a socket of smoltcp
    /// answers who asks whether it is there, once a second at most.
    fn challenge(&mut self, now: Instant, expected: u32) {
        let acknowledges = self.sent.wrapping_sub(self.shift);
        self.hear(now, expected.wrapping_sub(1), acknowledges);
    }

    /// Drops what comes once the user has closed the connection, so that a peer that has more to
    /// say comes to its end. One that goes on for ever, or takes nothing, is told that the
    /// connection has failed.
    fn linger(&mut self, slot: &Slot<'_>, now: Instant) {
        if slot.get(Field::Closed) != CLOSED {
            return;
        }
        slot.set(Field::Consumed, slot.get(Field::Received));
        let acknowledged = slot.get(Field::Acknowledged);
        match self.lingers {
            Some((since, before)) if before == acknowledged => {
                if now.since(since) >= LINGERS {
                    self.socket().abort();
                }
            }
            _ => self.lingers = Some((now, acknowledged)),
        }
    }

    /// Acts upon what the user has changed in the slot.
    fn follow(&mut self, slot: &Slot<'_>) {
        let (consumed, produced) = (slot.get(Field::Consumed), slot.get(Field::Produced));
        while self.taken < consumed {
            let most = (consumed - self.taken) as usize;
            let taken = self.socket().recv(|bytes| {
                let count = bytes.len().min(most);
                (count, count)
            });
            match taken {
                Ok(count) if count > 0 => self.taken += count as u64,
                _ => break,
            }
        }
        while self.pushed < produced {
            let (from, most) = (self.pushed, (produced - self.pushed) as usize);
            let pushed = self.socket().send(|room| {
                let count = room.len().min(most);
                slot.sent().read(from, &mut room[..count]);
                (count, count)
            });
            match pushed {
                Ok(count) if count > 0 => self.pushed += count as u64,
                _ => break,
            }
        }
        match slot.get(Field::Closed) {
            ABORTED => self.socket().abort(),
            CLOSED | SHUT if self.pushed == produced => self.socket().close(),
            _ => {}
        }
    }

    /// Publishes in the slot what has come: before any packet that tells the peer so leaves.
    pub fn publish(&mut self, slot: &Slot<'_>) {
        let (taken, pushed) = (self.taken, self.pushed);
        let known = slot.get(Field::Received);
        let socket = self.sockets.get_mut::<Socket<'static>>(self.handle);
        let held = socket.recv_queue();
        if taken + held as u64 > known {
            let mut bytes = vec![0; held];
            let count = socket.peek_slice(&mut bytes).unwrap_or_default();
            let fresh = bytes[..count].get((known - taken) as usize..).unwrap_or_default();
            slot.received().write(known, fresh);
            slot.set(Field::Received, known + fresh.len() as u64);
        }
        let ends = [State::CloseWait, State::Closing, State::LastAck, State::TimeWait];
        if ends.contains(&socket.state()) {
            slot.set(Field::Finished, 1);
        }
        let acknowledged = pushed.saturating_sub(socket.send_queue() as u64);
        if acknowledged > slot.get(Field::Acknowledged) {
            slot.set(Field::Acknowledged, acknowledged);
        }
        slot.set(Field::Window, self.window.into());
    }

    /// Does what is due and what the user wants; packets come of it.
    pub fn turn(&mut self, slot: &Slot<'_>, now: Instant) {
        self.linger(slot, now);
        self.follow(slot);
        for _ in 0..BURST {
            let before = self.wire.goes.len();
            self.interface.poll_egress(engine_time(now), &mut self.wire, &mut self.sockets);
            if self.wire.goes.len() == before {
                break;
            }
        }
        self.publish(slot);
    }

    /// The next packet that is to be sent.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        let mut packet = self.wire.goes.pop_front()?;
        let mut segment = TcpPacket::new_unchecked(&mut packet[self.header..]);
        let sequence = (segment.seq_number().0 as u32).wrapping_add(self.shift);
        let end = sequence.wrapping_add(segment.segment_len() as u32);
        if is_before(self.sent, end) {
            self.sent = end;
        }
        let only_acknowledges = end == sequence && !segment.rst();
        segment.set_seq_number(number(if only_acknowledges { self.sent } else { sequence }));
        segment.fill_checksum(&self.local.into(), &self.peer.address.into());
        if self.local.is_ipv4() {
            Ipv4Packet::new_unchecked(&mut packet[..]).fill_checksum();
        }
        Some(packet)
    }

    /// Both next sequence numbers, ours first, once both sides have ended.
    pub fn last_numbers(slot: &Slot<'_>) -> (u32, u32) {
        let sequences = slot.get(Field::Sequences);
        // The handshake and the end have a number each.
        let ours = offset(sequences as u32, slot.get(Field::Produced));
        let theirs = offset((sequences >> 32) as u32, slot.get(Field::Received));
        (ours.wrapping_add(1), theirs.wrapping_add(1))
    }

    /// When it has something to do although nothing comes and nobody changes the slot.
    pub fn next_due(&mut self, now: Instant) -> Option<Instant> {
        let due = self.interface.poll_at(engine_time(now), &self.sockets).map(from_engine_time);
        let gives_up = self.lingers.map(|(since, _)| since + LINGERS);
        due.into_iter().chain(gives_up).min()
    }
}

/// The sequence number of a byte of a stream with this initial one.
fn offset(initial: u32, at: u64) -> u32 {
    initial.wrapping_add(1).wrapping_add(at as u32)
}

/// Whether a sequence number is before another.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}
