//! A hosted machine with a supervisor, whose domains are made by commands.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::figure::Failure;
use crate::interrupt;
use crate::node;
use crate::place::Cpu;

/// Which goes before what is not in real time.
const FIRST: &str = "10";

/// It ends with this.
pub struct Machine {
    runtime: TempDir,
}

impl Machine {
    /// One with so many cores and so much memory.
    pub fn up(cores: &str, memory: &str) -> Result<Machine, Failure> {
        let machine = Machine { runtime: tempfile::tempdir()? };
        let up = ["up", "--machine", "hosted", "--supervisor", "--cores", cores];
        let command = machine.in_here(Command::new(node::launcher()?));
        said(command, &[&up[..], &["--memory", memory]].concat())?;
        // What later commands need is built before any time is taken.
        let command = machine.in_here(Command::new(node::launcher()?));
        said(command, &["run", "terasort", "--size", "1M", "--nodes", "1", "--machine", "hosted"])?;
        Ok(machine)
    }

    fn in_here(&self, mut command: Command) -> Command {
        command.env("XDG_RUNTIME_DIR", self.runtime.path()).stdin(Stdio::null());
        command
    }

    /// The command itself: what the launcher looks for is there, and its time is not measured.
    fn nile(&self) -> Result<PathBuf, Failure> {
        let built = env::var_os("NILE_PROGRAMS").map(|it| PathBuf::from(it).join("nile"));
        built.map_or_else(node::launcher, Ok)
    }

    /// What a command prints.
    pub fn say(&self, words: &[&str]) -> Result<String, Failure> {
        said(self.in_here(Command::new(self.nile()?)), words)
    }

    /// The same of a command that may use this CPU alone, and what it starts.
    pub fn on(&self, cpu: Cpu, words: &[&str]) -> Result<String, Failure> {
        said(self.pinned(cpu)?, words)
    }

    /// Begins such a command.
    pub fn begin(&self, cpu: Cpu, words: &[&str]) -> Result<Child, Failure> {
        let mut command = self.pinned(cpu)?;
        Ok(command.args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?)
    }

    /// What one says as JSON that goes before all others on this CPU.
    pub fn first_on(&self, cpu: Cpu, words: &[&str]) -> Result<Value, Failure> {
        let mut command = self.in_here(Command::new("taskset"));
        command.args(["-c", &cpu.number().to_string(), "chrt", "-f", FIRST]).arg(self.nile()?);
        let text = said(command, words)?;
        serde_json::from_str(&text).map_err(|_| Failure::Node(format!("no document: {text}")))
    }

    fn pinned(&self, cpu: Cpu) -> Result<Command, Failure> {
        let mut command = self.in_here(Command::new("taskset"));
        command.args(["-c", &cpu.number().to_string()]).arg(self.nile()?);
        Ok(command)
    }

    /// From now on a part of the cluster goes before all others, on this CPU.
    pub fn put_first(&self, part: &str, cpu: Cpu) -> Result<(), Failure> {
        let pids = processes(part, self.runtime.path());
        if pids.is_empty() {
            return Err(Failure::Node(format!("the cluster has no {part}")));
        }
        for pid in pids {
            let (pid, cpu) = (pid.to_string(), cpu.number().to_string());
            said(Command::new("taskset"), &["-a", "-c", "-p", &cpu, &pid])?;
            said(Command::new("chrt"), &["-a", "-f", "-p", FIRST, &pid])?;
        }
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let down = self.nile().map(|nile| self.in_here(Command::new(nile)).arg("down").output());
        drop(down);
    }
}

/// The processes that are this part of a cluster below the folder.
fn processes(part: &str, folder: &Path) -> Vec<u32> {
    let mark = format!("NILE_PROCESS_OF={part}@{}", folder.display());
    let is_it = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment);
        text.split('\0').any(|variable| variable.starts_with(&mark))
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_it).collect()
}

/// What a command prints that does not fail.
pub fn said(mut command: Command, words: &[&str]) -> Result<String, Failure> {
    if interrupt::requested() {
        return Err(Failure::Node("it was interrupted".into()));
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.args(words).output().map_err(|error| {
        let what = format!("{program}: {error}; it is in Debian's util-linux or lxc");
        Failure::Node(what)
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(&format!("{program} {}", words.join(" ")), &output.stderr)),
    }
}

/// Waits until what was begun has ended, as it should.
pub fn end(child: Child, what: &str) -> Result<(), Failure> {
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(what, &output.stderr)),
    }
}

fn failed(what: &str, errors: &[u8]) -> Failure {
    let said = String::from_utf8_lossy(errors);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Failure::Node(format!("{what}: {}", last.unwrap_or("no word of it")))
}
