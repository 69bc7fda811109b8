//! A package that serves the records of its core by memcached's text protocol (docs/streaming.md),
//! to unmodified clients. What is stored outlives the package, as connections do: it is its
//! kernel's.
//!
//! * `request`: what clients ask for. `answer`: what they are answered.
//! * `table`: values of clients as records. `session`: how far a connection is.
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

use nile_abi::call::System;
use nile_user::net;

/// The port if the argument names none.
const PORT: u16 = 11211;

/// Serves until it is stopped. The argument is the port, or nothing for 11211; behind it there may
/// be how many connections there can be at once.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    net::serve(system, ("memcached", PORT), argument, |network, services, port| {
        server::serve(network, services.stl(), port)
    })
}
