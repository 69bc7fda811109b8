//! Starting nodes: in this process, and as processes that a test can watch.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nile_abi::{Role, RoleSet};
use nile_platform::Outcome;
use nile_platform_hosted::{Boot, End, Setup, run_node};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::{pool, scenarios};

/// How long a node may take; only failures take as long.
const PATIENCE: Duration = Duration::from_secs(40);

/// Runs a node in this process. `roles` has a word for each core, made of the first letters of
/// its roles: `m ndw w`.
pub fn node(scenario: &str, roles: &str) -> ExitCode {
    if scenario == pool::REFUSED {
        forgo_mounting();
    }
    let setup = Setup {
        links: Vec::new(),
        files: None,
        shared: None,
        samples: None,
        disks: Vec::new(),
        roles: roles.split(' ').map(roles_of).collect(),
        memory: 64 << 20,
        most_memory: 64 << 20,
        pool: if scenario.starts_with("pool") { pool::POOL } else { 0 },
        boot: Boot {
            config: "a configuration".into(),
            program: scenario.into(),
            ..Boot::default()
        },
    };
    match run_node(setup, scenarios::core_main) {
        Ok(End::Finished(Outcome::Success)) => ExitCode::SUCCESS,
        Ok(End::Finished(Outcome::Failure)) => ExitCode::FAILURE,
        Ok(End::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Gives up the right to mount, if this process has it, as most users have not.
fn forgo_mounting() {
    let mut sets = capabilities(None).expect("this process has its rights");
    sets.effective.remove(CapabilitySet::SYS_ADMIN);
    set_capabilities(None, sets).expect("rights can be given up");
}

fn roles_of(word: &str) -> RoleSet {
    Role::ALL.into_iter().filter(|role| word.contains(&role.name()[..1])).collect()
}

/// What a node left behind.
pub struct Ended {
    /// Its exit status; none if a signal ended it.
    pub status: Option<i32>,
    pub log: String,
    pub output: String,
}

/// A node in a process of its own; killed when dropped.
pub struct NodeProcess {
    child: Child,
}

impl NodeProcess {
    pub fn start(scenario: &str, roles: &str) -> NodeProcess {
        let child = Command::new(env::current_exe().expect("this program has a path"))
            .args(["--node", scenario, roles])
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Linux starts this program again");
        NodeProcess { child }
    }

    /// The first report of the node's manager.
    pub fn report(&mut self) -> String {
        let output = self.child.stdout.as_mut().expect("a piped output");
        let mut line = Vec::new();
        BufReader::new(output).read_until(b'\n', &mut line).expect("a readable pipe");
        assert_eq!(line.first(), Some(&0x1e), "a report begins with a record separator");
        String::from_utf8(line[1..].trim_ascii_end().to_vec()).expect("text")
    }

    pub fn pid(&self) -> u64 {
        self.child.id().into()
    }

    /// Waits until the node has ended.
    pub fn end(mut self) -> Ended {
        let mut errors = self.child.stderr.take().expect("a piped log");
        let (sender, log) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            sender.send(errors.read_to_string(&mut text).map(|_| text))
        });
        let limit = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of this process") {
                break status;
            }
            assert!(Instant::now() < limit, "the node does not end");
            thread::sleep(Duration::from_millis(2));
        };
        let mut output = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut output).expect("text");
        }
        // The log ends when the last process that could write to it has: the workers, too.
        let log = log.recv_timeout(PATIENCE).expect("workers are left").expect("text");
        Ended { status: status.code(), log, output }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the process runs; one that has ended and waits for its parent does not.
pub fn is_alive(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Sends a signal to a process that is there.
pub fn signal(pid: u64, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("the process is there");
}

/// Waits until none of the processes runs; fails if some run on, and ends them.
pub fn wait_until_dead(pids: &[u64]) {
    let limit = Instant::now() + PATIENCE;
    while pids.iter().any(|pid| is_alive(*pid)) {
        if Instant::now() > limit {
            pids.iter().for_each(|pid| signal(*pid, Signal::KILL));
            panic!("processes are left: {pids:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}
