//! An empty system call of a package, through the whole of the kernel's loop of turns: in
//! instructions on a node in QEMU that counts them, and in cycles on a hosted node, beside what
//! Linux's smallest system call takes this process on the same CPU at the same time. The scenario
//! `system-call` measures ours.
//!
//! Each side works for a tenth of a millisecond and then lets the other on the CPU, so that a
//! batch is seldom cut in two; the result is the middle batch of each.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};
use crate::place::{Cpu, Stay, two_cpus};
use crate::rounds::median;

const LIMIT: Duration = Duration::from_secs(120);

/// Calls of a batch.
const CALLS: u32 = 1000;

/// Batches of a hosted node. One is enough where instructions are counted.
const REAL_ROUNDS: u32 = 300;
const CONTROL_ROUNDS: u32 = 50;

/// Instructions that an empty system call may take.
const PROMISED: f64 = 750.0;

/// How long this process leaves the CPU to the node after a batch.
const PAUSE: Duration = Duration::from_micros(200);

/// See the module. The control's calls bring 64 KiB with them.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    Ok(vec![counted(mode)?, timed(mode)?])
}

fn counted(mode: Mode) -> Result<Figure, Failure> {
    let machine = ["--cores", "2", "--count-instructions"];
    let ours = ours(&boot(&machine, 1)?.report()?, mode)?;
    eprintln!("  system call in QEMU: {ours:.2} instructions");
    let peer = Peer { name: "promise".into(), value: PROMISED };
    Ok(Figure::new("call-system", "instructions", ours, peer, Target::AtMost(1.0)))
}

fn timed(mode: Mode) -> Result<Figure, Failure> {
    // A node's cores take the CPUs in turn, and the second core of two is the worker.
    let [_, cpu] = two_cpus()?;
    let rounds = if mode == Mode::Control { CONTROL_ROUNDS } else { REAL_ROUNDS };
    let mut node = boot(&["--machine", "hosted", "--cores", "2"], rounds)?;
    node.process("nile-hosted")?;
    let over = AtomicBool::new(false);
    let (report, peer) = thread::scope(|scope| {
        let peer = scope.spawn(|| getppid(cpu, &over));
        let report = node.report();
        over.store(true, Ordering::Relaxed);
        (report, peer.join().expect("measuring does not panic"))
    });
    let (report, (peer, batches)) = (report?, peer?);
    let (ours, placement) = (ours(&report, mode)?, &report["facts"][0]);
    eprintln!("  system call, hosted ({placement}): {ours:.1} ns");
    eprintln!("  getppid on {cpu}, {batches} batches: {peer:.1} ns");
    let (unit, each) = match megahertz(cpu) {
        Some(megahertz) => ("cycles", megahertz / 1000.0),
        None => ("ns", 1.0),
    };
    let peer = Peer { name: "getppid on Linux".into(), value: peer * each };
    Ok(Figure::new("call-system-time", unit, ours * each, peer, Target::AtMost(2.0)))
}

fn boot(machine: &[&str], rounds: u32) -> Result<Node, Failure> {
    let program = format!("system-call rounds={rounds} calls={CALLS}");
    Node::boot(&[machine, &["--program", &program]].concat(), LIMIT)
}

/// What the scenario measured of ours, or of its control.
fn ours(report: &Value, mode: Mode) -> Result<f64, Failure> {
    if report["program"]["passed"] != true {
        let failures = &report["program"]["failures"];
        return Err(Failure::Node(format!("system calls failed: {failures}")));
    }
    let name = if mode == Mode::Control { "long-system-call" } else { "system-call" };
    Ok(number(report, &format!("program.figures.{name}"))? / 100.0)
}

/// Nanoseconds that Linux's call takes on `cpu`, measured until it is `over`, and in how many
/// batches.
fn getppid(cpu: Cpu, over: &AtomicBool) -> Result<(f64, usize), Failure> {
    let _stay = Stay::on(cpu)?;
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
        thread::sleep(PAUSE);
    }
    Ok((median(&times), times.len()))
}

/// The clock rate of a CPU: on a virtual machine, that of its time-stamp counter.
fn megahertz(cpu: Cpu) -> Option<f64> {
    rate_of(cpu, &fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn rate_of(cpu: Cpu, cpus: &str) -> Option<f64> {
    let wanted = cpu.number().to_string();
    let mut fields = cpus.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, value)| name.trim() == "processor" && value.trim() == wanted)?;
    let mut of_this = fields.take_while(|(name, _)| name.trim() != "processor");
    of_this.find(|(name, _)| name.trim() == "cpu MHz")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_its_own_rate() {
        let [cpu, _] = two_cpus().unwrap();
        let number = cpu.number();
        let of = |number, rate| format!("processor\t: {number}\nother: 1\ncpu MHz\t\t: {rate}\n");
        let cpus = of(number + 1, 1000.0) + "\n" + &of(number, 2596.12);
        assert_eq!(rate_of(cpu, &cpus), Some(2596.12));
        assert_eq!(rate_of(cpu, &of(number + 1, 1000.0)), None);
        let without = format!("processor: {number}\nprocessor: x\ncpu MHz: 1\n");
        assert_eq!(rate_of(cpu, &without), None);
    }
}
