//! The network of a node for its packages (docs/network.md): it has the frames, and IPv4, TCP and
//! UDP over them. Other packages of the node have sockets by it. Its connections live in its keep
//! and in theirs: whoever of them ends, the others go on, and its next incarnation with them.
//!
//! * `attach`: how a package comes to its channels. `server`: the stack and the sessions.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod attach;
mod server;

use nile_abi::CoreId;
use nile_abi::call::System;
use nile_user::net;
use nile_user::{Runtime, log, with_services};

/// The exit code if the argument is no number, and if the network cannot be had or fails.
const NO_NUMBER: u64 = 1;
const NO_NETWORK: u64 = 3;

/// Serves until it is stopped. The argument is how many connections there can be at once, or
/// nothing, where a manifest says how much memory there is.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let connections = match core::str::from_utf8(argument).map(str::trim) {
        Ok("") => Some(net::CONNECTIONS),
        Ok(text) => text.parse().ok().filter(|it| *it > 0),
        Err(_) => None,
    };
    let Some(connections) = connections else {
        let _ = log!(system, "the argument is to be a number of connections, or empty");
        return NO_NUMBER;
    };
    let runtime = Runtime::new(system);
    with_services(&runtime, CoreId(0), |services| {
        let Err(error) = server::serve(&runtime, services, connections);
        let _ = log!(system, "{error}");
        NO_NETWORK
    })
}
