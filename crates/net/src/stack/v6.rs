//! Packets of IPv6, and who has its addresses on the link: neighbour discovery and ICMPv6
//! (RFC 4861, 4862, 4443).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use nile_abi::{Instant, MacAddress};
use nile_filter::Direction;
use nile_filter::packet::{ICMPV6, TCP, UDP};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, EthernetAddress, Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    NdiscNeighborFlags, NdiscRepr, RawHardwareAddress,
};

use super::{Stack, WAITING};
use crate::extensions::{NOTHING, Problem, Upper, upper};
use crate::own::{Own, is_of_link, solicited};
use crate::segment::{IPV6_HEADER, packet, packet_with};
use crate::udp::Taken;

/// The interfaces and the routers of the link.
const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// What no router has passed on has been passed on so often.
const NEAR: u8 = 255;

/// How long somebody who has an address may take to say so.
const OBJECTS: Duration = Duration::from_secs(1);

/// So many addresses that somebody has are known. A router could advertise ever others.
const MOST_TAKEN: usize = 8;

/// Bytes of an error at most, and of what stands in it before the packet that it is about.
const LONGEST_ERROR: usize = 1280;
const ERROR_HEADER: usize = 8;

/// An error about a packet: its kind and code, and what stands before the packet.
type Fault = (u8, u8, u32);

/// Nobody has the port.
const NO_PORT: Fault = (1, 4, 0);

/// Kinds and codes of errors that say that trying again is in vain (RFC 4443, 3.1 and 3.4): it is
/// prohibited, nobody has the port, a rule for its sender or its way rejects it, nobody knows the
/// protocol.
const REFUSALS: [(u8, u8); 5] = [(1, 1), (1, 4), (1, 5), (1, 6), (4, 1)];

/// An address that it was asked for whether somebody has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    address: IpAddr,
    until: Option<Instant>,
}

impl Probe {
    /// Whether it was asked for.
    pub fn is_made(&self) -> bool {
        self.until.is_some()
    }

    /// Whether nobody has objected in time.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// A packet that has come, as far as it is known.
struct Came<'a> {
    from: Ipv6Addr,
    to: Ipv6Addr,
    hops: u8,
    /// From its header on, to its end.
    bytes: &'a [u8],
}

