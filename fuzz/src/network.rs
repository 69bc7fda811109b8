//! What the network sends to a node that serves TCP: any frames, segments of connections with
//! fields at will and right checksums, and memory of connections that somebody has written to.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use nile_abi::{Instant, MacAddress};
use nile_net::{Advertised, Memory, Settings, Stack, Wide, memory};

use crate::input::Input;

/// Steps of one input.
const MOST_STEPS: usize = 64;

/// Connections that find room.
const SLOTS: usize = 2;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 9);
const OUR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const THEIR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

/// The peer's address for the link, and ours, which follows from that of the interface.
const THEIRS6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const OURS6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);

/// Bytes before a segment: of Ethernet, and of IPv4 or IPv6.
fn headers(frame: &[u8]) -> usize {
    if frame.get(12..14) == Some(&[0x86, 0xdd]) { 14 + 40 } else { 14 + 20 }
}

/// Steps: any frame; a message of neighbour discovery; a segment over IPv4 or IPv6, its numbers
/// told from those that we have said last; a word of the memory; the stack lost and made anew. What
/// users do, an echo does. Accepted: a connection came about.
pub fn network(bytes: &[u8]) -> bool {
    let words: Vec<AtomicU64> = (0..memory::words(SLOTS)).map(|_| AtomicU64::new(0)).collect();
    let open = |now| {
        let settings = Settings {
            mac: OUR_MAC,
            address: OURS,
            prefix: 16,
            gateway: None,
            resolver: None,
            wide: Wide::Advertised(Advertised::default()),
            max_packet: 1500,
        };
        let memory = Memory::new(&words, [1, 2]).expect("there is room for two");
        let mut stack = Stack::new(settings, memory, now);
        stack.listen(80);
        stack
    };
    let mut input = Input::new(bytes);
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut stack = open(now);
    let mut accepted = 0;
    // Our number and the peer's, as we have said them last.
    let mut said = (0u32, 0u32);
    stack.receive(now, &arp());
    stack.receive(now, &discovery(135, &OURS6.octets()));
    for _ in 0..MOST_STEPS {
        let Some(step) = input.byte() else { break };
        match step % 8 {
            _ if step >= 0xf0 => {
                // What a neighbour or a router says of the link.
                let kind = 133 + input.byte().unwrap_or(0) % 5;
                let length = usize::from(input.byte().unwrap_or(0)) % 96;
                stack.receive(now, &discovery(kind, input.most(length)));
            }
            0 => {
                let length = usize::from(input.byte().unwrap_or(0)) * 6;
                stack.receive(now, input.most(length));
            }
            1 => {
                let (Some(place), Some(value)) = (input.word(), input.word()) else { break };
                // A stack is told of such memory only when it is made; before that nobody has it.
                words[place as usize % words.len()].store(value, Relaxed);
                accepted += stack.counts().tcp.accepted;
                stack = open(now);
            }
            2 => {
                accepted += stack.counts().tcp.accepted;
                stack = open(now);
            }
            3 => now = now + Duration::from_millis(1 << (input.byte().unwrap_or(0) % 18)),
            _ => {
                let Some([flags, port, options]) = input.take() else { break };
                let Some(fields) = input.take::<6>() else { break };
                let [sequence, acknowledges, window] =
                    [0, 2, 4].map(|at| i16::from_le_bytes([fields[at], fields[at + 1]]));
                let payload = input.most(usize::from(options & 0x3f) * 8);
                let segment = Segment {
                    port: 2000 + u16::from(port % 3),
                    is_v6: flags & 0x40 != 0,
                    flags,
                    sequence: said.1.wrapping_add_signed(sequence.into()),
                    acknowledges: said.0.wrapping_add_signed(acknowledges.into()),
                    window: window as u16,
                    has_options: options & 0x40 != 0,
                    payload,
                };
                stack.receive(now, &segment.frame());
            }
        }
        for stream in stack.streams() {
            let mut bytes = [0; 512];
            let room = stream.room().min(bytes.len());
            let count = stream.peek(&mut bytes[..room]);
            stream.stage(0, &bytes[..count]);
            stream.produce(stream.produced() + count as u64);
            stream.consume(stream.consumed() + count as u64);
            if stream.has_ended() {
                stream.close();
            }
        }
        stack.turn(now);
        while let Some(frame) = stack.transmit() {
            let number = |at: usize| {
                let begin = headers(&frame) + at;
                let bytes = frame.get(begin..begin + 4)?;
                Some(u32::from_be_bytes(bytes.try_into().ok()?))
            };
            if let (Some(ours), Some(theirs)) = (number(4), number(8)) {
                let flags = frame.get(headers(&frame) + 13).copied().unwrap_or(0);
                let syn = u32::from(flags & 2 != 0);
                said = (ours.wrapping_add(syn), theirs);
            }
        }
    }
    accepted + stack.counts().tcp.accepted > 0
}

/// Who has the peer's address.
fn arp() -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &THEIR_MAC.0, &[8, 6]].concat();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(THEIR_MAC.0);
    frame.extend(THEIRS.octets());
    frame.extend([0; 6]);
    frame.extend(OURS.octets());
    frame
}

/// A message of neighbour discovery from the peer, with a right checksum.
fn discovery(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(if kind == 134 { [64, 0, 7, 8] } else { [0; 4] });
    message.extend(body);
    if kind == 135 {
        message.extend([1, 1]);
        message.extend(THEIR_MAC.0);
    }
    frame_of_v6(58, 255, message, 2)
}

/// A frame of the peer's with a packet of IPv6, whose payload has its checksum there.
fn frame_of_v6(protocol: u8, hops: u8, mut payload: Vec<u8>, sum_at: usize) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let pseudo = [&THEIRS6.octets()[..], &OURS6.octets(), &[0, 0], &length, &[0, 0, 0, protocol]];
    let sum = checksum(&[&pseudo.concat()[..], &payload].concat());
    payload[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [&OUR_MAC.0[..], &THEIR_MAC.0, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend(length);
    frame.extend([protocol, hops]);
    frame.extend(THEIRS6.octets());
    frame.extend(OURS6.octets());
    frame.extend(payload);
    frame
}

struct Segment<'a> {
    is_v6: bool,
    port: u16,
    flags: u8,
    sequence: u32,
    acknowledges: u32,
    window: u16,
    has_options: bool,
    payload: &'a [u8],
}

impl Segment<'_> {
    /// The frame that it comes in.
    fn frame(&self) -> Vec<u8> {
        let options: &[u8] = match self.has_options {
            true => &[2, 4, 0x05, 0xb4, 4, 2, 3, 3, 7, 0, 0, 0],
            false => &[],
        };
        let mut tcp = Vec::new();
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(80u16.to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledges.to_be_bytes());
        tcp.extend([((20 + options.len()) / 4 * 16) as u8, self.flags & 0x3f]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(self.payload);
        if self.is_v6 {
            return frame_of_v6(6, 64, tcp, 16);
        }
        let length = tcp.len() as u16;
        let pseudo = [&THEIRS.octets()[..], &OURS.octets(), &[0, 6], &length.to_be_bytes()];
        let sum = checksum(&[&pseudo.concat()[..], &tcp].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut ip = vec![0x45, 0];
        ip.extend((20 + length).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        ip.extend(THEIRS.octets());
        ip.extend(OURS.octets());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&OUR_MAC.0[..], &THEIR_MAC.0, &[8, 0], &ip, &tcp].concat()
    }
}

/// The Internet's checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
