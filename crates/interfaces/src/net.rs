//! The network of a node for its packages: what the package `net` gives them.

use nile_stl::{CallResult, Caller, Record, service};

/// The channels of a session: tags on either core.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetChannels {
    /// The package accepts this one, which `net` opens to its core.
    pub down: u32,
    /// The package opens this one to the core that the other one comes from.
    pub up: u32,
}

/// Sockets for packages, whose cells go through channels (docs/network.md).
#[service(subsystem = "network", capability = "streams", layer = high)]
pub trait Net {
    /// Says that it is there: what a package asks before it has a network of its own.
    #[stl_u(allow(package))]
    fn ready(&self) -> CallResult<()>;

    /// Begins a session with the package that calls, in place of the last one by the name that it
    /// says first. Does not wait for the channels.
    #[stl_u(reply = "channels", allow(package))]
    async fn attach(&self, caller: &Caller) -> CallResult<NetChannels>;
}
