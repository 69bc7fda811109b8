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

use nile_abi::call::System;
use nile_user::net;

/// The port if the argument names none.
const PORT: u16 = 80;

/// Serves until it is stopped. The argument is the port, or nothing for 80; behind it there may be
/// how many connections there can be at once, where no manifest says how much memory there is.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    net::serve(system, ("web", PORT), argument, |network, services, port| {
        server::serve(network, services.stl(), port)
    })
}