impl Stack<'_> {
    pub(super) fn receive_v6(&mut self, now: Instant, payload: &[u8]) -> Option<()> {
        let ip = Ipv6Packet::new_checked(payload).ok()?;
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        // Of addresses that stand for those of IPv4 no packet comes.
        let is_host =
            !(from.is_multicast() || from.is_loopback()) && from.to_ipv4_mapped().is_none();
        let is_ours = self.own.has(to) || self.hears(to);
        if ip.version() != 6 || !is_host || !is_ours {
            return None;
        }
        let came = Came { from, to, hops: ip.hop_limit(), bytes: &payload[..ip.total_len()] };
        let (protocol, at) = match upper(came.bytes) {
            Upper::Is(protocol, at) => (protocol, at),
            Upper::Nothing => return None,
            Upper::Wrong(problem) => return self.tell_problem(now, &came, problem),
        };
        let body = &came.bytes[at..];
        if protocol == ICMPV6 && matches!(body.first(), Some(133..=137)) {
            // As with ARP, no rule is asked.
            return self.receive_discovery(now, &came, body);
        }
        let ends = (IpAddr::V6(from), IpAddr::V6(to));
        if self.own.has(from) {
            return None;
        }
        if from.is_unspecified() || !self.lets(now, Direction::In, ends, protocol, body) {
            return (!from.is_unspecified()).then_some(());
        }
        // Which of our addresses speaks to somebody follows from his.
        let is_spoken_to = self.own.to(from.into()) == to;
        match protocol {
            ICMPV6 => self.receive_icmp_v6(now, &came, body),
            TCP if is_spoken_to && at == IPV6_HEADER => {
                self.tcp.receive(now, from.into(), came.bytes, at);
                Some(())
            }
            TCP if is_spoken_to => {
                let mut plain = packet(from.into(), to.into(), IpProtocol::Tcp, body.len());
                plain[IPV6_HEADER..].copy_from_slice(body);
                self.tcp.receive(now, from.into(), &plain, IPV6_HEADER);
                Some(())
            }
            UDP if is_spoken_to => match self.udp.receive(from.into(), to.into(), body) {
                Taken::Here => Some(()),
                Taken::NoPort => self.tell(now, &came, NO_PORT),
                Taken::Malformed => None,
            },
            _ => None,
        }
    }

    /// Whether it is of a group whose packets come here.
    fn hears(&self, group: Ipv6Addr) -> bool {
        let Own { link, wide, .. } = self.own;
        group == ALL
            || [link, wide].iter().any(|it| !it.is_unspecified() && group == solicited(*it))
    }

    /// Answers an echo request, and hears that a SYN of ours is refused.
    fn receive_icmp_v6(&mut self, now: Instant, came: &Came<'_>, body: &[u8]) -> Option<()> {
        let said = Icmpv6Packet::new_checked(body).ok()?;
        match said.msg_type() {
            Icmpv6Message::DstUnreachable | Icmpv6Message::ParamProblem => {
                let is_whole = said.verify_checksum(&came.from, &came.to);
                let fault = (said.msg_type().into(), said.msg_code());
                is_whole.then(|| self.hear_refusal_v6(fault, body.get(ERROR_HEADER..)?))?
            }
            _ => self.answer_echo_v6(now, came, body),
        }
    }

    /// Hears that nobody takes a packet, of which the beginning is quoted, or that it may not pass.
    fn hear_refusal_v6(&mut self, fault: (u8, u8), quoted: &[u8]) -> Option<()> {
        if !REFUSALS.contains(&fault) {
            return None;
        }
        let (header, segment) = quoted.split_at_checked(IPV6_HEADER)?;
        let ip = Ipv6Packet::new_unchecked(header);
        // What we send has no header in between.
        let is_ours = self.own.has(ip.src_addr()) && ip.next_header() == IpProtocol::Tcp;
        is_ours.then(|| self.tcp.unreachable(ip.dst_addr().into(), segment))
    }

    fn answer_echo_v6(&mut self, now: Instant, came: &Came<'_>, body: &[u8]) -> Option<()> {
        let asked = Icmpv6Packet::new_checked(body).ok()?;
        let checksums = ChecksumCapabilities::default();
        let Icmpv6Repr::EchoRequest { ident, seq_no, data } =
            Icmpv6Repr::parse(&came.from, &came.to, &asked, &checksums).ok()?
        else {
            return None;
        };
        let answer = Icmpv6Repr::EchoReply { ident, seq_no, data };
        let own = match came.to.is_multicast() {
            true => self.own.to(came.from.into()),
            false => came.to.into(),
        };
        let IpAddr::V6(own) = own else { return None };
        if own.is_unspecified() || self.out.len() >= WAITING {
            return None;
        }
        let packet = message(own, came.from, &answer, None);
        self.route(now, came.from.into(), packet);
        self.counts.echoes += 1;
        Some(())
    }

    /// Tells the sender of a packet what is wrong with its headers.
    fn tell_problem(&mut self, now: Instant, came: &Came<'_>, problem: Problem) -> Option<()> {
        let ends = (came.from.into(), came.to.into());
        let is_for_us = !came.to.is_multicast() || problem.of_group;
        if !is_for_us || !self.lets(now, Direction::In, ends, NOTHING, &[]) {
            return None;
        }
        self.tell(now, came, (4, problem.code, problem.pointer as u32))
    }

    /// Tells the sender of a packet that something is wrong with it. `None`: he is not to be told.
    fn tell(&mut self, now: Instant, came: &Came<'_>, (kind, code, said): Fault) -> Option<()> {
        // Nobody is told of an error, so that two cannot tell each other for ever.
        let is_error = match upper(came.bytes) {
            Upper::Is(ICMPV6, at) => came.bytes.get(at).is_none_or(|kind| *kind < 128),
            _ => false,
        };
        let own = self.own.to(came.from.into());
        let is_host = !came.from.is_unspecified() && !own.is_unspecified();
        if is_error || !is_host || self.out.len() >= WAITING {
            return None;
        }
        let most = LONGEST_ERROR - IPV6_HEADER - ERROR_HEADER;
        let quoted = &came.bytes[..came.bytes.len().min(most)];
        let (to, length) = (came.from, ERROR_HEADER + quoted.len());
        let mut bytes = packet(own, to.into(), IpProtocol::Icmpv6, length);
        let body = &mut bytes[IPV6_HEADER..];
        body[..2].copy_from_slice(&[kind, code]);
        body[4..ERROR_HEADER].copy_from_slice(&said.to_be_bytes());
        body[ERROR_HEADER..].copy_from_slice(quoted);
        let IpAddr::V6(own) = own else { return None };
        Icmpv6Packet::new_unchecked(body).fill_checksum(&own, &to);
        self.route(now, to.into(), bytes);
        Some(())
    }

    fn receive_discovery(&mut self, now: Instant, came: &Came<'_>, body: &[u8]) -> Option<()> {
        let said = Icmpv6Packet::new_checked(body).ok()?;
        let checksums = ChecksumCapabilities::default();
        let is_near = came.hops == NEAR && said.msg_code() == 0;
        let Icmpv6Repr::Ndisc(said) =
            Icmpv6Repr::parse(&came.from, &came.to, &said, &checksums).ok().filter(|_| is_near)?
        else {
            return None;
        };
        match said {
            NdiscRepr::NeighborSolicit { target_addr, lladdr } => {
                self.answer_solicitation(now, came, target_addr, mac_of(lladdr))
            }
            NdiscRepr::NeighborAdvert { target_addr, lladdr, flags } => {
                let answers = flags.contains(NdiscNeighborFlags::SOLICITED);
                if target_addr.is_multicast() || answers && came.to.is_multicast() {
                    return None;
                }
                if self.own.has(target_addr) {
                    return self.object(now, target_addr.into());
                }
                let mac = mac_of(lladdr).filter(|_| self.is_near(target_addr.into()))?;
                self.learn(now, target_addr.into(), mac, false);
                Some(())
            }
            NdiscRepr::RouterAdvert { router_lifetime, prefix_info, lladdr, .. } => {
                let own = self.own.link;
                let routers =
                    self.routers.as_mut().filter(|_| is_of_link(&came.from) && came.from != own)?;
                let lifetime = Duration::from_secs(router_lifetime.secs());
                routers.hear(now, came.from, lifetime, prefix_info.as_ref());
                self.follow(now);
                if let Some(mac) = mac_of(lladdr) {
                    self.learn(now, came.from.into(), mac, !lifetime.is_zero());
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Answers who asks whose one of our addresses is, or whether it is anybody's.
    fn answer_solicitation(
        &mut self,
        now: Instant,
        came: &Came<'_>,
        target: Ipv6Addr,
        mac: Option<MacAddress>,
    ) -> Option<()> {
        let asks_for_itself = came.from.is_unspecified();
        let is_sound = match asks_for_itself {
            true => mac.is_none() && came.to == solicited(target),
            false => self.is_near(came.from.into()) && !self.own.has(came.from),
        };
        if !is_sound || !self.own.has(target) || self.out.len() >= WAITING {
            return None;
        }
        if asks_for_itself && self.is_probed(now, target.into()) {
            // Two ask for it at once: neither has it.
            return self.object(now, target.into());
        }
        let mut flags = NdiscNeighborFlags::OVERRIDE;
        flags.set(NdiscNeighborFlags::SOLICITED, !asks_for_itself);
        let lladdr = Some(raw(self.settings.mac));
        let answer =
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr: target, lladdr });
        if let Some(mac) = mac {
            self.learn(now, came.from.into(), mac, true);
        }
        let to = if asks_for_itself { ALL } else { came.from };
        self.pass_on(now, to.into(), message(target, to, &answer, Some(NEAR)));
        Some(())
    }

    /// Asks whose an address is.
    pub(super) fn solicit(&mut self, now: Instant, target: Ipv6Addr) {
        let IpAddr::V6(own) = self.own.to(target.into()) else { return };
        let lladdr = Some(raw(self.settings.mac));
        let asks = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr: target, lladdr });
        let group = solicited(target);
        self.pass_on(now, group.into(), message(own, group, &asks, Some(NEAR)));
    }

    /// Asks who is a router, and whether somebody has our addresses, as far as that is due.
    pub(super) fn ask_link(&mut self, now: Instant) {
        if self.routers.as_mut().is_some_and(|it| it.asks(now)) {
            self.follow(now);
            if !self.own.link.is_unspecified() {
                let lladdr = Some(raw(self.settings.mac));
                let asks = Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { lladdr });
                let asks = message(self.own.link, ROUTERS, &asks, Some(NEAR));
                self.pass_on(now, ROUTERS.into(), asks);
            }
        }
        for place in 0..self.probes.len() {
            let probe = &mut self.probes[place];
            if probe.is_made() {
                continue;
            }
            probe.until = Some(now + OBJECTS);
            let target_addr = match probe.address {
                IpAddr::V6(address) => address,
                IpAddr::V4(address) => {
                    let (nobody, all) = (Ipv4Addr::UNSPECIFIED, MacAddress::BROADCAST);
                    self.send_arp(ArpOperation::Request, nobody, all, address);
                    continue;
                }
            };
            let asks = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr: None });
            let group = solicited(target_addr);
            let asks = message(Ipv6Addr::UNSPECIFIED, group, &asks, Some(NEAR));
            self.pass_on(now, group.into(), asks);
        }
        self.probes.retain(|it| !it.is_over(now));
    }

    /// Has it asked for whether somebody has an address that is new.
    pub(super) fn probe(&mut self, address: IpAddr) {
        if !address.is_unspecified() {
            self.probes.push(Probe { address, until: None });
        }
    }

    pub(super) fn is_probed(&self, now: Instant, address: IpAddr) -> bool {
        self.probes.iter().any(|it| it.address == address && !it.is_over(now))
    }

    /// Somebody else has an address of ours. If that was asked for, it is given up.
    pub(super) fn object(&mut self, now: Instant, address: IpAddr) -> Option<()> {
        if !self.is_probed(now, address) {
            return None;
        }
        self.counts.duplicates += 1;
        self.probes.retain(|it| it.address != address);
        match address {
            IpAddr::V4(_) => self.dhcp.as_mut().into_iter().for_each(|it| it.decline(now)),
            IpAddr::V6(address) => {
                let is_wide = |it: &Ipv6Addr| !is_of_link(it);
                if self.taken.len() >= MOST_TAKEN
                    && let Some(oldest) = self.taken.iter().position(is_wide)
                {
                    self.taken.remove(oldest);
                }
                self.taken.push(address);
            }
        }
        self.follow(now);
        Some(())
    }
}

/// A message as a packet; that which no router has passed on has said so.
fn message(from: Ipv6Addr, to: Ipv6Addr, said: &Icmpv6Repr<'_>, hops: Option<u8>) -> Vec<u8> {
    let (source, target) = (from.into(), to.into());
    let mut bytes = match hops {
        Some(hops) => packet_with(source, target, IpProtocol::Icmpv6, said.buffer_len(), hops),
        None => packet(source, target, IpProtocol::Icmpv6, said.buffer_len()),
    };
    let checksums = ChecksumCapabilities::default();
    said.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(&mut bytes[IPV6_HEADER..]), &checksums);
    bytes
}

fn raw(mac: MacAddress) -> RawHardwareAddress {
    EthernetAddress(mac.0).into()
}

fn mac_of(said: Option<RawHardwareAddress>) -> Option<MacAddress> {
    said?.as_bytes().try_into().ok().map(MacAddress)
}
