//! Two hosted nodes of one core each, on a CPU each: n1 conducts a scenario with n2, and what it
//! reports is measured.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::figure::Failure;
use crate::node::launcher;
use crate::place::{Cpu, Stay};

/// How long a pair of nodes may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Has the cores look for work for ever before they sleep.
pub const RESTLESS: &str = "[idle]\npolls = 4294967295\n";

/// How the two nodes are joined, and what they are.
pub struct Pair<'a> {
    /// What it is called when it fails.
    pub name: &'a str,
    /// Whether they have a direct link, and not the switch.
    pub direct: bool,
    /// Whether frames are sealed.
    pub sealed: bool,
    /// What their configurations say besides.
    pub config: &'a str,
    /// What else they are started with.
    pub options: &'a [&'a str],
}

/// A process that ends with this value.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It has ended already, or does now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pair<'_> {
    /// Runs a program on both to its end: n1's report, in which all holds.
    pub fn run(&self, [here, there]: [Cpu; 2], program: &str) -> Result<Value, Failure> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        let mut switch = None;
        if !self.direct {
            let _stay = Stay::on(here)?;
            let started = Command::new(launcher()?)
                .arg("switch")
                .arg(path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            switch = Some(Ending(started));
            wait_for(&path.join("switch"))?;
        }
        let second = Ending(self.node(path, 2, there, program)?);
        let mut first = Ending(self.node(path, 1, here, program)?);
        let deadline = Instant::now() + LIMIT;
        while first.0.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err(Failure::Node(format!("{}: no end after {LIMIT:?}", self.name)));
            }
            thread::sleep(Duration::from_millis(20));
        }
        drop((second, switch));
        let said = fs::read_to_string(path.join("n1.out"))?;
        let report = said.rsplit('\u{1e}').next().unwrap_or_default();
        let report: Value = serde_json::from_str(report).map_err(|error| {
            let log = fs::read_to_string(path.join("n1.err")).unwrap_or_default();
            Failure::Node(format!("{}: no report: {error}: {log}", self.name))
        })?;
        if report["program"]["passed"] != true {
            let failures = &report["program"]["failures"];
            return Err(Failure::Node(format!("{}: {failures}", self.name)));
        }
        Ok(report)
    }

    /// Starts a node of one core on one CPU.
    fn node(&self, path: &Path, id: u32, cpu: Cpu, program: &str) -> Result<Child, Failure> {
        let network = match self.sealed {
            true => format!("key = \"{}\"", "5a".repeat(32)),
            false => "unsealed = true".into(),
        };
        let config = path.join(format!("n{id}.toml"));
        fs::write(&config, format!("{}[node]\nid = {id}\n[network]\n{network}\n", self.config))?;
        let hosted = env::var_os("NILE_HOSTED_SCENARIOS").ok_or_else(|| {
            Failure::Node("NILE_HOSTED_SCENARIOS does not say which program is a node".into())
        })?;
        let mut node = Command::new(hosted);
        node.args(["--cores", "1", "--program", program]).args(self.options);
        node.arg("--config").arg(&config);
        match self.direct {
            true => node.arg("--direct").arg(path),
            false => node.arg("--switch").arg(path.join("switch")),
        };
        node.stdin(Stdio::null());
        node.stdout(fs::File::create(path.join(format!("n{id}.out")))?);
        node.stderr(fs::File::create(path.join(format!("n{id}.err")))?);
        // It inherits where this thread may run.
        let _stay = Stay::on(cpu)?;
        Ok(node.spawn()?)
    }
}

fn wait_for(socket: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + LIMIT;
    while !socket.exists() {
        if Instant::now() > deadline {
            return Err(Failure::Node("the virtual switch does not start".into()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
