//! The memory that page tables take with 4 GiB, for a few and for many cores: last-level tables in
//! one shared pool beside tables that are all private. A count, the same on every run.

use nile_memory::footprint::Footprint;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};

/// The node's memory.
const BYTES: u64 = 4 << 30;

/// See the module. The control gives every core tables of its own.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    Ok([4, 16, 64].map(|cores| measure(mode, cores)).into())
}

fn measure(mode: Mode, cores: usize) -> Figure {
    let footprint = Footprint::of(cores, BYTES).expect("4 GiB can be mapped");
    let (shared, private) = (footprint.shared_bytes(), footprint.private_bytes());
    eprintln!("  {cores:>2} cores: shared pool {shared} bytes, private {private} bytes");
    let ours = if mode == Mode::Control { private } else { shared };
    let peer = Peer { name: "private tables".into(), value: private as f64 };
    let name = format!("tables-{cores}");
    Figure::new(name, "bytes", ours as f64, peer, Target::AtMost(0.5))
}
