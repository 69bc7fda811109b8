//! Gossip of up to 10,000 nodes: they start, publish, move, die, leave, restart and are parted,
//! over a network that loses, doubles, reorders and damages frames.
//!
//! * `cluster`: the nodes on their network, and what is checked whatever happens.
//! * `story`: what happens to them.
//! * `figures`: how quickly a change reaches all, and what gossip costs, without faults.
//!
//! Invariants: nobody believes in a generation that was not yet, or goes back to an earlier one;
//! whatever is published is what its node published; and some rounds after the last fault all
//! directories are the same, nobody who lives is held for dead, and nobody who died is listed.

mod cluster;
mod figures;
mod story;
#[cfg(test)]
mod tests;

use crate::{Options, Outcome, Report, run_seeds};

/// Nodes if nothing else is said.
const NODES: u32 = 100;

/// What a run is made with.
#[derive(Clone, Copy, Debug)]
struct Setup {
    seed: u64,
    nodes: u32,
    /// How many are told a rumour in each round.
    fan_out: u8,
}

/// The members that a node tells in a round, in all runs but those that prove that it matters.
const FAN_OUT: u8 = 3;

/// Runs the simulation with every seed that is asked for.
pub fn run(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(NODES).max(4);
    run_seeds("gossip", options, nodes, |seed| simulate(Setup { seed, nodes, fan_out: FAN_OUT }))
}

/// One run: the figures first, without faults, and then the faults.
fn simulate(setup: Setup) -> Outcome {
    let measured = figures::measure(setup);
    let (mut cluster, figures) = match measured {
        Ok(measured) => measured,
        Err(broken) => return Outcome { broken: Some(broken), ..Outcome::default() },
    };
    let told = story::tell(&mut cluster);
    let mut figures = figures;
    figures.extend(cluster.figures());
    Outcome { trace_hash: cluster.trace.hash(), broken: told.err(), figures }
}
