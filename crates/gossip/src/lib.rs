//! Who is in the cluster and what every node offers (NileOS paper, III.B and III.D): membership
//! by SWIM, and directories of cores and instances that every node has whole. Sans-IO: messages
//! and moments go in; messages, events and deadlines come out.
//!
//! A *row* is what is known of a node: its generation, whether it lives, and its directory's
//! *version*, which counts the changes of the *directory*. News is told as *rumours*, a limited
//! number of times each; what a rumour misses is found by comparing *digests* with random members.
//! How the parts work together, and the messages, are in `docs/gossip.md`.
//!
//! * [`settings`]: what a node's gossip is made with, and how much peers can make it keep.
//! * [`records`]: what a directory has, cores and instances, and how a node changes its own.
//! * [`directory`]: one node's directory, and its changes since any version.
//! * [`wire`]: messages; `packer`, messages that fit a frame.
//! * [`table`]: all nodes' rows, and digests of them; `rumours`, what is still to be told.
//! * `watch`, `identity`, `swim`: whom this node probes, and the `foca` crate, which does.
//! * [`gossip`]: [`Gossip`]; `rounds`, what it does by itself; `inbox`, `merge`, what it does with
//!   messages; `namesake`, what it does about another node of the same number.
//! * [`event`]: what it tells its owner.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod directory;
pub mod event;
pub mod gossip;
mod identity;
mod inbox;
mod merge;
mod namesake;
mod packer;
pub mod records;
mod rounds;
mod rumours;
pub mod settings;
mod swim;
pub mod table;
mod watch;
pub mod wire;

#[cfg(test)]
mod tests;

pub use directory::Directory;
pub use event::{Counters, Destination, Event};
pub use gossip::Gossip;
pub use records::{Attribute, Core, Instance, Keyword, Layer, Refused, Update};
pub use settings::{Limits, Settings};
pub use table::{Member, State};
