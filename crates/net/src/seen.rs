//! A packet as the filter sees it.

use core::net::Ipv4Addr;

use nile_filter::packet::{ICMP, TCP, UDP};
use nile_filter::{Connection, Direction, Packet, Signal};
use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, IpProtocol, Ipv4Packet, TcpPacket, UdpPacket};

/// Bytes of an ICMP message before what it quotes.
const ICMP_HEADER: usize = 8;

/// What a packet is, whose IPv4 header was checked. One whose payload makes no sense has no ports
/// and is of no connection.
pub fn packet(direction: Direction, ip: &Ipv4Packet<&[u8]>) -> Packet {
    let (from, to) = (ip.src_addr(), ip.dst_addr());
    let (own, other) = match direction {
        Direction::In => (to, from),
        Direction::Out => (from, to),
    };
    let protocol = u8::from(ip.next_header());
    let bare = Packet {
        direction,
        protocol,
        own,
        other,
        ports: None,
        connection: None,
        reports: false,
        signal: Signal::Goes,
    };
    match ip.next_header() {
        IpProtocol::Icmp => of_icmp(bare, ip.payload()),
        _ => match ports(protocol, ip.payload()) {
            Some((source, target, signal)) => {
                let ports = match direction {
                    Direction::In => (target, source),
                    Direction::Out => (source, target),
                };
                let connection = Some(Connection { protocol, other, ports });
                Packet { ports: Some(ports), connection, signal, ..bare }
            }
            None => bare,
        },
    }
}

/// The ports of a segment or a datagram, and what it does to its connection.
fn ports(protocol: u8, payload: &[u8]) -> Option<(u16, u16, Signal)> {
    match protocol {
        TCP => {
            let segment = TcpPacket::new_checked(payload).ok()?;
            let signal = match (segment.rst(), segment.fin()) {
                (true, _) => Signal::Breaks,
                (_, true) => Signal::Ends,
                _ => Signal::Goes,
            };
            Some((segment.src_port(), segment.dst_port(), signal))
        }
        UDP => {
            let datagram = UdpPacket::new_checked(payload).ok()?;
            Some((datagram.src_port(), datagram.dst_port(), Signal::Goes))
        }
        _ => None,
    }
}

/// An echo is of a connection of its own; an error is of that whose packet it quotes.
fn of_icmp(bare: Packet, payload: &[u8]) -> Packet {
    let Ok(message) = Icmpv4Packet::new_checked(payload) else { return bare };
    match message.msg_type() {
        Icmpv4Message::EchoRequest | Icmpv4Message::EchoReply => {
            let ports = (message.echo_ident(), message.echo_ident());
            let connection = Connection { protocol: ICMP, other: bare.other, ports };
            Packet { connection: Some(connection), ..bare }
        }
        _ => {
            let quoted = payload.get(ICMP_HEADER..).unwrap_or_default();
            Packet { connection: quote(&bare, quoted), reports: true, ..bare }
        }
    }
}

/// The connection of a quoted packet: one that has gone the other way. Little more than its
/// header may be there, and its ports.
fn quote(bare: &Packet, quoted: &[u8]) -> Option<Connection> {
    let header = 4 * usize::from(quoted.first()? & 15);
    let protocol = *quoted.get(9)?;
    let address = |at: usize| Some(Ipv4Addr::from(*quoted.get(at..)?.first_chunk::<4>()?));
    let ports = quoted.get(header..)?.first_chunk::<4>()?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    let (from, to) = (address(12)?, address(16)?);
    let (own, other, ports) = match bare.direction {
        Direction::In => (from, to, (port(0), port(2))),
        Direction::Out => (to, from, (port(2), port(0))),
    };
    let known = matches!(protocol, TCP | UDP) && own == bare.own;
    known.then_some(Connection { protocol, other, ports })
}
