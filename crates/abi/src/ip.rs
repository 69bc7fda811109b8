//! The network of a cluster: which addresses each node has.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::NodeId;

/// The type of frames that carry IPv4.
pub const IPV4: u16 = 0x0800;
/// That of the resolution of its addresses.
pub const ARP: u16 = 0x0806;

/// The type of frames that carry IPv6.
pub const IPV6: u16 = 0x86dd;

/// The addresses of a network of IPv4: n1 has one, n2 the next one, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    first: Ipv4Addr,
    prefix: u8,
    gateway: Ipv4Addr,
}

impl Addresses {
    /// What a cluster has unless it is told otherwise: n1 has 10.42.0.1.
    pub const USUAL: Addresses = Addresses {
        first: Ipv4Addr::new(10, 42, 0, 1),
        prefix: 16,
        gateway: Ipv4Addr::new(10, 42, 255, 254),
    };

    /// The network in which n1 has the address `first`, and all addresses have so many bits in
    /// common. The gateway is the last address, unless another one is said. `None` if a network has
    /// no such addresses, as it has fewer than eight bits in common, or more than 30.
    pub fn new(first: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> Option<Addresses> {
        if !(8..=30).contains(&prefix) || first.is_multicast() {
            return None;
        }
        let last = Ipv4Addr::from_bits((first.to_bits() | !mask(prefix)) - 1);
        let addresses = Addresses { first, prefix, gateway: gateway.unwrap_or(last) };
        let is_good = addresses.has(addresses.gateway) && addresses.address_of(NodeId(1)).is_some();
        is_good.then_some(addresses)
    }

    /// An address with the bits that a network has in common, as `10.42.0.1/16`; `None` for any
    /// other text.
    pub fn parse(text: &str) -> Option<(Ipv4Addr, u8)> {
        let (address, prefix) = text.split_once('/')?;
        Some((address.parse().ok()?, prefix.parse().ok()?))
    }

    /// The address of a node. `None` if there are not so many.
    pub fn address_of(&self, node: NodeId) -> Option<Ipv4Addr> {
        let beyond = node.0.checked_sub(1)?;
        let address = Ipv4Addr::from_bits(self.first.to_bits().checked_add(beyond)?);
        (self.has(address) && address != self.gateway).then_some(address)
    }

    /// Whether an interface of the network can have the address.
    fn has(&self, address: Ipv4Addr) -> bool {
        let (bits, mask) = (address.to_bits(), mask(self.prefix));
        let is_near = (bits ^ self.first.to_bits()) & mask == 0;
        is_near && bits & !mask != 0 && bits | mask != u32::MAX
    }

    /// The address of n1.
    pub fn first(&self) -> Ipv4Addr {
        self.first
    }

    /// Bits that all addresses have in common.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The bits that all addresses have in common, as a mask.
    pub fn mask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask(self.prefix))
    }

    /// Who connects the network with others, if anybody does.
    pub fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }
}

/// Where nodes have their addresses of IPv6, beside those for their link.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Wide {
    /// They have none.
    #[default]
    None,
    /// From routers.
    Advertised,
    /// n1 has one, n2 the next one, and so on.
    From(FirstOfMany),
}

/// An address of IPv6 and those behind it, with so many bits in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstOfMany {
    first: Ipv6Addr,
    prefix: u8,
}

impl FirstOfMany {
    /// What a text says, as `fd42::1/64`; `None` if it is no such network: one has 8 to 120 bits
    /// in common, and n1's address is no group's, nor for one link alone.
    pub fn parse(text: &str) -> Option<FirstOfMany> {
        let (address, prefix) = text.split_once('/')?;
        let (first, prefix) = (address.parse().ok()?, prefix.parse().ok()?);
        let all = FirstOfMany { first, prefix };
        let is_wide = !(first.is_multicast() || first.is_unicast_link_local())
            && first.to_ipv4_mapped().is_none();
        let is_good = (8..=120).contains(&prefix) && is_wide && !first.is_loopback();
        (is_good && all.address_of(NodeId(1)).is_some()).then_some(all)
    }

