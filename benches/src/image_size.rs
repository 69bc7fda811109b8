//! The kernel image as machines load it, without symbols: with all services, and with those alone
//! that a node needs whose cores are workers.

use std::env;
use std::fs;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};

/// What is promised of each, in bytes.
const WHOLE: u32 = 4 << 20;
const WORKER: u32 = 3 << 19;

/// See the module. The control takes the whole image with its symbols, and then without them for
/// the worker's.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let figure = |name: &str, variable: &str, promised: u32| {
        let file = env::var_os(variable).ok_or_else(|| {
            Failure::Node(format!("{variable} names no kernel; start it through ./nile bench"))
        })?;
        let ours = fs::metadata(file)?.len() as f64;
        let peer = Peer { name: "promise".into(), value: promised.into() };
        Ok::<_, Failure>(Figure::new(name, "bytes", ours, peer, Target::AtMost(1.0)))
    };
    let (whole, worker) = match mode {
        Mode::Real => ("NILE_KERNEL", "NILE_KERNEL_ONLY"),
        Mode::Control => ("NILE_KERNEL_SYMBOLS", "NILE_KERNEL"),
    };
    Ok(vec![figure("image-size", whole, WHOLE)?, figure("image-size worker", worker, WORKER)?])
}
