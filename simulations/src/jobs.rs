//! Jobs on a cluster that fails: `nile_job` masters and workers sort real records, while messages
//! are lost, doubled, late and reordered, cores, nodes, masters and keepers of the job's record are
//! killed in every phase, disks are full, code is bad, and jobs are cancelled. Of three keepers one
//! may be gone for ever; the others come back with what their disks have.
//!
//! * `work`: the job: what its code does with records.
//! * `node`: one node: its cores, its disk, its machines.
//! * `plot`: what befalls the cluster, drawn from the seed.
//! * `cluster`: all of it, in the order of time; `blows`: what befalls it; `letters`: the network.
//! * `engine`: attempts that run; `checks`: what must hold.
//!
//! Invariants: a job ends once, with the right records in the right order, or with an error that
//! is true; no attempt runs twice, and none beside another on one core; nothing of a master that
//! was replaced gets into the output; and in the end nothing is left behind.

mod blows;
mod checks;
mod cluster;
mod engine;
mod letters;
mod node;
mod plot;
#[cfg(test)]
mod tests;
mod work;

use cluster::Cluster;

use crate::options::Options;
use crate::report::Report;
use crate::runs::{Outcome, run_seeds};

/// Nodes that take part if nothing else is said.
const NODES: u32 = 5;

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(NODES).clamp(2, 1000);
    run_seeds("jobs", options, nodes, |seed| simulate(seed, nodes, Conduct::default()))
}

/// How the parts of a run behave. Tests have them do wrong, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Conduct {
    /// Reduce attempts take every piece that comes, wanted or not.
    takes_twice: bool,
    /// Keepers of the job's record do not make durable what they promise and accept.
    forgets_promises: bool,
    /// Outputs of all plans count as those of the last master.
    mixes_plans: bool,
    /// Nodes keep what is not needed any more.
    hoards: bool,
    /// Cores begin an attempt while they still run another.
    is_hasty: bool,
    /// Cores give all their machines of the job one number, so that late orders are obeyed again.
    repeats_machines: bool,
}

/// One run.
fn simulate(seed: u64, nodes: u32, conduct: Conduct) -> Outcome {
    let mut cluster = Cluster::new(seed, nodes, conduct);
    let broken = cluster.run().err();
    Outcome { trace_hash: cluster.trace_hash(), broken, figures: cluster.figures() }
}
