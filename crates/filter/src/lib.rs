//! A packet filter: rules, and the connections that they may ask for, without IO or clock. Packets
//! and time go in, verdicts come out (docs/network.md, the paper's packet filter, section 4.1).
//!
//! In reading order:
//!
//! * [`rule`]: what a rule says, and its text.
//! * [`packet`]: what a packet is to the filter.
//! * `connections`: what was seen, in a table of bounded size.
//! * [`filter`]: the verdict.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod connections;
pub mod filter;
pub mod packet;
pub mod rule;
#[cfg(test)]
mod tests;

pub use connections::MOST_CONNECTIONS;
pub use filter::{Filter, FilterCounts};
pub use packet::{Connection, Direction, Packet, Signal};
pub use rule::{Action, Rule, RuleError, Rules};
