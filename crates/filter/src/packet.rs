//! What the filter looks at in a packet.

use core::net::IpAddr;

/// The numbers of protocols that rules name.
pub const ICMP: u8 = 1;
/// See above.
pub const TCP: u8 = 6;
/// See above.
pub const UDP: u8 = 17;
/// See above: that of IPv6.
pub const ICMPV6: u8 = 58;

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To this node.
    In,
    /// From it.
    Out,
}

/// What a packet does to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It carries something on.
    Goes,
    /// Its side sends no more.
    Ends,
    /// It ends the connection.
    Breaks,
    /// It begins one: another one, if there was one that is over.
    Begins,
}

/// Whose a packet is: a protocol, the node's side and the other one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Connection {
    /// The number of the protocol.
    pub protocol: u8,
    /// The other side's address.
    pub other: IpAddr,
    /// The node's port and the other side's; of an echo its identifier, twice.
    pub ports: (u16, u16),
}

/// A packet that is whole. Its protocol is that behind IPv6's extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Which way it goes.
    pub direction: Direction,
    /// The number of its protocol.
    pub protocol: u8,
    /// The node's address, or that of the group that the node hears.
    pub own: IpAddr,
    /// The other side's address.
    pub other: IpAddr,
    /// The node's port and the other side's, if the protocol has ports.
    pub ports: Option<(u16, u16)>,
    /// The connection that it is of, or that it reports an error of.
    pub connection: Option<Connection>,
    /// Whether it only reports an error: then it begins no connection.
    pub reports: bool,
    /// What it does to the connection.
    pub signal: Signal,
}
