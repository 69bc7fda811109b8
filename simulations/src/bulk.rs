//! Bulk transfers: how much of a link they use, and that every byte arrives once whatever happens.
//!
//! * `node`: a node with its interface, over the switch of the world.
//! * `memory`: what its transfers send and receive, checked as it is written.
//! * `goodput`: one flow, many to one receiver, and all to all, on a good network.
//! * `faults`: a network that fails in every way, with nodes that restart.

mod faults;
mod goodput;
mod memory;
mod node;
#[cfg(test)]
mod tests;

use crate::options::Options;
use crate::report::Report;
use crate::runs::{Outcome, run_seeds};
use crate::trace::Trace;

/// How many nodes send to one if nothing is said.
const SENDERS: u32 = 20;

/// How many nodes send to each other while the network fails, if nothing is said.
const NODES: u32 = 6;

/// Every run measures the goodput of five kinds of flows, and then has nodes send to each other
/// over a failing network.
pub fn run(options: &Options) -> Report {
    let senders = options.senders.unwrap_or(SENDERS).max(1);
    let nodes = options.nodes.unwrap_or(NODES).max(2);
    let options = &Options { senders: Some(senders), ..*options };
    run_seeds("bulk", options, nodes, |seed| {
        let mut trace = Trace::default();
        let mut figures = Vec::new();
        let mut broken = None;
        for case in goodput::cases(senders) {
            let measured = goodput::measure(seed, &case, &mut trace);
            broken = broken.or(measured.broken);
            figures.extend(measured.figures);
        }
        let broken = broken.or_else(|| faults::run(seed, nodes, None, &mut trace).err());
        Outcome { trace_hash: trace.hash(), broken, figures }
    })
}
