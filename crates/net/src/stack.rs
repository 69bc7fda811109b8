//! The interface: frames in, frames out. ARP and ICMP echo are answered here, TCP has the rest.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, MacAddress};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet,
};

use crate::memory::Memory;
use crate::neighbours::{Neighbours, Way};
use crate::segment::{IP_HEADER, packet};
use crate::stream::Stream;
use crate::tcp::{Connection, Tcp, TcpCounts};

/// Frames that may wait to be sent before answers to ARP and ICMP are dropped.
const WAITING: usize = 64;

/// What an interface is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its address on the link.
    pub mac: MacAddress,
    /// Its address.
    pub address: Ipv4Addr,
    /// Bits that the addresses of the link have in common.
    pub prefix: u8,
    /// Who passes on what is for other links.
    pub gateway: Option<Ipv4Addr>,
    /// Bytes of the largest packet, at least 576.
    pub max_packet: usize,
}

/// What was counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Frames that have come.
    pub received: u64,
    /// Frames that were given to be sent.
    pub sent: u64,
    /// Frames of another protocol, for another address, in fragments, or malformed.
    pub ignored: u64,
    /// Packets for which there is no way.
    pub unreachable: u64,
    /// Echo requests that were answered.
    pub echoes: u64,
    /// Of connections.
    pub tcp: TcpCounts,
}

/// An interface with its connections.
pub struct Stack<'m> {
    settings: Settings,
    neighbours: Neighbours,
    tcp: Tcp<'m>,
    out: VecDeque<Vec<u8>>,
    counts: Counts,
}

impl<'m> Stack<'m> {
    /// An interface that goes on with the connections in `memory`.
    pub fn new(settings: Settings, memory: Memory<'m>, now: Instant) -> Stack<'m> {
        let tcp = Tcp::new(memory, settings.address, settings.max_packet, now);
        let (neighbours, out) = (Neighbours::default(), VecDeque::new());
        Stack { settings, neighbours, tcp, out, counts: Counts::default() }
    }

    /// Takes connections to this port from now on.
    pub fn listen(&mut self, port: u16) {
        self.tcp.listen(port);
    }

    /// The ports that connections are taken to.
    pub fn listeners(&self) -> &[u16] {
        self.tcp.listeners()
    }

    /// Handshakes that are not over.
    pub fn half_open(&self) -> usize {
        self.tcp.half_open()
    }

    /// All connections, in the order of their peers.
    pub fn streams(&self) -> impl Iterator<Item = Stream<'m>> + use<'m, '_> {
        self.tcp.streams()
    }

