//! A package that serves the records of its core by memcached's text protocol (docs/streaming.md),
//! to unmodified clients. What is stored outlives the package, as connections do: it is its
//! kernel's.
//!
//! * [`request`]: what clients ask for. [`answer`]: what they are answered.
//! * [`table`]: values of clients as records. [`session`]: how far a connection is.
//! * `server`: a thread for each connection.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
mod request;
mod server;
mod session;
mod table;
#[cfg(test)]
mod tests;

use nile_abi::CoreId;
use nile_abi::call::System;
use nile_user::net::{self, Network};
use nile_user::{Runtime, log, with_services};

/// The port if the argument names none.
const PORT: u16 = 11211;

/// The exit code if the argument is no port.
const NO_PORT: u64 = 1;
/// The exit code if the network cannot be had, or fails.
const NO_NETWORK: u64 = 3;

/// Serves until it is stopped. The argument is the port, or nothing for 11211; behind it there may
/// be how many connections there can be at once.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some((port, connections)) = net::port_and_connections(argument, PORT) else {
        let _ = log!(system, "the argument is to be the port, or empty");
        return NO_PORT;
    };
    let runtime = Runtime::new(system);
    with_services(&runtime, CoreId(0), |services| {
        let network = Network::open(&runtime, services, "memcached", connections);
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
