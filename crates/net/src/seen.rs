//! A packet as the filter sees it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nile_filter::packet::{ICMP, ICMPV6, TCP, UDP};
use nile_filter::{Connection, Direction, Packet, Signal};
use smoltcp::wire::{TcpPacket, UdpPacket};

use crate::segment::IPV6_HEADER;

/// Bytes of an ICMP message before what it quotes.
const ICMP_HEADER: usize = 8;

/// What a packet is, whose headers were checked. One whose payload makes no sense has no ports and
/// is of no connection.
pub fn packet(
    direction: Direction,
    (from, to): (IpAddr, IpAddr),
    protocol: u8,
    payload: &[u8],
) -> Packet {
    let (own, other) = match direction {
        Direction::In => (to, from),
        Direction::Out => (from, to),
    };
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
    if matches!(protocol, ICMP | ICMPV6) {
        return of_icmp(bare, payload);
    }
    match ports(protocol, payload) {
        Some((source, target, signal)) => {
            let ports = match direction {
                Direction::In => (target, source),
                Direction::Out => (source, target),
            };
            let connection = Some(Connection { protocol, other, ports });
            Packet { ports: Some(ports), connection, signal, ..bare }
        }
        None => bare,
    }
}

/// The ports of a segment or a datagram, and what it does to its connection.
fn ports(protocol: u8, payload: &[u8]) -> Option<(u16, u16, Signal)> {
    match protocol {
        TCP => {
            let segment = TcpPacket::new_checked(payload).ok()?;
            let signal = match () {
                _ if segment.rst() => Signal::Breaks,
                _ if segment.fin() => Signal::Ends,
                _ if segment.syn() && !segment.ack() => Signal::Begins,
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
    let Some([kind, _, _, _, high, low, _, _]) = payload.first_chunk::<ICMP_HEADER>() else {
        return bare;
    };
    let (is_echo, is_error) = match bare.protocol {
        ICMP => (matches!(kind, 0 | 8), true),
        _ => (matches!(kind, 128 | 129), *kind < 128),
    };
    if is_echo {
        let ident = u16::from_be_bytes([*high, *low]);
        let (protocol, other) = (bare.protocol, bare.other);
        let connection = Connection { protocol, other, ports: (ident, ident) };
        return Packet { connection: Some(connection), ..bare };
    }
    let quoted = payload.get(ICMP_HEADER..).filter(|_| is_error).unwrap_or_default();
    Packet { connection: quote(&bare, quoted), reports: is_error, ..bare }
}

/// The connection of a quoted packet: one that has gone the other way. Little more than its
/// header may be there, and its ports.
fn quote(bare: &Packet, quoted: &[u8]) -> Option<Connection> {
    let (protocol, from, to, header) = match quoted.first()? >> 4 {
        4 => {
            let address = |at: usize| Some(Ipv4Addr::from(*quoted.get(at..)?.first_chunk::<4>()?));
            let header = 4 * usize::from(quoted.first()? & 15);
            (*quoted.get(9)?, IpAddr::V4(address(12)?), IpAddr::V4(address(16)?), header)
        }
        6 => {
            let address = |at: usize| Some(Ipv6Addr::from(*quoted.get(at..)?.first_chunk::<16>()?));
            let (from, to) = (address(8)?, address(24)?);
            (*quoted.get(6)?, IpAddr::V6(from), IpAddr::V6(to), IPV6_HEADER)
        }
        _ => return None,
    };
    let ports = quoted.get(header..)?.first_chunk::<4>()?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    let (own, other, ports) = match bare.direction {
        Direction::In => (from, to, (port(0), port(2))),
        Direction::Out => (to, from, (port(2), port(0))),
    };
    let known = matches!(protocol, TCP | UDP) && own == bare.own;
    known.then_some(Connection { protocol, other, ports })
}
