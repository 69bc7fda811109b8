//! Scheduling policies beside the default: instructions for a task's turn on a node in QEMU that
//! counts them, with tasks in a ring (lat_ctx) and in crowds (hackbench). The scenario
//! `policy-cost` measures all of them in one run. Dhara's own figures are 1.05 to 1.15 for the ring
//! and 1.122 for the crowd.

use std::time::Duration;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};

const LIMIT: Duration = Duration::from_secs(240);

/// Turns of each task.
const TURNS: u32 = 100;

/// Figures of ours, which of the two of the scenario is ours and which the peer's, and what their
/// ratio is to be.
const FIGURES: [(&str, &str, &str, f64); 5] = [
    ("policy-switch", "ring-2000/fifo", "ring-2000/default", 1.02),
    ("policy-switch-fair", "ring-2000/fair", "ring-2000/default", 1.02),
    ("policy-switch-real-time", "ring-2000/real_time", "ring-2000/default", 1.02),
    ("policy-crowd", "crowd/fifo", "crowd/default", 1.02),
    ("policy-crowd-fair", "crowd/fair", "crowd/default", 1.05),
];

/// See the module. The control has the cost of another turn on top of the default's.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let program = format!("policy-cost turns={TURNS}");
    let report = Node::boot(&["--count-instructions", "--program", &program], LIMIT)?.report()?;
    if report["program"]["passed"] != true {
        let failures = &report["program"]["failures"];
        return Err(Failure::Node(format!("policies failed: {failures}")));
    }
    let figure = |name: &str| -> Result<f64, Failure> {
        Ok(number(&report, &format!("program.figures.{name}"))? / 100.0)
    };
    for (name, _) in report["program"]["figures"].as_object().into_iter().flatten() {
        eprintln!("    {name:<28} {:>10.2}", figure(name)?);
    }
    let mut figures = Vec::new();
    for (name, ours, peer, most) in FIGURES {
        let ours = match mode {
            Mode::Real => figure(ours)?,
            // As if each turn were given twice.
            Mode::Control => figure(peer)? + figure(&ours.replace("ring-2000", "ring"))?,
        };
        let peer = Peer { name: "default".into(), value: figure(peer)? };
        figures.push(Figure::new(name, "instructions", ours, peer, Target::AtMost(most)));
    }
    Ok(figures)
}
