//! Bulk transfer, the fast data transfer protocol (NileOS III.F names it; docs/bulk.md specifies
//! it): moves a buffer or a stream of blocks from a core to a core of another node.
//!
//! The *sender* of a transfer announces it; the *receiver* accepts and grants *credits*, each for
//! one frame, at the rate of its own link. However many senders there are, what is on its way to
//! a receiver stays below its window, so that no queue in the network overflows. What is lost is
//! sent again, and nothing else (selective repeat).
//!
//! Sans-IO: frames and moments go in, frames, events and deadlines come out. There is no clock,
//! no socket and no copy of the data: [`Memory`] reads it from the sender's memory straight into
//! the frame and writes it from the frame straight to the receiver's.
//!
//! * [`wire`]: the frames, byte for byte.
//! * [`seal`]: [`Sealer`], how frames are encrypted where the cluster has a key; [`sessions`]: with
//!   the seals of IPI over Ethernet.
//! * [`settings`]: [`Settings`] of an endpoint, the properties of its link, its limits.
//! * [`event`]: names of transfers, and what happens to them.
//! * [`counters`]: what an endpoint has seen.
//! * `outgoing`: one transfer at its sender.
//! * `incoming`: one transfer at its receiver; `window`: which of its blocks are there.
//! * [`shown`]: where a transfer's bytes lie, for a receiver that can read them there.
//! * `pace`: how much may be on its way to this endpoint.
//! * `peers`: the other endpoints, and which of their transfers are over.
//! * [`endpoint`]: [`Endpoint`], all of it together.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod counters;
pub mod endpoint;
pub mod event;
mod incoming;
mod outgoing;
mod pace;
mod peers;
pub mod seal;
pub mod sessions;
pub mod settings;
pub mod shown;
mod window;
pub mod wire;

#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use endpoint::{Endpoint, Memory};
pub use event::{Event, Gone, IncomingId, OutgoingId, Refused, Send, Transfer, Why};
pub use nile_ipioe::checksum::{self, Checksum};
pub use seal::{OpenError, Sealer, Unsealed};
pub use sessions::Sessions;
pub use settings::{Limits, Link, Settings};
pub use shown::{MOST_PARTS, Shown};
