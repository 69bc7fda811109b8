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

use std::time::Duration;

use cluster::Cluster;

use crate::options::Options;
use crate::report::Report;
use crate::runs::{Outcome, run_seeds};

/// Nodes that take part if nothing else is said.
const NODES: u32 = 12;

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(NODES).clamp(2, 10_000);
    run_seeds("calls", options, nodes, |seed| simulate(seed, nodes, Conduct::default()))
}

/// How the nodes of a run behave. Tests have them do wrong, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Conduct {
    /// Nodes that restart keep their generation and their nonce, and so forget what they have done.
    has_amnesia: bool,
    /// What the first node sends counts as forged, as if an attacker had the cluster's key.
    leaks_key: bool,
    /// Nodes answer with what belongs to another call.
    mixes_replies: bool,
    /// How late the first node's timers are.
    lateness: Duration,
    /// Endpoints may remember more than the checks allow.
    is_greedy: bool,
}

/// One run.
fn simulate(seed: u64, nodes: u32, conduct: Conduct) -> Outcome {
    let mut cluster = Cluster::new(seed, nodes, conduct);
    let broken = cluster.run().err();
    Outcome { trace_hash: cluster.trace_hash(), broken, figures: cluster.figures() }
}
