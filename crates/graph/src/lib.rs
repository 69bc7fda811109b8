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
//! * `part`, `divided`: a graph that is divided among several owners, in rounds; `exchange`,
//!   `letter`: what they write to each other.
//! * `search`: components and distances across parts.
//! * `segment`, `generation`: what came in a call, and a whole graph, as bytes.
//! * `live`, `journal`, `kept`: a graph that is kept on disks: what is acknowledged is in for ever.
//!
//! Numbers are integers, so that all machines come to the same ranks, those without floating
//! point, too.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
mod divided;
mod edges;
mod event;
mod exchange;
mod generation;
mod graph;
mod journal;
mod kept;
mod letter;
mod live;
mod part;
mod ranks;
mod reach;
mod search;
mod segment;
mod sources;
mod stamps;
#[cfg(test)]
mod tests;

pub use bytes::Damaged;
pub use event::{Event, Stamp};
pub use graph::{Graph, Offered, Placed, Publication, Settings};
pub use journal::{Broken, Held, Put, Shelf, Slot};
pub use kept::Kept;
pub use letter::Received;
pub use live::{Live, MOST_REJECTS};
pub use part::{Part, merged};
pub use ranks::ONE;
pub use search::{Found, Question, Search};
pub use segment::{Call, Reject, Segment};
pub use sources::{SourceState, Verdict};
