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

use nile_abi::call::System;
use nile_user::net;

/// The port if the argument names none.
const PORT: u16 = 5201;

/// Serves until it is stopped. The argument is the port, or nothing for 5201; behind it there may
/// be how many connections there can be at once.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    net::serve(system, ("iperf", PORT), argument, |network, services, port| {
        server::serve(network, services.stl(), port)
    })
}
