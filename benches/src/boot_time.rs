//! From a kernel's first instruction to every loop running, in QEMU without KVM. Whatever else the
//! host does makes a boot longer and never shorter, so the shortest of several counts.

use std::time::{Duration, Instant};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};
use crate::rounds::median;

/// What is promised for four cores.
const PROMISED_MICROS: f64 = 50_000.0;

/// Boots of a measurement.
const BOOTS: usize = 10;

const LIMIT: Duration = Duration::from_secs(60);

/// See the module. The control boots many more cores than the host has CPUs.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (cores, boots) = if mode == Mode::Control { (64, 1) } else { (4, BOOTS) };
    let ours = boot(cores, boots)?;
    if mode == Mode::Real {
        boot(64, 1)?;
    }
    let peer = Peer { name: "promise".into(), value: PROMISED_MICROS };
    Ok(vec![Figure::new("boot-time", "µs", ours, peer, Target::AtMost(1.0))])
}

/// The shortest of several boots of so many cores, in microseconds.
fn boot(cores: u32, boots: usize) -> Result<f64, Failure> {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..boots {
        let start = Instant::now();
        let report = Node::boot(&["--cores", &cores.to_string()], LIMIT)?.report()?;
        outside.push(start.elapsed().as_millis() as f64);
        inside.push(number(&report, "boot_us")?);
    }
    let least = inside.iter().copied().fold(f64::INFINITY, f64::min);
    let (middle, outside) = (median(&inside), median(&outside));
    eprintln!("  {cores:>3} cores: {least} µs, in the middle {middle} µs; with QEMU {outside} ms");
    Ok(least)
}