    /// The address of a node. `None` if there are not so many. The one without any other bits
    /// belongs to routers (RFC 4291, 2.6.1).
    pub fn address_of(&self, node: NodeId) -> Option<Ipv6Addr> {
        let beyond = u128::from(node.0.checked_sub(1)?);
        let bits = self.first.to_bits().checked_add(beyond)?;
        let common = u128::MAX << (128 - u32::from(self.prefix));
        let is_near = (bits ^ self.first.to_bits()) & common == 0 && bits & !common != 0;
        let address = is_near.then(|| Ipv6Addr::from_bits(bits));
        address.filter(|it| *it != self.gateway())
    }

    /// The address of a gateway to the machine that a cluster runs on: the last one that is no
    /// group of routers (RFC 2526).
    pub fn gateway(&self) -> Ipv6Addr {
        let own = u128::MAX >> u32::from(self.prefix);
        Ipv6Addr::from_bits((self.first.to_bits() | own) - 0x80)
    }

    /// The address of n1.
    pub fn first(&self) -> Ipv6Addr {
        self.first
    }

    /// Bits that all addresses have in common.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX << (32 - u32::from(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_an_address_of_its_own() {
        let usual = Addresses::USUAL;
        assert_eq!(Addresses::new(usual.first, 16, None), Some(usual));
        let address = |node| usual.address_of(NodeId(node)).map(|it| it.octets());
        assert_eq!(address(1), Some([10, 42, 0, 1]));
        assert_eq!(address(258), Some([10, 42, 1, 2]));
        assert_eq!(address(0xfffd), Some([10, 42, 255, 253]));
        assert_eq!((address(0), address(0xfffe), address(0xffff)), (None, None, None));
        assert_eq!(address(u32::MAX), None);
    }

    #[test]
    fn each_node_has_an_address_of_ipv6() {
        let all = FirstOfMany::parse("fd42::1/64").unwrap();
        let address = |node| all.address_of(NodeId(node)).map(|it| it.segments());
        assert_eq!(address(1), Some([0xfd42, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(address(0x1_0000), Some([0xfd42, 0, 0, 0, 0, 0, 1, 0]));
        assert_eq!((address(0), address(u32::MAX).is_some()), (None, true));
        let few = FirstOfMany::parse("2001:db8::fe/120").unwrap();
        assert!(few.address_of(NodeId(2)).is_some() && few.address_of(NodeId(3)).is_none());
        let gateway = [0xfd42, 0, 0, 0, 0xffff, 0xffff, 0xffff, 0xff7f];
        assert_eq!(all.gateway().segments(), gateway);
        assert_eq!(FirstOfMany::parse("fd42::7f/120"), None, "it is the gateway's");
        for wrong in [
            "fd42::1",
            "fd42::1/121",
            "fd42::/64",
            "fe80::1/64",
            "ff02::1/64",
            "::1/64",
            "auto",
            "",
        ] {
            assert_eq!(FirstOfMany::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_network_has_room_for_a_node_and_a_gateway() {
        let new = |first: [u8; 4], prefix, gateway: Option<[u8; 4]>| {
            let made = Addresses::new(first.into(), prefix, gateway.map(Ipv4Addr::from));
            made.map(|it| (it.gateway().octets(), it.address_of(NodeId(2)).map(|it| it.octets())))
        };
        let second = Some([192, 168, 7, 6]);
        assert_eq!(new([192, 168, 7, 5], 24, None), Some(([192, 168, 7, 254], second)));
        let gateway = Some([192, 168, 7, 1]);
        assert_eq!(new([192, 168, 7, 5], 24, gateway), Some(([192, 168, 7, 1], second)));
        assert_eq!(new([10, 0, 0, 1], 30, None), Some(([10, 0, 0, 2], None)));
        for (first, prefix, gateway) in [
            ([10, 0, 0, 0], 24, None),
            ([10, 0, 0, 255], 24, None),
            ([10, 0, 0, 254], 24, None),
            ([10, 0, 0, 1], 31, None),
            ([10, 0, 0, 1], 7, None),
            ([224, 0, 0, 1], 24, None),
            ([10, 0, 0, 1], 24, Some([10, 0, 1, 1])),
            ([10, 0, 0, 1], 24, Some([10, 0, 0, 1])),
            ([10, 0, 0, 1], 24, Some([10, 0, 0, 255])),
        ] {
            assert_eq!(new(first, prefix, gateway), None, "{first:?}/{prefix} {gateway:?}");
        }
    }
}
