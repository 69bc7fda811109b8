//! Channel ends of packages: sending and receiving make no system call; only a receiver that goes
//! to sleep makes one, and a sender that wakes it ([`nile_ring::user`]).
//!
//! [`Runtime::open_channel`](crate::Runtime::open_channel) and
//! [`accept_channel`](crate::Runtime::accept_channel) give ends that do the system calls.

#[cfg(test)]
mod end_tests;
mod ends;
mod lasting;

pub(crate) use ends::Watched;
pub use ends::{ChannelReceiver, ChannelSender};
pub use lasting::{Down, LastingReceiver, LastingSender};
pub use nile_ring::Message;
pub use nile_ring::user::{UserChannel, UserReceiver, UserSender};
