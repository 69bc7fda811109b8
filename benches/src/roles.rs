//! A core that gets another role, with a disk that goes there and back while callers use it: from
//! the order until it serves, hosted and in QEMU, beside what is promised. The scenario `roles`
//! measures it.

use std::fs;
use std::time::Duration;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};

const LIMIT: Duration = Duration::from_secs(120);

/// Changes there and back.
const ROUNDS: u32 = 10;

/// What the control's core has to work on before it can leave, in microseconds.
const HELD: u32 = 70_000;

/// The machines, and what is promised there, in milliseconds.
const PROMISED: [(&str, f64); 2] = [("hosted", 50.0), ("qemu", 20.0)];

/// The node's configuration.
const CONFIG: &str = "[pool]\nbytes = \"4M\"\n[roles]\npolicy = \"exact\"\n";

/// See the module. The core of the control is at work whenever it is to leave.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("nile.toml");
    fs::write(&config, CONFIG)?;
    let (rounds, held) = if mode == Mode::Control { (2, HELD) } else { (ROUNDS, 0) };
    let program = format!("roles rounds={rounds} held={held}");
    let figure = |(machine, promised): (&str, f64)| {
        let config = config.to_string_lossy();
        let node = ["--machine", machine, "--disk", "16M", "--disk", "16M", "--config", &config];
        let report =
            Node::boot(&[&node[..], &["--program", &program]].concat(), LIMIT)?.report()?;
        if report["program"]["passed"] != true {
            let failures = &report["program"]["failures"];
            return Err(Failure::Node(format!("roles failed on {machine}: {failures}")));
        }
        let of = |name: &str| number(&report, &format!("program.figures.{name}"));
        eprintln!("  {machine}: {} requests beside it, none lost", of("calls")?);
        let peer = Peer { name: String::from("what is promised"), value: promised };
        let ours = of("roles_us")? / 1000.0;
        Ok(Figure::new(format!("roles-{machine}"), "ms", ours, peer, Target::AtMost(1.0)))
    };
    PROMISED.into_iter().map(figure).collect()
}
