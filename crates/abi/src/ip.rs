//! The IPv4 network of a cluster: which address each node has.

use core::net::Ipv4Addr;

use crate::NodeId;

/// The type of frames that carry IPv4.
pub const IPV4: u16 = 0x0800;
/// That of the resolution of its addresses.
pub const ARP: u16 = 0x0806;

/// The addresses of a network: n1 has one, n2 the next one, and so on.
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
