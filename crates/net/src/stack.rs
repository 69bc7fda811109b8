//! The interface: frames in, frames out. Who has its addresses and ICMP echo are answered here
//! (`v4`, `v6`), TCP and UDP have the rest. Its addresses are what it is told, lent, or advertised.

mod v4;
mod v6;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, MacAddress};
use nile_filter::packet::TCP;
use nile_filter::rule::is_near;
use nile_filter::{Connection as Known, Direction, Filter, FilterCounts, Rules};
use smoltcp::wire::{
    ArpOperation, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Ipv4Packet,
    Ipv6Packet,
};

use self::v6::Probe;
use crate::dhcp::Client;
use crate::lease::Lease;
use crate::memory::Memory;
use crate::neighbours::{Neighbours, Way};
use crate::opening::Progress;
use crate::own::{LINK_BITS, Own, address_in, group_mac, is_of_link, link_address};
use crate::peer::Peer;
use crate::router::{Advertised, Routers};
use crate::seen;
use crate::segment::header_for;
use crate::stream::Stream;
use crate::tcp::{Connection, Tcp, TcpCounts};
use crate::udp::{Datagram, Udp, UdpCounts};

/// Frames that may wait to be sent before answers to ARP and ICMP are dropped.
const WAITING: usize = 64;

/// Where an interface has its address of IPv6 from which others than those of its link may know.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Wide {
    /// It has none.
    #[default]
    None,
    /// It is this one, with so many bits that the addresses of the link have in common.
    Is(Ipv6Addr, u8),
    /// From a router, and this was kept of what one has said.
    Advertised(Advertised),
}

