//! What windows of timers spare, in interrupts: the four timers of Dhara's example (IV.C), of 29,
//! 30, 31 and 32 ms, 2 ms more or less, beside one; and what the timers of an idle cluster of three
//! hosted nodes take, beside the same cluster whose timers are all exact.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{self, Node, number};

const LIMIT: Duration = Duration::from_secs(60);

/// How long a cluster idles.
const REAL_MILLIS: u32 = 10_000;
const CONTROL_MILLIS: u32 = 1_000;

/// No timer waits for another.
const EXACT: &str = "[timer]\nlongest_slack_ms = 0\n";

/// See the module. The control's timers are exact.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let report = Node::boot(&["--machine", "hosted", "--program", "timers"], LIMIT)?.report()?;
    let of = |name: &str| number(&report, &format!("program.figures.{name}"));
    let (tolerant, exact) = (of("tolerant_interrupts")?, of("exact_interrupts")?);
    eprintln!("  four timers: {tolerant} interrupts, {exact} if they are exact");
    let ours = if mode == Mode::Real { tolerant } else { exact };
    let peer = Peer { name: "one wake".into(), value: 1.0 };
    let four = Figure::new("timers-paper", "interrupts", ours, peer, Target::AtMost(1.0));

    let millis = if mode == Mode::Real { REAL_MILLIS } else { CONTROL_MILLIS };
    let mut exact = idle(EXACT, millis)?;
    if mode == Mode::Control {
        // So short a time may have what nodes do when they meet: 65 where 16 is usual.
        exact = exact.min(idle(EXACT, millis)?);
    }
    let ours = idle(if mode == Mode::Real { "" } else { EXACT }, millis)?;
    eprintln!(
        "  an idle node of three: {ours} interrupts in {millis} ms, {exact} with exact timers"
    );
    let peer = Peer { name: "exact timers".into(), value: exact };
    Ok(vec![four, Figure::new("timers-idle", "interrupts", ours, peer, Target::AtMost(0.5))])
}

/// How often the timers of one of three idle nodes interrupt it in so long.
fn idle(config: &str, millis: u32) -> Result<f64, Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("nile.toml");
    fs::write(&file, config)?;
    let mut command = Command::new(node::launcher()?);
    command.args(["up", "--json", "--machine", "hosted", "--nodes", "3", "--cores", "3"]);
    command.args(["--memory", "64M", "--limit", "60", "--config"]).arg(&file);
    command.args(["--program", &format!("idle-nodes ms={millis}")]);
    command.env("XDG_RUNTIME_DIR", folder.path()).stdin(Stdio::null());
    let output = command.output()?;
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::Node(format!("the cluster has not idled: {}", said.trim_end()))
    })?;
    number(&report, "program.figures.timer_interrupts")
}
