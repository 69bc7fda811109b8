//! The interface: frames in, frames out. ARP and ICMP echo are answered here, TCP and UDP have the
//! rest. Its address is what it is told, or lent.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, MacAddress};
use nile_filter::packet::TCP;
use nile_filter::{Connection as Known, Direction, Filter, FilterCounts, Rules};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DHCP_CLIENT_PORT, DHCP_SERVER_PORT, EthernetAddress,
    EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpRepr,
};

use crate::dhcp::{Client, Message};
use crate::lease::Lease;
use crate::memory::Memory;
use crate::neighbours::{Neighbours, Way};
use crate::opening::Progress;
use crate::seen;
use crate::segment::{IP_HEADER, packet};
use crate::stream::Stream;
use crate::tcp::{Connection, Peer, Tcp, TcpCounts};
use crate::udp::{self, Datagram, Taken, UDP_HEADER, Udp, UdpCounts};

/// Frames that may wait to be sent before answers to ARP and ICMP are dropped.
const WAITING: usize = 64;

/// What an interface is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its address on the link.
    pub mac: MacAddress,
    /// Its address; unspecified while it has none.
    pub address: Ipv4Addr,
    /// Bits that the addresses of the link have in common.
    pub prefix: u8,
    /// Who passes on what is for other links.
    pub gateway: Option<Ipv4Addr>,
    /// Who is asked for the addresses of names.
    pub resolver: Option<Ipv4Addr>,
    /// Bytes of the largest packet, at least 576.
    pub max_packet: usize,
}

impl Settings {
    /// The same with what is lent, or without an address.
    fn lent(self, lease: Option<&Lease>) -> Settings {
        let none = Ipv4Addr::UNSPECIFIED;
        let (address, prefix) = lease.map_or((none, 32), |it| (it.address, it.prefix));
        let gateway = lease.and_then(|it| it.gateway);
        Settings { address, prefix, gateway, resolver: lease.and_then(|it| it.resolver), ..self }
    }
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
    /// Of datagrams.
    pub udp: UdpCounts,
    /// Of the packet filter.
    pub filter: FilterCounts,
}

/// An interface with its connections.
pub struct Stack<'m> {
    settings: Settings,
    neighbours: Neighbours,
    tcp: Tcp<'m>,
    udp: Udp,
    /// Takes its address, if that is lent.
    dhcp: Option<Client>,
    filter: Filter,
    out: VecDeque<Vec<u8>>,
    counts: Counts,
}

impl<'m> Stack<'m> {
    /// An interface that goes on with the connections in `memory`.
    pub fn new(settings: Settings, memory: Memory<'m>, now: Instant) -> Stack<'m> {
        let tcp = Tcp::new(memory, settings.address, settings.max_packet, now);
        let (neighbours, out) = (Neighbours::default(), VecDeque::new());
        let (udp, filter, counts) = (Udp::default(), Filter::default(), Counts::default());
        Stack { settings, neighbours, tcp, udp, dhcp: None, filter, out, counts }
    }

    /// An interface whose address is lent by whoever does that on its link, and was `kept` by the
    /// last incarnation. What the settings say of addresses does not count.
    pub fn leasing(
        settings: Settings,
        kept: Option<Lease>,
        memory: Memory<'m>,
        now: Instant,
    ) -> Stack<'m> {
        let client = Client::new(settings.mac, memory.secret(), kept, now);
        let stack = Stack::new(settings.lent(kept.as_ref()), memory, now);
        Stack { dhcp: Some(client), ..stack }
    }

    /// What was lent, if the address is.
    pub fn lease(&self) -> Option<&Lease> {
        self.dhcp.as_ref()?.lease()
    }