/// What an interface is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its address on the link.
    pub mac: MacAddress,
    /// Its address of IPv4; unspecified while it has none.
    pub address: Ipv4Addr,
    /// Bits that the addresses of the link have in common.
    pub prefix: u8,
    /// Who passes on what is for other links.
    pub gateway: Option<Ipv4Addr>,
    /// Who is asked for the addresses of names.
    pub resolver: Option<Ipv4Addr>,
    /// Its address of IPv6 beside that for its link, which follows from `mac`.
    pub wide: Wide,
    /// Bytes of the largest packet: at least 576 for IPv4, 1,280 for IPv6.
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
    /// Addresses that were given up, as somebody else has them.
    pub duplicates: u64,
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
    own: Own,
    neighbours: Neighbours,
    /// Who routers are, if that is of any use.
    routers: Option<Routers>,
    /// Addresses that it is to be asked for whether somebody has them.
    probes: Vec<Probe>,
    /// Those that somebody has.
    taken: Vec<Ipv6Addr>,
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
        let routers = match settings.wide {
            Wide::None => None,
            Wide::Is(..) => Some(Routers::new(Advertised::default(), false, now)),
            Wide::Advertised(kept) => Some(Routers::new(kept, true, now)),
        };
        let own = own_of(&settings, routers.as_ref(), &[]);
        let mut stack = Stack {
            settings,
            own,
            neighbours: Neighbours::default(),
            routers,
            probes: Vec::new(),
            taken: Vec::new(),
            tcp: Tcp::new(memory, own, now),
            udp: Udp::default(),
            dhcp: None,
            filter: Filter::default(),
            out: VecDeque::new(),
            counts: Counts::default(),
        };
        stack.probe(own.link.into());
        stack.probe(own.wide.into());
        stack
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

    /// What routers have said, if the address of IPv6 follows from that.
    pub fn advertised(&self) -> Option<&Advertised> {
        let is_of_use = matches!(self.settings.wide, Wide::Advertised(_));
        self.routers.as_ref().filter(|_| is_of_use).map(|it| it.said())
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
    pub fn connect(&mut self, now: Instant, to: SocketAddr) -> Option<Peer> {
        self.tcp.connect(now, to)
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

    /// Bytes of the longest datagram that can be sent to an address: they go in one packet.
    pub fn max_datagram(&self, to: IpAddr) -> usize {
        self.own.max_datagram(to)
    }

    /// Sends a datagram from a port. `false`, and nothing is sent: it is too long.
    pub fn send(&mut self, now: Instant, port: u16, to: SocketAddr, bytes: &[u8]) -> bool {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let fits = bytes.len() <= self.max_datagram(to.ip());
        if fits {
            let packet = self.udp.emit(self.own.to(to.ip()), port, to, bytes);
            self.route(now, to.ip(), packet);
        }
        fits
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// The address of IPv4; unspecified while there is none.
    pub fn address(&self) -> Ipv4Addr {
        self.settings.address
    }

    /// All addresses.
    pub fn own(&self) -> Own {
        self.own
    }

    /// Who passes on what is for other links of IPv6, if anybody does.
    pub fn router(&self) -> Option<Ipv6Addr> {
        self.routers.as_ref()?.said().router.map(|it| it.0)
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

    /// Neighbours that are known, or asked for.
    pub fn neighbours(&self) -> usize {
        self.neighbours.count()
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
                EthernetProtocol::Ipv4 => self.receive_v4(now, frame.payload()),
                EthernetProtocol::Ipv6 => self.receive_v6(now, frame.payload()),
                _ => None,
            }
        });
        if taken.is_none() {
            self.counts.ignored += 1;
        }
    }

    /// Has the addresses that are lent and advertised now.
    fn follow(&mut self, now: Instant) {
        if let Some(client) = &self.dhcp {
            self.settings = self.settings.lent(client.lease());
        }
        let own = own_of(&self.settings, self.routers.as_ref(), &self.taken);
        let former = core::mem::replace(&mut self.own, own);
        if own == former {
            return;
        }
        let is_other = |ip| own.to(ip) != former.to(ip);
        self.neighbours.forget(is_other);
        self.tcp.move_to(own);
        self.probes.retain(|it| !it.is_over(now));
        if own.wide != former.wide {
            self.taken.retain(|it| *it != former.wide || own.wide.is_unspecified());
            self.probe(own.wide.into());
        }
        if own.v4 != former.v4 {
            self.probe(own.v4.into());
        }
    }

    /// Whether an address is on this link.
    fn is_near(&self, ip: IpAddr) -> bool {
        let Own { v4, wide, prefix, .. } = self.own;
        match ip {
            IpAddr::V4(_) => is_near(ip, v4.into(), self.settings.prefix),
            IpAddr::V6(it) if is_of_link(&it) => true,
            IpAddr::V6(_) => !wide.is_unspecified() && is_near(ip, wide.into(), prefix),
        }
    }

    /// Whether the filter lets a packet go on.
    fn lets(
        &mut self,
        now: Instant,
        direction: Direction,
        ends: (IpAddr, IpAddr),
        protocol: u8,
        payload: &[u8],
    ) -> bool {
        self.filter.is_open()
            || self.filter.lets(now, &seen::packet(direction, ends, protocol, payload))
    }

    /// The same of one that we have made.
    fn lets_out(&mut self, now: Instant, to: IpAddr, packet: &[u8]) -> bool {
        if self.filter.is_open() {
            return true;
        }
        let (from, protocol) = match to {
            IpAddr::V4(_) => {
                let ip = Ipv4Packet::new_unchecked(packet);
                (ip.src_addr().into(), ip.next_header())
            }
            IpAddr::V6(_) => {
                let ip = Ipv6Packet::new_unchecked(packet);
                (ip.src_addr().into(), ip.next_header())
            }
        };
        let payload = &packet[header_for(to)..];
        self.lets(now, Direction::Out, (from, to), protocol.into(), payload)
    }

    /// Sends a packet, once it is known where to, if the filter lets it.
    fn route(&mut self, now: Instant, to: IpAddr, packet: Vec<u8>) {
        if self.own.to(to).is_unspecified() {
            self.counts.unreachable += 1;
        } else if self.lets_out(now, to, &packet) {
            self.pass_on(now, to, packet);
        }
    }

    /// Sends a packet to its next hop.
    fn pass_on(&mut self, now: Instant, to: IpAddr, packet: Vec<u8>) {
        let hop = match to {
            IpAddr::V6(group) if group.is_multicast() => {
                return self.send_frame(group_mac(group), EthernetProtocol::Ipv6, &packet);
            }
            _ if self.is_near(to) => Some(to),
            IpAddr::V4(_) => self.settings.gateway.map(IpAddr::V4),
            IpAddr::V6(_) => self.router().map(IpAddr::V6),
        };
        let Some(hop) = hop else {
            self.counts.unreachable += 1;
            return;
        };
        match (self.neighbours.way(now, hop, packet), hop) {
            (Way::To(mac, packet), _) => self.send_frame(mac, protocol_of(hop), &packet),
            (Way::Ask, IpAddr::V4(hop)) => {
                let own = self.settings.address;
                self.send_arp(ArpOperation::Request, own, MacAddress::BROADCAST, hop);
            }
            (Way::Ask, IpAddr::V6(hop)) => self.solicit(now, hop),
            (Way::Wait, _) => {}
        }
    }

    /// Notes who has an address, and sends what waits for that.
    fn learn(&mut self, now: Instant, ip: IpAddr, mac: MacAddress, wanted: bool) {
        self.neighbours.learn(now, ip, mac, wanted);
        while let Some((ip, mac, packet)) = self.neighbours.next_ready() {
            self.send_frame(mac, protocol_of(ip), &packet);
        }
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
        self.ask_link(now);
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
                let advertised = self.routers.as_ref().and_then(|it| it.next_due());
                let probes = self.probes.iter().any(|it| !it.is_made()).then_some(now);
                let others = [lent, advertised, probes].into_iter().flatten();
                self.tcp.next_due(now).into_iter().chain(others).min()
            }
            false => Some(now),
        }
    }
}

/// The addresses of an interface, without those that somebody else has.
fn own_of(settings: &Settings, routers: Option<&Routers>, taken: &[Ipv6Addr]) -> Own {
    let &Settings { mac, address: v4, max_packet, .. } = settings;
    let (wide, prefix) = match settings.wide {
        Wide::None => (Ipv6Addr::UNSPECIFIED, LINK_BITS),
        Wide::Is(address, prefix) => (address, prefix),
        Wide::Advertised(_) => {
            let bits = routers.and_then(|it| it.said().prefix);
            let address = bits.map_or(Ipv6Addr::UNSPECIFIED, |it| address_in(it.0, mac));
            (address, LINK_BITS)
        }
    };
    let free = |it: Ipv6Addr| if taken.contains(&it) { Ipv6Addr::UNSPECIFIED } else { it };
    Own { v4, link: free(link_address(mac)), wide: free(wide), prefix, max_packet }
}

/// What a frame is that carries a packet to an address.
fn protocol_of(ip: IpAddr) -> EthernetProtocol {
    if ip.is_ipv4() { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 }
}
