//! A package that serves the cluster's datasets over HTTP (docs/network.md). It has a core for
//! itself, takes frames from the network and gives frames to it, and asks its node's services for
//! what it serves. Its connections live in a keep: whatever becomes of the package, its next
//! incarnation goes on with them.
//!
//! * [`request`], [`answer`]: HTTP. [`pages`]: what there is.
//! * [`session`]: what a connection is about, in the connection's memory. [`data`]: datasets.
//! * [`shown`]: what is told of the connections. `server`: the loop.
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
pub mod shown;

use nile_abi::CoreId;
use nile_abi::call::System;
use nile_net::Memory;
use nile_user::{Runtime, log, with_services};

/// The version of what is in the keep.
const VERSION: u16 = 1;

/// The port if the argument names none.
const PORT: u16 = 80;

/// Connections at once; the manifest has the bytes that they want.
const CONNECTIONS: usize = 128;

/// The exit code if the argument is no port.
const NO_PORT: u64 = 1;
/// The exit code if the memory of the connections cannot be had.
const NO_KEEP: u64 = 2;
/// The exit code if a service that it needs fails.
const NO_SERVICE: u64 = 3;

/// Serves until it is stopped. The argument is the port, or nothing for 80; behind it there may be
/// how many connections there can be at once, where no manifest says how much memory there is.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let text = core::str::from_utf8(argument).unwrap_or("?").trim();
    let mut words = text.split_whitespace();
    let port = words.next().map_or(Some(PORT), |it| it.parse().ok().filter(|port| *port > 0));
    let slots = words.next().map_or(Some(CONNECTIONS), |it| it.parse().ok());
    let (Some(port), Some(slots)) = (port, slots) else {
        let _ = log!(system, "the argument is to be the port, or empty: {text:?}");
        return NO_PORT;
    };
    let runtime = Runtime::new(system);
    let keep = match runtime.keep("connections", nile_net::memory::words(slots) as u64 * 8, VERSION)
    {
        Ok(keep) => keep,
        Err(error) => {
            let _ = log!(system, "no memory for connections: {error}");
            return NO_KEEP;
        }
    };
    // Only calls between the package's own services would ask which core it is.
    with_services(&runtime, CoreId(0), |services| {
        let served = services.block_on(server::serve(services, port, |seed| {
            // The keep has as many words as were asked for.
            Memory::new(keep.words(), seed)
        }));
        match served {
            Ok(never) => match never {},
            Err(error) => {
                let _ = log!(system, "{error}");
                NO_SERVICE
            }
        }
    })
}
