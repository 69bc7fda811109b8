//! Ethernet as far as all parts agree on it: addresses, the header, the numbers of our protocols.

use core::fmt;

/// The address of a network interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Every interface.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);

    /// The locally administered address of a node's interface, for networks of our own. Nobody
    /// derives a peer's address from its name by this: addresses are learned from frames.
    pub fn local(node: crate::NodeId, interface: u8) -> MacAddress {
        let [a, b, c, d] = node.0.to_be_bytes();
        MacAddress([0x02, a, b, c, d, interface])
    }

    /// The node whose interface has this address, if it is one of our own networks.
    pub fn node(self) -> Option<crate::NodeId> {
        let [kind, a, b, c, d, _] = self.0;
        (kind == 0x02).then_some(crate::NodeId(u32::from_be_bytes([a, b, c, d])))
    }

    /// Whether frames to this address go to more than one interface.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Bytes of the header of an Ethernet II frame: destination, source, type.
pub const HEADER_BYTES: usize = 14;

/// The type of frames that carry calls between nodes: IPI over Ethernet.
pub const CALLS: u16 = 0x88b5;

/// The type of frames that carry bulk transfers.
pub const BULK: u16 = 0x88b6;

/// Bytes of the largest frame without its check sequence, on a link without jumbo frames.
pub const STANDARD_FRAME: usize = HEADER_BYTES + 1500;
