//! A booted node: started through the launcher as anyone would, ended by its own report or, when
//! that does not come, with the command that started it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::figure::Failure;

/// How often a wait looks around.
pub const LOOK: Duration = Duration::from_millis(20);

/// How long the launcher may take until the node runs: it may have to build it first.
const BUILT: Duration = Duration::from_secs(900);

/// A node, or one on its way there.
pub struct Node {
    command: Child,
}

impl Node {
    /// Boots a node by `nile boot` with these arguments, which must end within `limit`.
    pub fn boot<S: AsRef<OsStr>>(arguments: &[S], limit: Duration) -> Result<Node, Failure> {
        let command = Command::new(launcher()?)
            .args(["boot", "--json", "--limit", &limit.as_secs().to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Node { command })
    }

    /// Waits for the node's end and gives its report. A node whose program has failed sends one
    /// too.
    pub fn report(self) -> Result<Value, Failure> {
        // The command ends the node at its limit, and then itself.
        let output = self.command.wait_with_output()?;
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            Failure::Node(format!("the node sent no report: {}", last.unwrap_or("no word either")))
        })
    }

    /// Waits until QEMU runs and gives its process.
    pub fn qemu(&mut self) -> Result<Qemu, Failure> {
        Ok(Qemu { pid: self.process("qemu-system")? })
    }

    /// Waits until the node's process runs, whose name begins with `name`, and gives its number.
    pub fn process(&mut self, name: &str) -> Result<u32, Failure> {
        let deadline = Instant::now() + BUILT;
        while Instant::now() < deadline && self.command.try_wait()?.is_none() {
            let child = children(self.command.id()).into_iter().find(|pid| {
                let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                command.starts_with(name)
            });
            match child {
                Some(pid) => return Ok(pid),
                None => thread::sleep(LOOK),
            }
        }
        Err(Failure::Node(format!("{name} was not started")))
    }
}

/// The process of a node in QEMU.
pub struct Qemu {
    pid: u32,
}

impl Qemu {
    /// The CPU time that it has used so far, all threads together.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        Ok(cpu_times(&self.pid.to_string())?.own)
    }
}

/// CPU time of a process, user and system, to the tick of Linux's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuTimes {
    /// Of all its threads.
    pub own: Duration,
    /// Of its children that have ended, and theirs.
    pub children: Duration,
}

/// The CPU time of a process so far, by its number or as `self`.
pub fn cpu_times(process: &str) -> io::Result<CpuTimes> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let time =
        |ticks| Duration::from_secs(1) * ticks / rustix::param::clock_ticks_per_second() as u32;
    cpu_ticks(&stat)
        .map(|[own, children]| CpuTimes { own: time(own), children: time(children) })
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// User and system time in the line that /proc has on a process, its own and its children's, in
/// ticks of Linux's clock.
fn cpu_ticks(stat: &str) -> Option<[u32; 2]> {
    // The name before it may hold anything, also parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse);
    let mut sum = || -> Option<u32> {
        let (user, system): (u32, u32) = (times.next()?.ok()?, times.next()?.ok()?);
        Some(user + system)
    };
    Some([sum()?, sum()?])
}

/// The command that everyone uses.
pub fn launcher() -> Result<PathBuf, Failure> {
    match env::var_os("NILE_ROOT") {
        Some(root) => Ok(PathBuf::from(root).join("nile")),
        None => Err(Failure::Node(
            "NILE_ROOT does not say where the source tree is; start it through ./nile bench".into(),
        )),
    }
}

/// The processes that `parent`'s first thread has started.
pub fn children(parent: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    list.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The number at `path` in a node's report, its names separated by dots.
pub fn number(report: &Value, path: &str) -> Result<f64, Failure> {
    let found = path.split('.').fold(report, |value, name| &value[name]).as_f64();
    found.ok_or_else(|| Failure::Node(format!("the node's report has no {path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        let stat = "71 (a) b (c) S 1 71 71 0 -1 4194560 99 0 0 0 120 34 5 2 20 0 1 0 9 9 9";
        assert_eq!(cpu_ticks(stat), Some([154, 7]));
        assert_eq!(cpu_ticks("71 (a) S 1"), None);
    }

    #[test]
    fn a_number_that_is_missing_is_named() {
        let report = serde_json::json!({"program": {"figures": {"tick": 3}}});
        assert_eq!(number(&report, "program.figures.tick").unwrap(), 3.0);
        let error = number(&report, "program.tick").unwrap_err().to_string();
        assert!(error.contains("program.tick"), "{error}");
    }
}
