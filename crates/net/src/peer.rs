//! Whose a connection is, and what the other side of it can, as words of memory.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use smoltcp::wire::TcpRepr;

/// The largest segment of a peer that names none, and the least that is believed of one.
const USUAL_SEGMENT: u16 = 536;
const LEAST_SEGMENT: u16 = 48;

/// Whose a connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// The other side's address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Our port.
    pub local: u16,
}

impl Peer {
    /// In words, the first of which is never zero: the ports, and the address of IPv6 or the one
    /// that stands for that of IPv4 (RFC 4291, 2.5.5.2), from which nobody speaks.
    pub(crate) fn encode(self) -> [u64; 3] {
        let bits = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let ports = u64::from(self.port) << 16 | u64::from(self.local);
        [1 << 32 | ports, (bits >> 64) as u64, bits as u64]
    }

    pub(crate) fn decode([ports, high, low]: [u64; 3]) -> Peer {
        let address = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        let address = address.to_ipv4_mapped().map_or(address.into(), IpAddr::V4);
        Peer { address, port: (ports >> 16) as u16, local: ports as u16 }
    }

    /// The other side.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }
}

/// What a peer has said in its SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// Bytes of the largest segment that it takes.
    pub segment: u16,
    /// By how much it shifts its window, if it does.
    pub scale: Option<u8>,
    /// Whether it understands selective acknowledgements.
    pub sack: bool,
}

impl Options {
    /// What a SYN says.
    pub fn of(segment: &TcpRepr<'_>) -> Options {
        Options {
            segment: segment.max_seg_size.unwrap_or(USUAL_SEGMENT).max(LEAST_SEGMENT),
            scale: segment.window_scale,
            sack: segment.sack_permitted,
        }
    }

    pub fn encode(self) -> u64 {
        let scale = self.scale.map_or(0, |scale| u64::from(scale.min(14)) + 1);
        u64::from(self.segment) | scale << 16 | u64::from(self.sack) << 24
    }

    pub fn decode(word: u64) -> Options {
        let scale = (word >> 16) as u8;
        Options {
            segment: word as u16,
            scale: scale.checked_sub(1).map(|scale| scale.min(14)),
            sack: word >> 24 & 1 == 1,
        }
    }
}
