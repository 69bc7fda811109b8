//! The IPv4 network of a cluster: which address each node has, unless it is told another one.

use core::net::Ipv4Addr;

use crate::NodeId;

/// The type of frames that carry IPv4.
pub const IPV4: u16 = 0x0800;
/// That of the resolution of its addresses.
pub const ARP: u16 = 0x0806;

/// Bits that all addresses of the network have in common.
pub const PREFIX: u8 = 16;

/// Who connects the network with the machine that a cluster runs on, if anybody does.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 42, 255, 254);

/// Nodes that have an address: those up to this number.
pub const MOST_NODES: u32 = 0xfeff;

/// The address of a node: n1 has 10.42.0.1. `None` for a node that is beyond [`MOST_NODES`].
pub fn address_of(node: NodeId) -> Option<Ipv4Addr> {
    let [_, _, high, low] = node.0.to_be_bytes();
    (1..=MOST_NODES).contains(&node.0).then(|| Ipv4Addr::new(10, 42, high, low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_an_address_of_its_own() {
        let address = |node| address_of(NodeId(node)).map(|it| it.octets());
        assert_eq!(address(1), Some([10, 42, 0, 1]));
        assert_eq!(address(258), Some([10, 42, 1, 2]));
        assert_eq!(address(MOST_NODES), Some([10, 42, 254, 255]));
        assert_eq!((address(0), address(MOST_NODES + 1), address(u32::MAX)), (None, None, None));
    }
}
