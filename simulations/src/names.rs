//! Names of datasets, of which each has one linearizable history: `nile_names` keepers on disks
//! that lose what was not flushed, and clients on all nodes that put, replace, remove, read and
//! list the same few names, while messages are lost, doubled, late and reordered, nodes are parted
//! and lose their power, clients die in the midst of a change, and disks are lost, or old copies
//! are put in their place, one keeper's at a time.
//!
//! * `node`: a node with its keeper and its disk.
//! * `client`: what clients want, and what they have seen.
//! * `ledger`: the history of each name, and what it must be.
//! * `plot`: what befalls the cluster, drawn from the seed; `blows`: how it does.
//! * `cluster`: all of it, in the order of time.
//!
//! Invariants: the history of each name is linearizable; what is said to have failed has never
//! happened; and when all is well again all keepers are in, and every operation comes to its end.

mod blows;
mod client;
mod cluster;
mod ledger;
mod node;
mod plot;
#[cfg(test)]
mod tests;

use cluster::Cluster;

use crate::options::Options;
use crate::report::Report;
use crate::runs::{Outcome, run_seeds};

/// Nodes that take part if nothing else is said: three keepers and two others.
const NODES: u32 = 5;

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(NODES).clamp(3, 100);
    run_seeds("names", options, nodes, |seed| {
        simulate(seed, nodes, Conduct::default(), Plot::Mixed)
    })
}

/// Runs three nodes, all keepers, of which one has a bad disk, in every way that one can be bad.
/// Where the network does well, no client on another node may lack a majority.
pub fn run_disks(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(3).clamp(3, 100);
    run_seeds("disks", options, nodes, |seed| {
        simulate(seed, nodes, Conduct::default(), Plot::Disks)
    })
}

/// What befalls a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plot {
    /// Anything that can.
    Mixed,
    /// One node's disk is damaged, full, old, foreign, slow or lost, or the node stands still.
    Disks,
}

/// How the parts of a run behave. Tests have them do wrong, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Conduct {
    /// Keepers that come back know nothing of names.
    forgets: bool,
    /// Whoever reads believes the first keeper that answers.
    trusts_one: bool,
    /// A keeper whose disk is lost goes on at once, as if it had always been empty.
    fakes_disk: bool,
    /// Old copies of disks are taken for the disks.
    trusts_copies: bool,
    /// Another's disk, and a damaged one, is taken for the node's own, without what it knew.
    trusts_foreign: bool,
    /// All views are taken for the same.
    mixes_views: bool,
    /// Keepers answer before what they say is durable.
    is_hasty: bool,
    /// A change whose outcome is not known is said to have failed.
    denies: bool,
}

/// One run.
fn simulate(seed: u64, nodes: u32, conduct: Conduct, plot: Plot) -> Outcome {
    let mut cluster = Cluster::new(seed, nodes, conduct, plot);
    let broken = cluster.run().err();
    Outcome { trace_hash: cluster.trace_hash(), broken, figures: cluster.figures() }
}
