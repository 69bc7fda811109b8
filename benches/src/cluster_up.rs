//! How long a cluster takes until it is up: from the command to every node knowing every other one
//! with all that it has. Three nodes in QEMU.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{self, LOOK, number};

/// What is promised.
const PROMISED_MILLIS: f64 = 5_000.0;

/// Clusters of a measurement; the one in the middle counts.
const CLUSTERS: usize = 3;

/// How long the control holds up the network.
const HELD_UP: Duration = Duration::from_millis(5_500);

/// See the module. In the control, the network carries nothing at first.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (clusters, held_up) = match mode {
        Mode::Real => (CLUSTERS, Duration::ZERO),
        Mode::Control => (1, HELD_UP),
    };
    let mut times = Vec::new();
    for _ in 0..clusters {
        times.push(1000.0 * up(held_up)?);
    }
    times.sort_by(f64::total_cmp);
    eprintln!("  three nodes in QEMU are up after {times:.0?} ms");
    let peer = Peer { name: "promise".into(), value: PROMISED_MILLIS };
    let ours = times[times.len() / 2];
    Ok(vec![Figure::new("cluster-up", "ms", ours, peer, Target::AtMost(1.0))])
}

/// Seconds until a cluster is up.
fn up(held_up: Duration) -> Result<f64, Failure> {
    let cluster = Cluster(tempfile::tempdir()?);
    let mut command = cluster.command(&["up", "--json", "--machine", "qemu", "--nodes", "3"])?;
    command.args(["--cores", "2", "--memory", "128M", "--limit", "60"]);
    let mut up = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if !held_up.is_zero() {
        hold_up(&mut up, held_up)?;
    }
    let output = up.wait_with_output()?;
    let said: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::Node(format!("the cluster is not up: {}", said.trim_end()))
    })?;
    number(&said, "seconds")
}

/// Stops the network's process for a while, once there is one.
fn hold_up(up: &mut Child, span: Duration) -> Result<(), Failure> {
    let is_switch = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"switch")
    };
    let switch = loop {
        match node::children(up.id()).into_iter().find(is_switch) {
            Some(switch) => break switch,
            // It has failed, and says why.
            None if up.try_wait()?.is_some() => return Ok(()),
            None => thread::sleep(LOOK),
        }
    };
    let signal = |signal| match Pid::from_raw(switch as i32) {
        Some(switch) => kill_process(switch, signal).map_err(std::io::Error::from),
        None => Ok(()),
    };
    signal(Signal::STOP)?;
    thread::sleep(span);
    Ok(signal(Signal::CONT)?)
}

/// A cluster in a folder of its own, which is ended with it.
struct Cluster(TempDir);

impl Cluster {
    fn command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(node::launcher()?);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.0.path()).stdin(Stdio::null());
        Ok(command)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // One that did not come up has nothing to end.
        let _ = self.command(&["down"]).map(|mut command| command.output());
    }
}
