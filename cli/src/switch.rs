//! `nile switch FOLDER`: the network of a cluster on one machine. A learning Ethernet switch
//! (`nile-switch`) that hosted nodes, QEMU and this program plug into, with faults that are set
//! while it runs. `nile up` starts it.
//!
//! * [`control`]: what can be asked of it, and the client.
//! * [`fault`]: faults as people write them.
//! * [`sockets`]: what is in its folder, and how others connect.
//! * `server`: the loop; `sources`: whom it waits for; `cables`: what is plugged in; `dials`: which
//!   machines to try again.
//! * [`forward`], `gateway`, `splice`: ports of this machine that lead to nodes.
//! * `framing`, `outbox`: frames in streams; `capture`: frames in a file; `client`: one who asks;
//!   [`logs`]: bounds of the logs in its folder.

mod cables;
mod capture;
mod client;
pub mod control;
mod dials;
pub mod fault;
pub mod forward;
mod framing;
mod gateway;
pub mod logs;
mod outbox;
mod server;
pub mod sockets;
mod sources;
mod splice;
#[cfg(test)]
mod tests;

use control::{Answer, Request};
use server::Server;

use crate::args;
use crate::failure::Failure;

/// Runs a switch until it is told to stop, by a request or a signal.
pub fn run(options: &args::Switch) -> Result<(), Failure> {
    let mut server = Server::open(&options.folder, options.seed)?;
    if let Some(interface) = &options.interface {
        server.plug_outside(interface)?;
    }
    if options.gateway.is_some() || !options.forward.is_empty() {
        server.plug_gateway(gateway::start(&gateway::Settings {
            forwards: &options.forward,
            addresses: options.addresses()?,
            wide: options.addresses6()?,
            folder: &options.folder,
            // A network outside has a server of its own.
            lends: options.interface.is_none(),
            seed: options.seed,
        })?)?;
    }
    let capture = match &options.capture {
        Some(file) => {
            let file = std::path::absolute(file).map_err(|error| {
                Failure::request(format!("no capture to {}: {error}", file.display()))
            })?;
            Some(Request::Capture { file })
        }
        None => None,
    };
    let dials = options.dial.iter().map(|name| Request::Dial { name: name.clone() });
    for request in capture.into_iter().chain(dials) {
        if let Answer::Refused { reason } = server.execute(request) {
            return Err(Failure::request(reason));
        }
    }
    server.run()
}
