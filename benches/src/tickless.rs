//! The interrupts that a worker core receives while it computes for ten seconds, all causes
//! together, beside those of the same worker with the periodic timer on; and those of a package
//! that has its core for itself while a subject of that core is bound to each policy, beside those
//! that slices cause as soon as a task of the core is ready.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};

/// The worker is observed for eight tenths of this.
const REAL_MILLIS: u32 = 12_500;
const CONTROL_MILLIS: u32 = 1_250;

/// System calls of the package beside all policies: some ten seconds, and one.
const REAL_CALLS: u32 = 9_000_000;
const CONTROL_CALLS: u32 = 400_000;

const LIMIT: Duration = Duration::from_secs(120);

/// Turns the worker's ticks on, ten a second.
const TICKS: &str = "[timer]\ntick_workers = true\n";

/// See the module. The control's own worker is ticked too, and its package is not alone.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("nile.toml");
    fs::write(&config, TICKS)?;
    let config = config.to_string_lossy();
    let millis = if mode == Mode::Control { CONTROL_MILLIS } else { REAL_MILLIS };
    let interrupts = |ticked: bool| {
        let program = format!("{} ms={millis}", if ticked { "ticked" } else { "tickless" });
        let mut arguments = vec!["--cores", "4", "--program", &program];
        if ticked {
            arguments.extend(["--config", &config]);
        }
        count(&Node::boot(&arguments, LIMIT)?.report()?)
    };
    let (ours, ticked) = (interrupts(mode == Mode::Control)?, interrupts(true)?);
    eprintln!("  in {} s: {ours}, with the tick on {ticked}", f64::from(millis) * 0.8e-3);
    let peer = Peer { name: "tick on".into(), value: ticked };
    let ticks = Figure::new("tickless", "interrupts", ours, peer, Target::AtMost(0.0));
    Ok(vec![ticks, with_policies(mode)?])
}

/// What interrupts a package on a core with all policies.
fn with_policies(mode: Mode) -> Result<Figure, Failure> {
    let calls = if mode == Mode::Control { CONTROL_CALLS } else { REAL_CALLS };
    let program = format!("slices calls={calls}");
    let report = Node::boot(&["--cores", "4", "--program", &program], LIMIT)?.report()?;
    let figure = |name| number(&report, &format!("program.figures.{name}"));
    let (alone, even) = (figure("alone")?, figure("even")?);
    eprintln!(
        "  in {} s with all policies: {alone}; beside a task: {even}",
        figure("alone_ms")? / 1e3
    );
    let ours = if mode == Mode::Control { even } else { alone };
    let peer = Peer { name: "beside a task".into(), value: even };
    Ok(Figure::new("tickless-policies", "interrupts", ours, peer, Target::AtMost(0.0)))
}

/// Interrupts of every cause that the worker counted.
fn count(report: &Value) -> Result<f64, Failure> {
    let figures = report["program"]["figures"].as_object();
    let figures = figures.ok_or_else(|| Failure::Node("the node measured nothing".into()))?;
    // Everything that the program reports but the time is a count of interrupts.
    number(report, "program.figures.tick")?;
    let counts = figures.iter().filter(|(name, _)| *name != "computed_us");
    Ok(counts.filter_map(|(_, count)| count.as_f64()).sum())
}
