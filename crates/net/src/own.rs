//! The addresses of an interface: one of IPv4, one of IPv6 for its link, and one of IPv6 beyond it.
//! Which of them speaks to somebody follows from the other side's address alone, so a connection
//! is known by that and both ports.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nile_abi::MacAddress;
use nile_filter::rule::is_near;

use crate::segment::header_for;
use crate::udp::UDP_HEADER;

/// Bytes of the largest packet that every link of IPv6 carries (RFC 8200, 5): routers send no
/// pieces of larger ones, and what they say of that is not heard.
const EVERYWHERE: usize = 1280;

/// Bits that the addresses of a link have in common.
pub const LINK_BITS: u8 = 64;

/// The first bits of the addresses for a link.
const LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// The addresses of an interface; those that it does not have are unspecified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// That of IPv4.
    pub v4: Ipv4Addr,
    /// That of IPv6 which is for the link alone.
    pub link: Ipv6Addr,
    /// That of IPv6 which others may know.
    pub wide: Ipv6Addr,
    /// Bits that those of the link have in common with it.
    pub prefix: u8,
    /// Bytes of the largest packet of the link.
    pub max_packet: usize,
}

impl Own {
    /// The address that speaks to another one; unspecified if there is none.
    pub fn to(&self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => self.v4.into(),
            IpAddr::V6(other) if is_of_link(&other) => self.link.into(),
            IpAddr::V6(_) => self.wide.into(),
        }
    }

    /// Bytes of the largest packet for another address.
    pub fn most(&self, other: IpAddr) -> usize {
        let is_far = match other {
            IpAddr::V4(_) => false,
            IpAddr::V6(it) if is_of_link(&it) => false,
            IpAddr::V6(_) => !is_near(other, self.wide.into(), self.prefix),
        };
        if is_far { self.max_packet.min(EVERYWHERE) } else { self.max_packet }
    }

    /// Bytes of the longest datagram for another address: it goes in one packet.
    pub fn max_datagram(&self, other: IpAddr) -> usize {
        self.most(other).saturating_sub(header_for(other) + UDP_HEADER)
    }

    /// The address for the link with these last bits; unspecified if they are zero.
    pub(crate) fn link_of(bits: u64) -> Ipv6Addr {
        let address = LINK.to_bits() | u128::from(bits);
        if bits == 0 { Ipv6Addr::UNSPECIFIED } else { Ipv6Addr::from_bits(address) }
    }

    /// Whether it is one of them.
    pub fn has(&self, address: Ipv6Addr) -> bool {
        !address.is_unspecified() && (address == self.link || address == self.wide)
    }
}

/// Whether an address is for one link alone: an interface's or a group's.
pub fn is_of_link(address: &Ipv6Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_unicast_link_local() || first == 0xff && second & 15 == 2
}

/// The address of an interface with these first 64 bits (RFC 4291, appendix A).
pub fn address_in(prefix: Ipv6Addr, mac: MacAddress) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    let own = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    let mask = u128::MAX << (128 - u32::from(LINK_BITS));
    Ipv6Addr::from_bits(prefix.to_bits() & mask | u128::from(own))
}

/// The address of an interface for its link.
pub fn link_address(mac: MacAddress) -> Ipv6Addr {
    address_in(LINK, mac)
}

/// The group of those whose addresses end alike (RFC 4291, 2.7.1).
pub fn solicited(address: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | address.to_bits() & 0xff_ffff)
}

/// The interfaces of a group (RFC 2464, 7).
pub fn group_mac(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    MacAddress([0x33, 0x33, a, b, c, d])
}
