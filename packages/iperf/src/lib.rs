//! A package that is a server of iperf3 for TCP, so that an unmodified `iperf3` measures a node's
//! network: `iperf3 -c HOST`, with `-P`, `-R`, `--bidir`, `-n`, `-O`. One test at a time, as that
//! server does.
//!
//! * [`protocol`]: what both sides say of a test. `server`: the tests.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod protocol;
mod server;

use nile_abi::CoreId;
use nile_abi::call::System;
use nile_user::net::{self, Network};
use nile_user::{Runtime, log, with_services};

/// The port if the argument names none.
const PORT: u16 = 5201;

/// The exit code if the argument is no port, and if the network cannot be had or fails.
const NO_PORT: u64 = 1;
const NO_NETWORK: u64 = 3;

/// Serves until it is stopped. The argument is the port, or nothing for 5201; behind it there may
/// be how many connections there can be at once.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some((port, connections)) = net::port_and_connections(argument, PORT) else {
        let _ = log!(system, "the argument is to be the port, or empty");
        return NO_PORT;
    };
    let runtime = Runtime::new(system);
    with_services(&runtime, CoreId(0), |services| {
        let network = Network::open(&runtime, services, "iperf", connections);
        match network.and_then(|network| server::serve(&network, services.stl(), port)) {
            Ok(never) => match never {},
            Err(error) => {
                let _ = log!(system, "{error}");
                NO_NETWORK
            }
        }
    })
}
