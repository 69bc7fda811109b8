//! Packets of IPv4, and who has its addresses on the link: ARP and ICMP.

use alloc::vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use nile_abi::{Instant, MacAddress};
use nile_filter::Direction;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DHCP_CLIENT_PORT, DHCP_SERVER_PORT, EthernetAddress,
    EthernetProtocol, Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol,
    Ipv4Packet, Ipv4Repr, UdpRepr,
};

use super::{Stack, WAITING};
use crate::dhcp::Message;
use crate::segment::{IPV4_HEADER, packet};
use crate::udp::{self, Taken, UDP_HEADER};

impl Stack<'_> {
    pub(super) fn receive_arp(&mut self, now: Instant, payload: &[u8]) -> Option<()> {
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
        let (own, mac) = (self.settings.address, MacAddress(from.0));
        let asks = operation == ArpOperation::Request && target == own && !own.is_unspecified();
        if mac == self.settings.mac {
            return None;
        }
        // Somebody has it, or looks whether it is free as we do (RFC 5227).
        if ip == own || asks && ip.is_unspecified() && self.is_probed(now, own.into()) {
            return self.object(now, own.into());
        }
        let is_nobody = ip.is_unspecified();
        let is_sound = if is_nobody { asks } else { self.is_near(ip.into()) };
        if !is_sound {
            return None;
        }
        if !is_nobody {
            self.learn(now, ip.into(), mac, asks);
        }
        if asks && self.out.len() < WAITING {
            self.send_arp(ArpOperation::Reply, own, mac, ip);
        }
        Some(())
    }

    pub(super) fn send_arp(
        &mut self,
        operation: ArpOperation,
        from: Ipv4Addr,
        to: MacAddress,
        target: Ipv4Addr,
    ) {
        let message = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.settings.mac.0),
            source_protocol_addr: from,
            target_hardware_addr: EthernetAddress(to.0),
            target_protocol_addr: target,
        };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut ArpPacket::new_unchecked(&mut bytes[..]));
        self.send_frame(to, EthernetProtocol::Arp, &bytes);
    }

    pub(super) fn receive_v4(&mut self, now: Instant, payload: &[u8]) -> Option<()> {
        let ip = Ipv4Packet::new_checked(payload).ok()?;
        let is_whole = !ip.more_frags() && ip.frag_offset() == 0;
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        let is_host = !from.is_broadcast() && !from.is_multicast() && !from.is_unspecified();
        if ip.version() != 4 || !ip.verify_checksum() || !is_whole || !is_host {
            return None;
        }
        let ends = (IpAddr::V4(from), IpAddr::V4(to));
        if self.dhcp.is_some() && ip.next_header() == IpProtocol::Udp {
            let datagram = udp::parse(ends.0, ends.1, ip.payload());
            let is_said = |it: &(UdpRepr, _)| {
                (it.0.src_port, it.0.dst_port) == (DHCP_SERVER_PORT, DHCP_CLIENT_PORT)
            };
            // No rule is asked: without an address there is nothing that a filter is for.
            if let Some((_, message)) = datagram.filter(is_said) {
                self.dhcp.as_mut().into_iter().for_each(|it| it.receive(now, message));
                self.follow(now);
                return Some(());
            }
        }
        let is_ours = to == self.settings.address && !to.is_unspecified();
        if !is_ours || from == to {
            return None;
        }
        if !self.lets(now, Direction::In, ends, ip.next_header().into(), ip.payload()) {
            return Some(());
        }
        match ip.next_header() {
            IpProtocol::Tcp => {
                let packet = &payload[..usize::from(ip.total_len())];
                self.tcp.receive(now, ends.0, packet, ip.header_len().into());
                Some(())
            }
            IpProtocol::Icmp => self.receive_icmp_v4(now, from, ip.payload()),
            IpProtocol::Udp => match self.udp.receive(ends.0, ends.1, ip.payload()) {
                Taken::Here => Some(()),
                Taken::NoPort => self.no_port_v4(now, &ip),
                Taken::Malformed => None,
            },
            _ => None,
        }
    }

    /// Tells the sender of a datagram that nobody has the port (RFC 1122, 4.1.3.1).
    fn no_port_v4(&mut self, now: Instant, ip: &Ipv4Packet<&[u8]>) -> Option<()> {
        let from = ip.src_addr();
        let header = Ipv4Repr::parse(ip, &ChecksumCapabilities::default()).ok()?;
        let payload = ip.payload();
        let answer = Icmpv4Repr::DstUnreachable {
            reason: Icmpv4DstUnreachable::PortUnreachable,
            header,
            data: &payload[..payload.len().min(UDP_HEADER)],
        };
        self.send_icmp_v4(now, from, &answer)
    }

    /// Answers an echo request, and hears that a SYN of ours is refused.
    fn receive_icmp_v4(&mut self, now: Instant, from: Ipv4Addr, payload: &[u8]) -> Option<()> {
        let checksums = ChecksumCapabilities::default();
        let said = Icmpv4Packet::new_checked(payload).ok()?;
        if said.msg_type() == Icmpv4Message::DstUnreachable && said.verify_checksum() {
            return self.hear_refusal_v4(said.msg_code().into(), said.data());
        }
        let Icmpv4Repr::EchoRequest { ident, seq_no, data } =
            Icmpv4Repr::parse(&said, &checksums).ok()?
        else {
            return None;
        };
        self.send_icmp_v4(now, from, &Icmpv4Repr::EchoReply { ident, seq_no, data })?;
        self.counts.echoes += 1;
        Some(())
    }

    /// Hears that nobody takes a packet, of which the beginning is quoted, or that it may not pass.
    fn hear_refusal_v4(&mut self, reason: Icmpv4DstUnreachable, quoted: &[u8]) -> Option<()> {
        let refuses = matches!(
            reason,
            Icmpv4DstUnreachable::ProtoUnreachable
                | Icmpv4DstUnreachable::PortUnreachable
                | Icmpv4DstUnreachable::NetProhibited
                | Icmpv4DstUnreachable::HostProhibited
                | Icmpv4DstUnreachable::CommProhibited
        );
        let ip = Ipv4Packet::new_unchecked(quoted.get(..IPV4_HEADER)?);
        let is_ours = ip.src_addr() == self.settings.address && ip.next_header() == IpProtocol::Tcp;
        let segment = quoted.get(usize::from(ip.header_len())..)?;
        (refuses && is_ours).then(|| self.tcp.unreachable(ip.dst_addr().into(), segment))
    }

    fn send_icmp_v4(&mut self, now: Instant, to: Ipv4Addr, message: &Icmpv4Repr<'_>) -> Option<()> {
        if self.out.len() >= WAITING {
            return None;
        }
        let (from, to) = (self.settings.address.into(), to.into());
        let mut bytes = packet(from, to, IpProtocol::Icmp, message.buffer_len());
        let checksums = ChecksumCapabilities::default();
        message.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes[IPV4_HEADER..]), &checksums);
        self.route(now, to, bytes);
        Some(())
    }

    /// Does what is due to have an address.
    pub(super) fn ask_for_address(&mut self, now: Instant) {
        while let Some(Message { from, to, bytes }) = self.dhcp.as_mut().and_then(|it| it.next(now))
        {
            // A lease that is over is not asked with.
            self.follow(now);
            let server = SocketAddr::new(to.into(), DHCP_SERVER_PORT);
            let packet = self.udp.emit(from.into(), DHCP_CLIENT_PORT, server, &bytes);
            match to.is_broadcast() {
                true => self.send_frame(MacAddress::BROADCAST, EthernetProtocol::Ipv4, &packet),
                false => self.pass_on(now, to.into(), packet),
            }
        }
    }
}
