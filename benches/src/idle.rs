//! The CPU time that an idle node of four cores takes from its host while its management core
//! ticks ten times a second: of exactly its QEMU process, in the second half of its run.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::Node;

/// How long the node idles.
const REAL: Duration = Duration::from_secs(12);
const CONTROL: Duration = Duration::from_secs(4);

const LIMIT: Duration = Duration::from_secs(60);

/// What is promised, in percent of one core of the host.
const PROMISED: f64 = 5.0;

/// Its cores look for work for ever before they sleep.
const RESTLESS: &str = "[idle]\npolls = 4294967295\n";

/// See the module. In the control the cores poll in place of sleeping.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (config, span) = match mode {
        Mode::Real => ("", REAL),
        Mode::Control => (RESTLESS, CONTROL),
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("nile.toml");
    fs::write(&file, config)?;
    let program = format!("idle ms={}", span.as_millis());
    let file = file.to_string_lossy();
    let arguments = ["--cores", "4", "--config", &file, "--program", &program];
    let mut node = Node::boot(&arguments, LIMIT)?;
    let qemu = node.qemu()?;
    thread::sleep(span / 2);
    let (before, start) = (qemu.cpu_time()?, Instant::now());
    // It ends a little before the node does.
    thread::sleep(span / 3);
    let used = qemu.cpu_time()?.saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64();
    let report = node.report()?;
    eprintln!("  {percent:.2}% of a core; the node said: {}", report["program"]["passed"]);
    if report["program"]["passed"] != true {
        return Err(Failure::Node("the node did not idle".into()));
    }
    let peer = Peer { name: "promise".into(), value: PROMISED };
    Ok(vec![Figure::new("idle", "% of a core", percent, peer, Target::AtMost(1.0))])
}
