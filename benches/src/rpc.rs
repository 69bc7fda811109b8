//! Calls between two hosted nodes, each pinned to a CPU of its own, beside UDP: a thread on the
//! first CPU sends 64 bytes over the kernel's loopback to one on the second, which sends them
//! back, both blocking. The virtual switch runs on the first CPU. The scenario `rpc-cost` measures
//! the calls; nodes and UDP take turns.

use std::io;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::number;
use crate::pair::{Pair, RESTLESS};
use crate::place::{Cpu, Stay, two_cpus};

/// How often nodes and UDP take turns.
const TURNS: usize = 5;

/// Echoes of one turn of UDP.
const ECHOES: u32 = 5_000;

/// How the two nodes are joined, and how they wait.
struct Link {
    name: &'static str,
    direct: bool,
    sealed: bool,
    polls: bool,
}

const SWITCHED: Link = Link { name: "switch", direct: false, sealed: false, polls: false };
const SEALED: Link = Link { name: "switch, sealed", sealed: true, ..SWITCHED };
const DIRECT: Link = Link { name: "direct", direct: true, ..SWITCHED };
const POLLING: Link = Link { name: "direct, polling", polls: true, ..DIRECT };

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
        for (link, times) in [SWITCHED, SEALED, DIRECT, POLLING].iter().zip(&mut took) {
            echoes.push(udp_echo(cpus)?);
            times.push(link.measure(cpus, mode)?);
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

impl Link {
    fn measure(&self, cpus: [Cpu; 2], mode: Mode) -> Result<Took, Failure> {
        let pair = Pair {
            name: self.name,
            direct: self.direct,
            sealed: self.sealed,
            config: if self.polls { RESTLESS } else { "" },
            options: &["--memory", "64M"],
        };
        let rounds = if mode == Mode::Control { 3 } else { 15 };
        let program = format!("rpc-cost nodes=2 rounds={rounds} calls=200 window=64");
        let report = pair.run(cpus, &program)?;
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
}
