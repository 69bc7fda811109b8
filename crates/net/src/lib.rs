//! IPv4, IPv6, TCP and UDP for one interface, without IO or clock: frames and time go in, frames
//! and deadlines come out (docs/network.md).
//!
//! Words: a *stream* is the two directions of a connection as rings of bytes, with offsets of 64
//! bits that never wrap. A *slot* is the memory of one connection: its record and its rings. An
//! *engine* is the state machine of one connection, a stock smoltcp socket in an interface of its
//! own. Slots are the state, engines are code: an engine can be made of its slot at any time.
//! That of each connection was made so when it came about.
//!
//! In reading order:
//!
//! * [`memory`]: the layout of the memory that is handed in, and access to it.
//! * [`stream`]: one connection as its user sees it.
//! * [`tcp`]: all connections: whose a segment is, handshakes, the end. `engine`: one of them;
//!   `peer`: whose it is; `half_open`: handshakes that are not over; `opening`: connections that
//!   this side opens.
//! * `udp`: datagrams. [`lookup`]: questions for the addresses of names.
//! * [`stack`]: the interface: frames, who has an address, ICMP echo. [`own`]: its addresses.
//!   `extensions`: what is between a header of IPv6 and what it carries. `seen`: a packet as the
//!   filter has it.
//! * [`lease`]: an address that somebody has lent. `dhcp`: takes one and prolongs it. [`router`]:
//!   what routers say of a link. [`kept`]: what of both outlives the stack.
//! * [`siphash`]: numbers that nobody can predict.
//! * [`apart`]: a stack whose users are elsewhere.
//! * [`queues`]: smoltcp's device where somebody else carries the frames.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod apart;
mod dhcp;
mod engine;
mod extensions;
mod half_open;
pub mod kept;
pub mod lease;
pub mod lookup;
pub mod memory;
mod neighbours;
mod opening;
pub mod own;
mod peer;
pub mod queues;
pub mod router;
mod seen;
mod segment;
pub mod siphash;
pub mod stack;
pub mod stream;
pub mod tcp;
#[cfg(test)]
mod tests;
mod udp;

pub use lease::Lease;
pub use memory::Memory;
pub use nile_filter as filter;
pub use opening::Progress;
pub use own::Own;
pub use peer::Peer;
pub use queues::Queues;
pub use router::Advertised;
pub use stack::{Counts, Settings, Stack, Wide};
pub use stream::{Phase, Stream};
pub use tcp::{Connection, OWN_PORTS, TcpCounts};
pub use udp::{Datagram, UdpCounts};

use smoltcp::time::Instant as EngineTime;

/// The time as smoltcp has it: microseconds.
pub fn engine_time(now: nile_abi::Instant) -> EngineTime {
    EngineTime::from_micros(i64::try_from(now.as_nanos() / 1000).unwrap_or(i64::MAX))
}

/// A moment of smoltcp's, rounded up so that what is due then is due.
fn from_engine_time(at: EngineTime) -> nile_abi::Instant {
    nile_abi::Instant::from_nanos(
        u64::try_from(at.total_micros()).unwrap_or(0).saturating_mul(1000),
    )
}
