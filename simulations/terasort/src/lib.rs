//! Whole jobs on a cluster that fails: TeraSort's package, or one over lines, and all services of
//! a node, on simulated nodes with disks, while cores, nodes and the master's node are killed in
//! every phase of the job, and nodes cut off from all others. What `nile sim terasort` runs.
//!
//! * `plot`: what befalls the cluster, drawn from the seed.
//! * `stage`: the nodes.
//! * `judge`: what runs beside them: it has the input made and sorted, and has the plot happen.
//!   `absences`: when nodes were away.
//! * `expected`: what the output ought to be, by a model of the job.
//! * `verdict`: what ought to come of it; `holdings`: what stores have, and ought to have.
//!
//! Invariants: while every block of the input has a living copy, or has one again in time, the
//! job ends with the output that is expected. Otherwise it may end with an error that names
//! blocks that have none. Published output is whole, on as many nodes as it ought to be. In the end
//! disks have nothing but the input, the output and the jobs' records, and no buffer is missing.

#![forbid(unsafe_code)]

mod absences;
mod expected;
mod holdings;
mod judge;
mod plot;
mod stage;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Mutex;

use nile_simulations::{Figure, Options, Outcome, Report, Scenario, run_seeds};

pub use plot::Conduct;

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "terasort",
    about: "whole jobs on nodes with disks that are killed or cut off in every phase",
    run,
};

/// Nodes with disks if nothing else is said.
const NODES: u32 = 3;

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    let nodes = options.nodes.unwrap_or(NODES).clamp(3, 256);
    let totals: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let mut report = run_seeds(SCENARIO.name, options, nodes, |seed| {
        let run = simulate(seed, nodes, Conduct::default());
        if let (Err(broken), 1) = (&run.end, options.runs) {
            broken.log.iter().for_each(|line| eprintln!("{line}"));
        }
        if let Ok(mut totals) = totals.lock() {
            for (name, count) in run.counts {
                *totals.entry(name).or_default() += count;
            }
        }
        let broken = run.end.err().map(|broken| broken.why);
        Outcome { trace_hash: run.trace_hash, broken, figures: Vec::new() }
    });
    for (name, count) in totals.into_inner().unwrap_or_default() {
        report.figures.push(Figure::new(&name, count as f64, ""));
    }
    report
}

/// What came of one run.
#[derive(Debug)]
pub struct Run {
    /// The hash of what happened.
    pub trace_hash: u64,
    /// What was wrong, if something was.
    pub end: Result<(), Broken>,
    /// What happened, counted.
    pub counts: BTreeMap<String, u64>,
}

/// An invariant that did not hold.
#[derive(Debug)]
pub struct Broken {
    /// Which, and how.
    pub why: String,
    /// What the nodes had logged.
    pub log: Vec<String>,
}

/// One run over so many nodes with disks.
pub fn simulate(seed: u64, nodes: u32, conduct: Conduct) -> Run {
    stage::Stage::new(plot::Plot::draw(seed, nodes as usize, conduct)).run()
}
