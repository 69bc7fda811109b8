//! What a package that serves a network tells of its connections. Whoever serves one publishes it.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

/// The most connections of one reply.
pub const MOST_LISTED: usize = 64;

/// The address of a network.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct Address {
    /// The address and the bits that all on its link have in common, `10.42.0.1/16`; empty while
    /// there is none.
    pub at: String,
    /// The addresses of IPv6 in the same way, with a space between them.
    pub v6: String,
    /// The router of IPv6; empty if none is known.
    pub router: String,
    /// The gateway's address; empty if there is none.
    pub gateway: String,
    /// Who is asked for the addresses of names; empty if nobody is.
    pub resolver: String,
    /// Who has lent the address; empty if nobody has.
    pub server: String,
    /// For how many more seconds.
    pub left_s: u64,
}

/// A port that connections are taken to.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The address and the port, `10.42.0.1:80`.
    pub at: String,
    /// Who takes them: the package's name.
    pub package: String,
    /// Connections that it has taken since it has begun.
    pub accepted: u64,
    /// Those of an earlier incarnation that it has gone on with.
    pub resumed: u64,
    /// Handshakes that are not over.
    pub half_open: u32,
}

/// A connection.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// Its number on its node.
    pub number: u64,
    /// Whose it is: the package's name; empty while it waits for that to begin anew.
    pub package: String,
    /// The own address and port.
    pub local: String,
    /// The peer's.
    pub remote: String,
    /// How it stands: `open`, `peer closed` or `closing`.
    pub state: String,
    /// Bytes that have come.
    pub received: u64,
    /// Bytes that the peer has acknowledged.
    pub acknowledged: u64,
    /// Bytes that it has not acknowledged yet.
    pub in_flight: u64,
}

/// The packet filter.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct FilterState {
    /// Its rules, one a line.
    pub rules: String,
    /// Connections that it knows.
    pub connections: u32,
    /// Packets that have gone on while there were rules.
    pub allowed: u64,
    /// Packets that a rule has denied.
    pub denied: u64,
    /// Packets that were dropped as there were too many connections.
    pub crowded: u64,
}

/// Connections of a network that a package serves.
#[service(subsystem = "network", capability = "sockets", layer = high)]
pub trait Sockets {
    /// The address.
    #[stl_u(reply = "address", allow(package, operator, peer))]
    async fn address(&self) -> CallResult<Address>;

    /// The ports that connections are taken to.
    #[stl_u(reply = "listeners", allow(package, operator, peer))]
    async fn listeners(&self) -> CallResult<Vec<Listener>>;

    /// The connections in the order of their numbers: the first ones, or those behind `after`.
    #[stl_u(reply = "connections", allow(package, operator, peer))]
    async fn connections(&self, after: u64) -> CallResult<Vec<Connection>>;

    /// The packet filter, as it was a moment ago.
    #[stl_u(reply = "filter", allow(package, operator, peer))]
    async fn filter(&self) -> CallResult<FilterState>;

    /// Has packets go on only as these rules say, one a line, from now on, also when the package
    /// begins anew. `invalid` for a text that is no rules, with its place. Waits until they hold.
    #[stl_u(allow(operator, peer))]
    async fn set_filter(&self, #[range(0..=32768)] rules: &str) -> CallResult<()>;
}
