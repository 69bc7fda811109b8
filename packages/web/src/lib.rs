//! A package that serves the cluster's datasets over HTTP (docs/network.md). It has a core for
//! itself, takes frames from the network and gives frames to it, and asks its node's services for
//! what it serves. Its connections live in a keep: whatever becomes of the package, its next
//! incarnation goes on with them.
//!
//! * [`request`], [`answer`]: HTTP. [`pages`]: what there is.
//! * [`session`]: what a connection is about, in the connection's memory. [`data`]: datasets.
//! * `server`: a thread for each connection.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod answer;
pub mod data;
pub mod pages;
pub mod request;
mod server;
pub mod session;

use nile_abi::CoreId;
use nile_abi::call::System;
use nile_user::net::{self, Network};
use nile_user::{Runtime, log, with_services};

/// The port if the argument names none.
const PORT: u16 = 80;

/// The exit code if the argument is no port.
const NO_PORT: u64 = 1;
/// The exit code if the network cannot be had, or fails.
const NO_NETWORK: u64 = 3;

/// Serves until it is stopped. The argument is the port, or nothing for 80; behind it there may be
/// how many connections there can be at once, where no manifest says how much memory there is.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some((port, slots)) = net::port_and_connections(argument, PORT) else {
        let _ = log!(system, "the argument is to be the port, or empty");
        return NO_PORT;
    };
    let runtime = Runtime::new(system);
    // Only calls between the package's own services would ask which core it is.
    with_services(&runtime, CoreId(0), |services| {
        let network = Network::open(&runtime, services, "web", slots);
        let served = network.and_then(|network| server::serve(&network, services.stl(), port));
        match served {
            Ok(never) => match never {},
            Err(error) => {
                let _ = log!(system, "{error}");
                NO_NETWORK
            }
        }
    })
}