    /// All connections as lists have them.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + use<'m, '_> {
        self.tcp.connections()
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts { tcp: self.tcp.counts, ..self.counts }
    }

    /// Takes a frame that has come: any bytes.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.counts.received += 1;
        let taken = EthernetFrame::new_checked(frame).ok().and_then(|frame| {
            let to = MacAddress(frame.dst_addr().0);
            if to != self.settings.mac && !to.is_group() {
                return None;
            }
            match frame.ethertype() {
                EthernetProtocol::Arp => self.receive_arp(now, frame.payload()),
                EthernetProtocol::Ipv4 => self.receive_ip(now, frame.payload()),
                _ => None,
            }
        });
        if taken.is_none() {
            self.counts.ignored += 1;
        }
    }

    fn receive_arp(&mut self, now: Instant, payload: &[u8]) -> Option<()> {
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: from,
            source_protocol_addr: ip,
            target_protocol_addr: target,
            ..
        } = ArpRepr::parse(&ArpPacket::new_checked(payload).ok()?).ok()?
        else {
            return None;
        };
        let (is_ours, mac) = (target == self.settings.address, MacAddress(from.0));
        if !self.is_near(ip) || ip == self.settings.address {
            return None;
        }
        let asks = operation == ArpOperation::Request && is_ours;
        self.neighbours.learn(now, ip, mac, asks);
        if asks && self.out.len() < WAITING {
            self.send_arp(ArpOperation::Reply, mac, ip);
        }
        while let Some((mac, packet)) = self.neighbours.next_ready() {
            self.send_frame(mac, EthernetProtocol::Ipv4, &packet);
        }
        Some(())
    }

    fn receive_ip(&mut self, now: Instant, payload: &[u8]) -> Option<()> {
        let ip = Ipv4Packet::new_checked(payload).ok()?;
        let is_whole = !ip.more_frags() && ip.frag_offset() == 0;
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        let is_host = !from.is_broadcast() && !from.is_multicast() && !from.is_unspecified();
        if ip.version() != 4 || !ip.verify_checksum() || !is_whole || !is_host {
            return None;
        }
        if to != self.settings.address || from == to {
            return None;
        }
        match ip.next_header() {
            IpProtocol::Tcp => {
                self.tcp.receive(now, &payload[..usize::from(ip.total_len())]);
                Some(())
            }
            IpProtocol::Icmp => self.answer_echo(now, from, ip.payload()),
            _ => None,
        }
    }

    fn answer_echo(&mut self, now: Instant, from: Ipv4Addr, payload: &[u8]) -> Option<()> {
        let checksums = ChecksumCapabilities::default();
        let asked = Icmpv4Packet::new_checked(payload).ok()?;
        let Icmpv4Repr::EchoRequest { ident, seq_no, data } =
            Icmpv4Repr::parse(&asked, &checksums).ok()?
        else {
            return None;
        };
        let answer = Icmpv4Repr::EchoReply { ident, seq_no, data };
        if self.out.len() >= WAITING {
            return None;
        }
        let mut bytes = packet(self.settings.address, from, IpProtocol::Icmp, answer.buffer_len());
        answer.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes[IP_HEADER..]), &checksums);
        self.counts.echoes += 1;
        self.route(now, from, bytes);
        Some(())
    }

    /// Whether an address is on this link.
    fn is_near(&self, ip: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.settings.prefix.min(32)));
        let mask = mask.unwrap_or_default();
        (ip.to_bits() ^ self.settings.address.to_bits()) & mask == 0
    }

    /// Sends a packet, once it is known where to.
    fn route(&mut self, now: Instant, to: Ipv4Addr, packet: Vec<u8>) {
        let hop = if self.is_near(to) { Some(to) } else { self.settings.gateway };
        let Some(hop) = hop else {
            self.counts.unreachable += 1;
            return;
        };
        match self.neighbours.way(now, hop, packet) {
            Way::To(mac, packet) => self.send_frame(mac, EthernetProtocol::Ipv4, &packet),
            Way::Ask => self.send_arp(ArpOperation::Request, MacAddress::BROADCAST, hop),
            Way::Wait => {}
        }
    }

    fn send_arp(&mut self, operation: ArpOperation, to: MacAddress, target: Ipv4Addr) {
        let message = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.settings.mac.0),
            source_protocol_addr: self.settings.address,
            target_hardware_addr: EthernetAddress(to.0),
            target_protocol_addr: target,
        };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut ArpPacket::new_unchecked(&mut bytes[..]));
        self.send_frame(to, EthernetProtocol::Arp, &bytes);
    }

    fn send_frame(&mut self, to: MacAddress, ethertype: EthernetProtocol, payload: &[u8]) {
        let header = EthernetRepr {
            src_addr: EthernetAddress(self.settings.mac.0),
            dst_addr: EthernetAddress(to.0),
            ethertype,
        };
        let mut frame = vec![0; HEADER_BYTES + payload.len()];
        header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
        frame[HEADER_BYTES..].copy_from_slice(payload);
        self.counts.sent += 1;
        self.out.push_back(frame);
    }

    /// Does what is due and what users have changed in their streams. Frames come of it.
    pub fn turn(&mut self, now: Instant) {
        self.tcp.turn(now);
        while let Some((to, packet)) = self.tcp.transmit() {
            self.route(now, to, packet);
        }
    }

    /// The next frame that is to be sent. What it tells others is in the memory.
    pub fn transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// When there is something to do although nothing comes and no user changes anything.
    pub fn next_due(&mut self, now: Instant) -> Option<Instant> {
        match self.out.is_empty() {
            true => self.tcp.next_due(now),
            false => Some(now),
        }
    }
}
