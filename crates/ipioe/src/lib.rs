//! IPI over Ethernet: how a core of one node calls a core of another (NileOS paper, III.D).
//! Sans-IO: frames and moments go in, frames, events and deadlines come out. The protocol is
//! specified in docs/ipioe.md.
//!
//! An *incarnation* or *boot* of a node is one life of its network core; it has a generation and a
//! nonce. Two boots that have proved to each other that they live have a *session*. A call is
//! done at most once: its callee remembers it until its caller says that it is over, and then
//! still that it was.
//!
//! * [`wire`]: the frames' bytes. [`checksum`]: CRC-32C.
//! * [`keys`]: what seals are made with. [`window`]: which sequences have come.
//! * [`settings`]: limits and constants. [`event`]: what an owner is told. [`counters`].
//! * [`endpoint`]: one node's end of all calls, and beneath it: `peer` (what is known of another
//!   node), `message` (segments), `ended` (which calls are over), `rtt` and `timers`; `greet` (how
//!   nodes meet), `caller`, `callee`, `transmit`, `receive`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod callee;
mod caller;
pub mod checksum;
pub mod counters;
mod ended;
pub mod endpoint;
pub mod event;
mod greet;
pub mod keys;
mod message;
mod peer;
mod receive;
mod rtt;
pub mod settings;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
pub mod window;
pub mod wire;

pub use checksum::Checksum;
pub use counters::Counters;
pub use endpoint::{Endpoint, PeerInfo, Usage};
pub use event::{CallId, End, Event, Refused, ReplyRefused, Request, ServingId};
pub use keys::{ClusterKey, Purpose};
pub use nile_seal::Seal;
pub use settings::{FIRST_TOOL, Limits, Settings};
pub use wire::{Asker, BootNonce};
