//! A hosted machine with a supervisor, whose domains are made by commands.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
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
        machine.say(&[&up[..], &["--memory", memory]].concat())?;
        Ok(machine)
    }

    fn in_here(&self, mut command: Command) -> Command {
        command.env("XDG_RUNTIME_DIR", self.runtime.path()).stdin(Stdio::null());
        command
    }

    /// The command itself: what the launcher looks for is there, and its time is not measured. The
    /// launcher, where a test has started this.
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
        parsed(&said(command, words)?)
    }

    /// What a command says as JSON.
    pub fn document(&self, words: &[&str]) -> Result<Value, Failure> {
        parsed(&self.say(&[words, &["--json"]].concat())?)
    }

    fn pinned(&self, cpu: Cpu) -> Result<Command, Failure> {
        let mut command = self.in_here(Command::new("taskset"));
        command.args(["-c", &cpu.number().to_string()]).arg(self.nile()?);
        Ok(command)
    }

    /// From now on a part of the cluster goes before all others, on this CPU.
    pub fn put_first(&self, part: &str, cpu: Cpu) -> Result<(), Failure> {
        for pid in self.processes(part)? {
            move_to(pid, cpu)?;
            said(Command::new("chrt"), &["-a", "-f", "-p", FIRST, &pid.to_string()])?;
        }
        Ok(())
    }

    /// Has each worker core of a node on one of these CPUs, from c1 on, and all else of it on
    /// `rest`.
    pub fn pin(&self, node: &str, rest: Cpu, workers: &[Cpu]) -> Result<(), Failure> {
        for pid in self.processes(node)? {
            let worker = worker_core(pid).and_then(|core| workers.get(core.checked_sub(1)?));
            move_to(pid, *worker.unwrap_or(&rest))?;
        }
        Ok(())
    }

    /// Sends a signal to what a node consists of besides its worker cores.
    pub fn signal(&self, node: &str, signal: Signal) -> Result<(), Failure> {
        let processes = self.processes(node)?.into_iter();
        for pid in processes.filter(|pid| worker_core(*pid).is_none()) {
            let pid = Pid::from_raw(pid as i32).expect("no process has the number zero");
            kill_process(pid, signal).map_err(io::Error::from)?;
        }
        Ok(())
    }

    /// What a node has logged.
    pub fn log(&self, node: &str) -> Result<String, Failure> {
        let name = format!("{node}.log");
        let path = below(self.runtime.path(), &name);
        let path = path.ok_or_else(|| Failure::Node(format!("there is no {name}")))?;
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    }

    /// The processes that are this part of the cluster, of which there are some.
    fn processes(&self, part: &str) -> Result<Vec<u32>, Failure> {
        let pids = processes(part, self.runtime.path());
        match pids.is_empty() {
            true => Err(Failure::Node(format!("the cluster has no {part}"))),
            false => Ok(pids),
        }
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

/// Which worker core of its node a process is.
fn worker_core(pid: u32) -> Option<usize> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&line);
    let mut words = text.split('\0').skip_while(|word| *word != "--worker-of-a-node");
    words.nth(1)?.parse().ok()
}

fn move_to(pid: u32, cpu: Cpu) -> Result<(), Failure> {
    let (pid, cpu) = (pid.to_string(), cpu.number().to_string());
    said(Command::new("taskset"), &["-a", "-c", "-p", &cpu, &pid]).map(drop)
}

/// The file of this name in the folder, or below it.
fn below(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries.map(|entry| entry.path()).find_map(|path| match path.is_dir() {
        true => below(&path, name),
        false => path.ends_with(name).then_some(path),
    })
}

fn parsed(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::Node(format!("no document: {text}")))
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
