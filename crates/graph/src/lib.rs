//! A graph that changes while it is asked (FENCE): edges come as events of sources, in any order
//! and as often as they like, and ranks (`PageRank`) are kept up to date with a bound of their
//! error. No IO and no clock: whoever owns a [`Graph`] hands it events and time, and has it work
//! in [steps](Graph::step).
//!
//! * `event`: what sources say; of two events about an edge the newer one holds.
//! * `sources`: what has come of each, so that nothing counts twice, and the watermark.
//! * `edges`: the edges in two levels, a compressed generation and what is new since.
//! * `ranks`: sweeps over the vertices, and the bound.
//! * `reach`: components, and distances.
//!
//! Numbers are integers, so that all machines come to the same ranks, those without floating
//! point, too.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod edges;
mod event;
mod graph;
mod ranks;
mod reach;
mod sources;
#[cfg(test)]
mod tests;

pub use event::{Event, Stamp};
pub use graph::{Graph, Offered, Placed, Publication, Settings};
pub use ranks::ONE;
pub use sources::{SourceState, Verdict};
