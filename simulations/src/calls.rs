//! Calls between nodes: `nile_ipioe` endpoints on one switch, with faults on all cables,
//! partitions, restarts, and a host that replays, forges and makes noise. No call is done twice,
//! every call ends once and in time, nobody gets another's reply, and no frame is accepted that
//! was forged or came before.
//!
//! * `ledger`: what was promised to whom, and whether it was kept.
//! * `node`: one node: its endpoint, its calls, its services.
//! * `chaos`: what is done to the network and to the nodes.
//! * `cluster`: all of it, in the order of time.

mod chaos;
mod cluster;
mod ledger;
mod node;
#[cfg(test)]
mod tests;

use cluster::Cluster;

use crate::options::Options;
use crate::report::Report;
use crate::runs::{Outcome, run_seeds};

/// Nodes that take part if nothing else is said.
const NODES: u32 = 12;

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(NODES).clamp(2, 10_000);
    run_seeds("calls", options, nodes, |seed| simulate(seed, nodes, None))
}

/// What a run does wrong on purpose, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests do wrong on purpose"))]
enum Sabotage {
    /// Nodes that restart keep their generation and their nonce, and so forget what they have done.
    Amnesia,
    /// The attacker has the cluster's key.
    LeakedKey,
    /// A node answers with what belongs to another call.
    MixedReplies,
    /// A node's timers are late.
    LateTimers,
    /// Endpoints may remember more than the checks allow.
    Greed,
}

/// One run.
fn simulate(seed: u64, nodes: u32, sabotage: Option<Sabotage>) -> Outcome {
    let mut cluster = Cluster::new(seed, nodes, sabotage);
    let broken = cluster.run().err();
    Outcome { trace_hash: cluster.trace_hash(), broken, figures: cluster.figures() }
}
