//! A learning Ethernet switch with a fault model per link. Sans-IO: frames and moments go in,
//! frames and deadlines come out. The `nile` program runs it over sockets, the simulations run it
//! in virtual time; both have the same faults.
//!
//! A *port* is a socket of the switch, a *link* the full-duplex cable that is plugged in there. A
//! frame from one port to another crosses two cables, the sender's towards the switch and the
//! receiver's away from it, and suffers the settings of both: two links with 10 µs of delay put
//! 20 µs between their ends. The two directions of a cable have their own rate and queue.
//!
//! * [`link`]: the settings of a cable: delay, rate, queue and faults.
//! * [`frame`]: a frame that is cheap to send to many ports.
//! * `lane`: one direction of a cable: what comes out of it, when, and how often.
//! * `addresses`: behind which port an address is.
//! * `backlog`: what waits for a port's owner, fairly shared between senders.
//! * [`counts`]: what a port has seen.
//! * [`switch`]: the switch itself.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod addresses;
mod backlog;
pub mod counts;
pub mod frame;
mod lane;
pub mod link;
pub mod switch;
#[cfg(test)]
mod tests;

pub use counts::Counts;
pub use frame::Frame;
pub use link::{Link, Probability, Rate};
pub use switch::{PortId, Switch};
