//! Records in memory by key, beside redis and memcached: a client on one CPU reads and writes what
//! is in the memory of the other, in batches of one and of 16, half of them reads, nine of ten, or
//! all. Keys have 16 bytes, values 64; every key is there, and equally often asked for. One batch
//! is under way at a time.
//!
//! The scenario `record-cost` measures ours, on a hosted node of two cores: the calls of a core to
//! `records` of the other, also while both cores look for work for ever before they sleep, and to
//! `shared_records`. The [`peers`] are servers on the one CPU, at the other end of a Unix socket
//! from a client on the other; a batch is a pipeline, of memcached one with a single `get` of all
//! that it reads. All take turns. The control gives each operation of our batches in a call of its
//! own, and only batches of 16 are measured.

mod peers;

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{cpu_times, number};
use crate::pair::RESTLESS;
use crate::place::{Cpu, Stay, two_cpus};
use crate::rounds::{median, order};
use peers::Server;

/// How many records there are.
const KEYS: u64 = 10_000;

/// What is measured in a row of the table: operations of a batch, and reads of a hundred.
#[derive(Clone, Copy)]
struct Load {
    batch: u64,
    reads: u64,
}

const LOADS: [Load; 6] = [
    Load { batch: 1, reads: 50 },
    Load { batch: 1, reads: 90 },
    Load { batch: 1, reads: 100 },
    Load { batch: 16, reads: 50 },
    Load { batch: 16, reads: 90 },
    Load { batch: 16, reads: 100 },
];

/// Batches of a turn: of one operation, and of several.
const SINGLE: u64 = 20_000;
const SEVERAL: u64 = 8_000;

const ROUNDS: usize = 5;

/// Those that are measured, in their columns' order.
const NAMES: [&str; ALL] = ["records", "records, polling", "shared_records", "redis", "memcached"];
const ALL: usize = 5;
const OURS: usize = 0;
const POLLING: usize = 1;
const SHARED: usize = 2;
const REDIS: usize = 3;
const MEMCACHED: usize = 4;

/// What batches of 16 are to be beside redis; others are to be no slower.
const PROMISED: f64 = 5.0;

/// What a turn took.
#[derive(Clone, Copy)]
struct Took {
    /// Nanoseconds for an operation.
    ns: f64,
    /// Processor time of both CPUs for an operation, in microseconds.
    cpu_us: f64,
}

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    contest(mode, if mode == Mode::Control { 1 } else { ROUNDS }, 1)
}

/// The same in one round with a quarter of the batches.
pub fn try_out(mode: Mode) -> Result<Vec<Figure>, Failure> {
    contest(mode, 1, 4)
}

fn contest(mode: Mode, rounds: usize, part: u64) -> Result<Vec<Figure>, Failure> {
    let cpus = two_cpus()?;
    let mut servers = [Server::redis(cpus)?, Server::memcached(cpus)?];
    servers.iter_mut().try_for_each(|it| it.fill(KEYS))?;
    let loads = if mode == Mode::Control { &LOADS[3..] } else { &LOADS[..] };
    let mut table: Vec<[Vec<Took>; ALL]> = loads.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        for (load, row) in loads.iter().zip(&mut table) {
            let batches = if load.batch > 1 { SEVERAL } else { SINGLE } / part;
            for place in order(round, NAMES.len()) {
                row[place].push(match place.checked_sub(REDIS) {
                    Some(server) => servers[server].turn(*load, batches, KEYS)?,
                    None => node(mode, place, *load, batches, cpus)?,
                });
            }
        }
    }
    show(loads, &table, cpus);
    Ok(figures(loads, &table))
}

/// A turn of ours.
fn node(
    mode: Mode,
    place: usize,
    load: Load,
    batches: u64,
    cpus: [Cpu; 2],
) -> Result<Took, Failure> {
    // To begin, to fill, and to end take time of the CPUs, too.
    let (_, empty) = once(mode, place, load, 0, cpus)?;
    let (ns, all) = once(mode, place, load, batches, cpus)?;
    let cpu_us = (all - empty).max(0.0) * 1e6 / (batches * load.batch) as f64;
    Ok(Took { ns, cpu_us })
}

