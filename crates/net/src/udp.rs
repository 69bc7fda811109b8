//! Datagrams (RFC 768): ports, and what waits at each. Nothing of them outlives whoever has them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, UdpPacket, UdpRepr};

use crate::segment::{header_for, packet};

/// Bytes of a datagram's header.
pub const UDP_HEADER: usize = 8;

/// Datagrams that may wait at a port; more are dropped.
const WAITING: usize = 64;

/// A datagram that has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Who has sent it.
    pub from: SocketAddr,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// What was counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct UdpCounts {
    /// Datagrams that have come to a port that somebody has.
    pub received: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that found no room.
    pub dropped: u64,
    /// Datagrams to ports that nobody has.
    pub strays: u64,
    /// Datagrams with a wrong checksum, or of a wrong form.
    pub malformed: u64,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It waits at its port, or there is no room.
    Here,
    /// Nobody has the port: the sender is told.
    NoPort,
    /// It is none.
    Malformed,
}

/// The ports of an interface.
#[derive(Default)]
pub struct Udp {
    ports: BTreeMap<u16, VecDeque<Datagram>>,
    pub counts: UdpCounts,
}

impl Udp {
    /// Has datagrams to this port wait. `false`: somebody has it.
    pub fn bind(&mut self, port: u16) -> bool {
        let is_free = !self.ports.contains_key(&port);
        if is_free {
            self.ports.insert(port, VecDeque::new());
        }
        is_free
    }

    /// Gives a port back; what waits there is dropped.
    pub fn unbind(&mut self, port: u16) {
        self.ports.remove(&port);
    }

    /// The first datagram that waits at a port.
    pub fn take(&mut self, port: u16) -> Option<Datagram> {
        self.ports.get_mut(&port)?.pop_front()
    }

    /// Takes what a packet to us has in it, whose header was checked.
    pub fn receive(&mut self, from: IpAddr, to: IpAddr, payload: &[u8]) -> Taken {
        let Some((header, bytes)) = parse(from, to, payload) else {
            self.counts.malformed += 1;
            return Taken::Malformed;
        };
        let Some(waiting) = self.ports.get_mut(&header.dst_port) else {
            self.counts.strays += 1;
            return Taken::NoPort;
        };
        if waiting.len() >= WAITING {
            self.counts.dropped += 1;
            return Taken::Here;
        }
        let from = SocketAddr::new(from, header.src_port);
        waiting.push_back(Datagram { from, bytes: bytes.into() });
        self.counts.received += 1;
        Taken::Here
    }

    /// The packet that carries a datagram. Its header takes [`UDP_HEADER`] bytes beside IP's.
    pub fn emit(&mut self, local: IpAddr, port: u16, to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
        let header = UdpRepr { src_port: port, dst_port: to.port() };
        let mut whole = packet(local, to.ip(), IpProtocol::Udp, UDP_HEADER + bytes.len());
        header.emit(
            &mut UdpPacket::new_unchecked(&mut whole[header_for(to.ip())..]),
            &local.into(),
            &to.ip().into(),
            bytes.len(),
            |payload| payload.copy_from_slice(bytes),
            &ChecksumCapabilities::default(),
        );
        self.counts.sent += 1;
        whole
    }
}

/// The header of a datagram and what it says, if it is one.
pub fn parse(from: IpAddr, to: IpAddr, payload: &[u8]) -> Option<(UdpRepr, &[u8])> {
    let (source, target) = (from.into(), to.into());
    let datagram = UdpPacket::new_checked(payload).ok()?;
    let checksums = ChecksumCapabilities::default();
    let header = UdpRepr::parse(&datagram, &source, &target, &checksums).ok()?;
    Some((header, datagram.payload()))
}
