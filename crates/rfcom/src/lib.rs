//! Packets and messages between whoever shares memory: packages of two domains (RainForest 5.4,
//! *RFcom*), or of one node. Neither end makes a system call to send or to receive.
//!
//! * [`Rfcom`]: ports in a region, of which each has one channel at a time. `rf_open` of the paper
//!   is [`Rfcom::open`], `rf_close` is [`Channel::close`].
//! * [`Channel`]: one end of a channel: `rf_write` and `rf_read` are [`Channel::write`] and
//!   [`Channel::read`]. None of them waits: who is to wait looks again.
//! * [`Post`]: messages of a cache line to one member, to some, to all (5.2, *FICM*).
//! * `line`: the bytes of one direction, in packets.
//!
//! `rf_map` is the region itself, and whoever uses that as it is is promised no order.
//!
//! Whatever is read from the region is distrusted: an end that writes nonsense is told
//! [`ReadError::Broken`] of by the other, which reads no byte beyond what is there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod channel;
mod line;
mod port;
mod post;

pub use channel::{Channel, ReadError, WriteError};
pub use line::MOST_PACKET;
pub use port::{OpenError, Rfcom};
pub use post::{CELLS, NotSent, Post};

#[cfg(test)]
mod tests;