/// Nanoseconds for an operation on a node, and seconds that it used both CPUs.
fn once(
    mode: Mode,
    place: usize,
    Load { batch, reads }: Load,
    batches: u64,
    cpus: [Cpu; 2],
) -> Result<(f64, f64), Failure> {
    let hosted = env::var_os("NILE_HOSTED_SCENARIOS").ok_or_else(|| {
        Failure::Node("NILE_HOSTED_SCENARIOS does not say which program is a node".into())
    })?;
    let (shared, apart) = (u64::from(place == SHARED), u64::from(mode == Mode::Control));
    let program = format!(
        "record-cost keys={KEYS} batch={batch} batches={batches} reads={reads} shared={shared} \
         apart={apart}"
    );
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("nile.toml");
    fs::write(&config, if place == POLLING { RESTLESS } else { "" })?;
    let before = cpu_times("self")?;
    // Its cores are pinned to the CPUs that it may use, one after the other.
    let _stay = Stay::on_all(&cpus)?;
    let said = Command::new(hosted)
        .args(["--cores", "2", "--memory", "128M", "--program", &program, "--config"])
        .arg(&config)
        .stdin(Stdio::null())
        .output()?;
    let after = cpu_times("self")?;
    let text = String::from_utf8_lossy(&said.stdout);
    let report = text.rsplit('\u{1e}').next().unwrap_or_default();
    let report: Value = serde_json::from_str(report).map_err(|error| {
        let log = String::from_utf8_lossy(&said.stderr);
        Failure::Node(format!("no report: {error}: {log}"))
    })?;
    if report["program"]["passed"] != true {
        return Err(Failure::Node(format!("records: {}", report["program"]["failures"])));
    }
    let took = number(&report, "program.figures.took")? / 100.0;
    Ok((took, (after.children - before.children).as_secs_f64()))
}

/// The table with all of them.
fn show(loads: &[Load], table: &[[Vec<Took>; ALL]], cpus: [Cpu; 2]) {
    eprintln!("  thousands of operations a second, and in brackets CPU seconds for a million of");
    eprintln!("  them, on {} and {}: the middle of {} turns", cpus[0], cpus[1], table[0][0].len());
    let heads: String = NAMES.iter().map(|name| format!("{name:>22}")).collect();
    eprintln!("  {:<18}{heads}", "batch, % reads");
    for (Load { batch, reads }, row) in loads.iter().zip(table) {
        let cell = |turns: &Vec<Took>| {
            let cell = format!("{:.0} ({:.2})", 1e6 / middle(turns, |it| it.ns), {
                middle(turns, |it| it.cpu_us)
            });
            format!("{cell:>22}")
        };
        let cells: String = row.iter().map(cell).collect();
        eprintln!("  {:<18}{cells}", format!("{batch}, {reads}"));
    }
}

fn figures(loads: &[Load], table: &[[Vec<Took>; ALL]]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (Load { batch, reads }, row) in loads.iter().zip(table) {
        let rate = |place: usize| 1e6 / middle(&row[place], |it: &Took| it.ns);
        let least = if *batch > 1 { PROMISED } else { 1.0 };
        for (peer, least) in [(REDIS, least), (MEMCACHED, 1.0)] {
            // In a control memcached's target would be met by some.
            if peer == MEMCACHED && loads.len() < LOADS.len() {
                continue;
            }
            let name = match peer {
                REDIS => format!("store-{batch}-{reads}"),
                _ => format!("store-{batch}-{reads}-memcached"),
            };
            let ratios = row[peer].iter().zip(&row[OURS]).map(|(peer, ours)| peer.ns / ours.ns);
            let ratio = median(&ratios.collect::<Vec<_>>());
            let value = Peer { name: NAMES[peer].into(), value: rate(peer) };
            let target = Target::AtLeast(least);
            figures.push(Figure::with_ratio(name, "1000/s", rate(OURS), value, ratio, target));
        }
        let cpu = |place: usize| middle(&row[place], |it: &Took| it.cpu_us);
        let value = Peer { name: NAMES[REDIS].into(), value: cpu(REDIS) };
        let most = Target::AtMost(1.0 / least);
        figures.push(Figure::new(
            format!("store-{batch}-{reads}-cpu"),
            "s/M",
            cpu(OURS),
            value,
            most,
        ));
    }
    figures
}

fn middle(turns: &[Took], of: impl Fn(&Took) -> f64) -> f64 {
    median(&turns.iter().map(of).collect::<Vec<_>>())
}
