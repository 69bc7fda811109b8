//! Calls between two hosted nodes, each pinned to a CPU of its own, beside UDP: a thread on the
//! first CPU sends 64 bytes over the kernel's loopback to one on the second, which sends them
//! back, both blocking. The virtual switch runs on the first CPU. The scenario `rpc-cost` measures
//! the calls; nodes and UDP take turns.

use std::env;
use std::fs;
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{launcher, number};
use crate::place::{Cpu, Stay, two_cpus};

/// How often nodes and UDP take turns.
const TURNS: usize = 5;

/// Echoes of one turn of UDP.
const ECHOES: u32 = 5_000;

/// How long a pair of nodes may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The cores look for work for ever before they sleep.
const RESTLESS: &str = "[idle]\npolls = 4294967295\n";

/// How the two nodes are joined, and how they wait.
struct Pair {
    name: &'static str,
    direct: bool,
    sealed: bool,
    polls: bool,
}

const SWITCHED: Pair = Pair { name: "switch", direct: false, sealed: false, polls: false };
const SEALED: Pair = Pair { name: "switch, sealed", sealed: true, ..SWITCHED };
const DIRECT: Pair = Pair { name: "direct", direct: true, ..SWITCHED };
const POLLING: Pair = Pair { name: "direct, polling", polls: true, ..DIRECT };

/// What a pair of nodes took for a call, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    round_trip: f64,
    batched: f64,
}

/// See the module. The control of a call is three calls, that of many at once is one at a time.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let cpus = two_cpus()?;
    let turns = if mode == Mode::Control { 1 } else { TURNS };
    let mut echoes = Vec::new();
    let mut took: [Vec<Took>; 4] = Default::default();
    for _ in 0..turns {
        for (pair, times) in [SWITCHED, SEALED, DIRECT, POLLING].iter().zip(&mut took) {
            echoes.push(udp_echo(cpus)?);
            times.push(pair.measure(cpus, mode)?);
        }
    }
    let udp = middle(echoes);
    let times = if mode == Mode::Control { 3.0 } else { 1.0 };
    let trip = |at: usize| middle(took[at].iter().map(|it| it.round_trip).collect()) * times;
    let peer = |name: &str, value| Peer { name: name.into(), value };
    let echo = || peer("udp-echo", udp);
    let batched = match mode {
        Mode::Control => trip(2),
        Mode::Real => middle(took[2].iter().chain(&took[3]).map(|it| it.batched).collect()),
    };
    let rate = 1e9 / batched;
    let unsealed = trip(0) / times;
    Ok(vec![
        Figure::new("rpc-switch", "ns", trip(0), echo(), Target::AtMost(2.5)),
        Figure::new("rpc-sealed", "ns", trip(1), peer("unsealed", unsealed), Target::AtMost(1.3)),
        Figure::new("rpc-direct-sleep", "ns", trip(2), echo(), Target::AtMost(1.0)),
        Figure::new("rpc-direct-poll", "ns", trip(3), echo(), Target::AtMost(0.1)),
        Figure::new("rpc-rate", "1/s", rate, peer("udp-echo", 1e9 / udp), Target::AtLeast(10.0)),
    ])
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds that a blocking echo of 64 bytes takes between threads on two CPUs.
fn udp_echo([here, there]: [Cpu; 2]) -> Result<f64, Failure> {
    let (client, server) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    client.connect(server.local_addr()?)?;
    server.connect(client.local_addr()?)?;
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    }
    let warm_up = ECHOES / 10;
    let total = ECHOES + warm_up;
    let echo = thread::spawn(move || -> io::Result<()> {
        let _stay = Stay::on(there)?;
        let mut bytes = [0; 64];
        for _ in 0..total {
            let length = server.recv(&mut bytes)?;
            server.send(&bytes[..length])?;
        }
        Ok(())
    });
    let _stay = Stay::on(here)?;
    let mut bytes = [0x5a; 64];
    let mut begin = Instant::now();
    for round in 0..total {
        if round == warm_up {
            begin = Instant::now();
        }
        client.send(&bytes)?;
        client.recv(&mut bytes)?;
    }
    let took = begin.elapsed().as_nanos() as f64 / f64::from(ECHOES);
    echo.join().map_err(|_| Failure::Node("the echo panicked".into()))??;
    Ok(took)
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

impl Pair {
    fn measure(&self, [here, there]: [Cpu; 2], mode: Mode) -> Result<Took, Failure> {
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
        let second = Ending(self.node(path, 2, there, mode)?);
        let mut first = Ending(self.node(path, 1, here, mode)?);
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
        let figure = |name: &str| -> Result<f64, Failure> {
            Ok(number(&report, &format!("program.figures.{name}"))? / 100.0)
        };
        let took = Took { round_trip: figure("round-trip")?, batched: figure("batched")? };
        eprintln!(
            "  {:<16} {:>9.0} ns a call, {:>9.0} calls/s of many at once",
            self.name,
            took.round_trip,
            1e9 / took.batched
        );
        Ok(took)
    }

    /// Starts a node of one core on one CPU.
    fn node(&self, path: &Path, id: u32, cpu: Cpu, mode: Mode) -> Result<Child, Failure> {
        let idle = if self.polls { RESTLESS } else { "" };
        let network = match self.sealed {
            true => format!("key = \"{}\"", "5a".repeat(32)),
            false => "unsealed = true".into(),
        };
        let config = path.join(format!("n{id}.toml"));
        fs::write(&config, format!("{idle}[node]\nid = {id}\n[network]\n{network}\n"))?;
        let rounds = if mode == Mode::Control { 3 } else { 15 };
        let program = format!("rpc-cost nodes=2 rounds={rounds} calls=200 window=64");
        let hosted = env::var_os("NILE_HOSTED").ok_or_else(|| {
            Failure::Node("NILE_HOSTED does not say which program is a node".into())
        })?;
        let mut node = Command::new(hosted);
        node.args(["--cores", "1", "--memory", "64M", "--program", &program, "--config"]);
        node.arg(&config);
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
