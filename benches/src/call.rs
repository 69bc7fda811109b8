//! Calls to services, each beside what it stands on: instructions on a node in QEMU that counts
//! them, times on a hosted node of two cores. The scenario `call-cost` measures both.
//!
//! A *bound* call is a method of a found service's typed client. A call *by name* is `Stl::invoke`:
//! it is given the names of service and method and the encoded arguments, and gives the encoded
//! reply. What is called on the same core does nothing, or the work of one context switch in
//! Dhara's experiment, 2,000 instructions. What is called on another core gives its argument of 64
//! bytes back; the channel beside it carries a full cell there and back, between the same tasks.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};
use crate::system_call;

const LIMIT: Duration = Duration::from_secs(120);

/// Instructions that an empty bound call may take beyond a virtual one.
const PROMISED: f64 = 20.0;

/// Rounds on a hosted node. One is enough where instructions are counted.
const REAL_ROUNDS: u32 = 200;
const CONTROL_ROUNDS: u32 = 10;

/// Calls of a round on one core: so many that what is around them does not count.
const CALLS: u32 = 1000;

/// The cores look for work for ever before they sleep.
const RESTLESS: &str = "[idle]\npolls = 4294967295\n";

/// See the module. The control of a bound call goes by name, that of a call by name asks the
/// service for its methods before, as that of time does; that of a call to another core is ten
/// calls.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let folder = tempfile::tempdir()?;
    let restless = folder.path().join("nile.toml");
    fs::write(&restless, RESTLESS)?;
    let restless = restless.to_string_lossy();
    let hosted = ["--machine", "hosted", "--cores", "2"];
    let rounds = if mode == Mode::Control { CONTROL_ROUNDS } else { REAL_ROUNDS };

    let counted = Costs::of(mode, "in QEMU, instructions", &["--count-instructions"], 1)?;
    let sleeping = Costs::of(mode, "hosted, sleeping, ns", &hosted, rounds)?;
    let polling = [&hosted[..], &["--config", &restless]].concat();
    let polling = Costs::of(mode, "hosted, polling, ns", &polling, rounds)?;

    let (instructions, ns) = ("instructions", "ns");
    let (work, named) = (["bound-work", "named-work"], ["named", "discovered"]);
    let across = ["bound-across", "tenfold-across"];
    // A busy host makes more of a difference in time than the name of a call.
    let timed = ["bound-work", "discovered-work"];
    let mut figures = vec![
        counted.beyond("call-empty", ["bound", "named"], "virtual")?,
        counted.beside("call-work", instructions, work, "direct-work", 1.02)?,
        sleeping.beside("call-work-time", ns, timed, "direct-work", 1.02)?,
        // Both methods do nothing; with the work in them, it is in the log.
        counted.beside("call-by-name", instructions, named, "bound", 10.0)?,
        polling.beside("call-across-poll", ns, across, "channel", 3.0)?,
        sleeping.beside("call-across-sleep", ns, across, "channel", 3.0)?,
    ];
    figures.extend(system_call::run(mode)?);
    Ok(figures)
}

/// What a node's scenario has measured.
struct Costs {
    mode: Mode,
    report: Value,
}

impl Costs {
    fn of(mode: Mode, name: &str, machine: &[&str], rounds: u32) -> Result<Costs, Failure> {
        let program = format!("call-cost rounds={rounds} calls={CALLS}");
        let report = Node::boot(&[machine, &["--program", &program]].concat(), LIMIT)?.report()?;
        if report["program"]["passed"] != true {
            let failures = &report["program"]["failures"];
            return Err(Failure::Node(format!("calls failed, {name}: {failures}")));
        }
        let placement = &report["facts"][0];
        eprintln!("  {name} ({placement})");
        let costs = Costs { mode, report };
        for (figure, _) in costs.report["program"]["figures"].as_object().into_iter().flatten() {
            eprintln!("    {figure:<28} {:>10.2}", costs.figure(figure)?);
        }
        Ok(costs)
    }

    /// What the scenario gave in hundredths; a ratio, which it gives in ten-thousandths.
    fn figure(&self, name: &str) -> Result<f64, Failure> {
        let parts = if name.contains('/') { 1e4 } else { 1e2 };
        Ok(number(&self.report, &format!("program.figures.{name}"))? / parts)
    }

    /// How many times `beside` it takes; `ours` has what is promised, and then its control.
    fn beside(
        &self,
        name: &str,
        unit: &'static str,
        ours: [&str; 2],
        beside: &str,
        most: f64,
    ) -> Result<Figure, Failure> {
        let ours = self.chosen(ours);
        let peer = Peer { name: beside.into(), value: self.figure(beside)? };
        let ratio = self.figure(&format!("{ours}/{beside}"))?;
        let target = Target::AtMost(most);
        Ok(Figure::with_ratio(name, unit, self.figure(ours)?, peer, ratio, target))
    }

    /// How many instructions more than `beside` it takes.
    fn beyond(&self, name: &str, ours: [&str; 2], beside: &str) -> Result<Figure, Failure> {
        let more = self.figure(self.chosen(ours))? - self.figure(beside)?;
        let peer = Peer { name: "promise".into(), value: PROMISED };
        Ok(Figure::new(name, "instructions", more, peer, Target::AtMost(1.0)))
    }

    fn chosen<'a>(&self, [real, control]: [&'a str; 2]) -> &'a str {
        if self.mode == Mode::Control { control } else { real }
    }
}