    /// Has packets go on only as these rules say, from now on. Connections that are open are known
    /// to them, whatever incarnation has opened them.
    pub fn set_rules(&mut self, now: Instant, rules: Rules) {
        let known = |it: Stream<'_>| {
            let Peer { address, port, local } = it.peer();
            Known { protocol: TCP, other: address, ports: (local, port) }
        };
        self.filter.set(now, rules, self.tcp.streams().map(known));
    }

    /// The packet filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Takes connections to this port from now on.
    pub fn listen(&mut self, port: u16) {
        self.tcp.listen(port);
    }

    /// Takes no more connections to this port; those that there are go on.
    pub fn unlisten(&mut self, port: u16) {
        self.tcp.unlisten(port);
    }

    /// A connection that nobody has taken yet: one that a peer has opened, or that an earlier
    /// incarnation has left.
    pub fn next_fresh(&mut self) -> Option<Stream<'m>> {
        self.tcp.next_fresh()
    }

    /// Begins to open a connection; [`progress`](Self::progress) says how it goes. `None`: all
    /// ports to this peer are in use.
    pub fn connect(&mut self, now: Instant, to: SocketAddrV4) -> Option<Peer> {
        self.tcp.connect(now, *to.ip(), to.port())
    }

    /// How the attempt to open this connection stands.
    pub fn progress(&mut self, peer: Peer) -> Progress<'m> {
        self.tcp.progress(peer)
    }

    /// Has datagrams to this port wait for [`take`](Self::take). `false`: somebody has the port.
    pub fn bind(&mut self, port: u16) -> bool {
        self.udp.bind(port)
    }

    /// Gives a port for datagrams back.
    pub fn unbind(&mut self, port: u16) {
        self.udp.unbind(port);
    }

    /// The first datagram that waits at a port.
    pub fn take(&mut self, port: u16) -> Option<Datagram> {
        self.udp.take(port)
    }

    /// Bytes of the longest datagram that can be sent: they go in one packet.
    pub fn max_datagram(&self) -> usize {
        self.settings.max_packet - IP_HEADER - UDP_HEADER
    }

    /// Sends a datagram from a port. `false`, and nothing is sent: it is too long.
    pub fn send(&mut self, now: Instant, port: u16, to: SocketAddrV4, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.max_datagram();
        if fits {
            let packet = self.udp.emit(self.settings.address, port, to, bytes);
            self.route(now, *to.ip(), packet);
        }
        fits
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// The address; unspecified while there is none.
    pub fn address(&self) -> Ipv4Addr {
        self.settings.address
    }

    /// What it was told, or what was lent.
    pub fn settings(&self) -> Settings {
        self.settings
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
        let filter = self.filter.counts();
        Counts { tcp: self.tcp.counts, udp: self.udp.counts, filter, ..self.counts }
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
        if self.dhcp.is_some() && ip.next_header() == IpProtocol::Udp {
            let datagram = udp::parse(from, to, ip.payload());
            let is_said = |it: &(UdpRepr, _)| {
                (it.0.src_port, it.0.dst_port) == (DHCP_SERVER_PORT, DHCP_CLIENT_PORT)
            };
            // No rule is asked: without an address there is nothing that a filter is for.
            if let Some((_, message)) = datagram.filter(is_said) {
                self.dhcp.as_mut().into_iter().for_each(|it| it.receive(now, message));
                self.follow();
                return Some(());
            }
        }
        let is_ours = to == self.settings.address && !to.is_unspecified();
        if !is_ours || from == to {
            return None;
        }
        if !self.lets(now, Direction::In, &ip) {
            return Some(());
        }
        match ip.next_header() {
            IpProtocol::Tcp => {
                self.tcp.receive(now, &payload[..usize::from(ip.total_len())]);
                Some(())
            }
            IpProtocol::Icmp => self.answer_echo(now, from, ip.payload()),
            IpProtocol::Udp => match self.udp.receive(from, to, ip.payload()) {
                Taken::Here => Some(()),
                Taken::NoPort => self.no_port(now, &ip),
                Taken::Malformed => None,
            },
            _ => None,
        }
    }

    /// Tells the sender of a datagram that nobody has the port (RFC 1122, 4.1.3.1).
    fn no_port(&mut self, now: Instant, ip: &Ipv4Packet<&[u8]>) -> Option<()> {
        let from = ip.src_addr();
        let header = Ipv4Repr::parse(ip, &ChecksumCapabilities::default()).ok()?;
        let payload = ip.payload();
        let answer = Icmpv4Repr::DstUnreachable {
            reason: Icmpv4DstUnreachable::PortUnreachable,
            header,
            data: &payload[..payload.len().min(UDP_HEADER)],
        };
        self.send_icmp(now, from, &answer)
    }

    fn answer_echo(&mut self, now: Instant, from: Ipv4Addr, payload: &[u8]) -> Option<()> {
        let checksums = ChecksumCapabilities::default();
        let asked = Icmpv4Packet::new_checked(payload).ok()?;
        let Icmpv4Repr::EchoRequest { ident, seq_no, data } =
            Icmpv4Repr::parse(&asked, &checksums).ok()?
        else {
            return None;
        };
        self.send_icmp(now, from, &Icmpv4Repr::EchoReply { ident, seq_no, data })?;
        self.counts.echoes += 1;
        Some(())
    }

    fn send_icmp(&mut self, now: Instant, to: Ipv4Addr, message: &Icmpv4Repr<'_>) -> Option<()> {
        if self.out.len() >= WAITING {
            return None;
        }
        let mut bytes = packet(self.settings.address, to, IpProtocol::Icmp, message.buffer_len());
        let checksums = ChecksumCapabilities::default();
        message.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes[IP_HEADER..]), &checksums);
        self.route(now, to, bytes);
        Some(())
    }

    /// Does what is due to have an address.
    fn ask_for_address(&mut self, now: Instant) {
        while let Some(Message { from, to, bytes }) = self.dhcp.as_mut().and_then(|it| it.next(now))
        {
            // A lease that is over is not asked with.
            self.follow();
            let server = SocketAddrV4::new(to, DHCP_SERVER_PORT);
            let packet = self.udp.emit(from, DHCP_CLIENT_PORT, server, &bytes);
            match to.is_broadcast() {
                true => self.send_frame(MacAddress::BROADCAST, EthernetProtocol::Ipv4, &packet),
                false => self.pass_on(now, to, packet),
            }
        }
    }

    /// Has the address that is lent.
    fn follow(&mut self) {
        let Some(client) = &self.dhcp else { return };
        let settings = self.settings.lent(client.lease());
        if settings.address != self.settings.address {
            self.neighbours = Neighbours::default();
            self.tcp.move_to(settings.address);
        }
        self.settings = settings;
    }

    /// Whether an address is on this link.
    fn is_near(&self, ip: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.settings.prefix.min(32)));
        let mask = mask.unwrap_or_default();
        (ip.to_bits() ^ self.settings.address.to_bits()) & mask == 0
    }

    /// Whether the filter lets a packet go on.
    fn lets(&mut self, now: Instant, direction: Direction, ip: &Ipv4Packet<&[u8]>) -> bool {
        self.filter.is_open() || self.filter.lets(now, &seen::packet(direction, ip))
    }

    /// Sends a packet, once it is known where to, if the filter lets it.
    fn route(&mut self, now: Instant, to: Ipv4Addr, packet: Vec<u8>) {
        if self.settings.address.is_unspecified() {
            self.counts.unreachable += 1;
        } else if self.lets(now, Direction::Out, &Ipv4Packet::new_unchecked(&packet[..])) {
            self.pass_on(now, to, packet);
        }
    }

    /// Sends a packet to its next hop.
    fn pass_on(&mut self, now: Instant, to: Ipv4Addr, packet: Vec<u8>) {
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
        self.ask_for_address(now);
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
            true => {
                let lent = self.dhcp.as_ref().map(|it| it.next_due());
                self.tcp.next_due(now).into_iter().chain(lent).min()
            }
            false => Some(now),
        }
    }
}
