//! The kernel image as machines load it, without symbols.

use std::env;
use std::fs;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};

/// What is promised, in bytes: the kernel alone was to stay below half of it.
const PROMISED: f64 = (3 << 20) as f64;

/// See the module. The control takes the image with its symbols.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let bytes = |variable: &str| {
        let file = env::var_os(variable).ok_or_else(|| {
            Failure::Node(format!("{variable} names no kernel; start it through ./nile bench"))
        })?;
        Ok::<_, Failure>(fs::metadata(file)?.len())
    };
    let variable = match mode {
        Mode::Real => "NILE_KERNEL",
        Mode::Control => "NILE_KERNEL_SYMBOLS",
    };
    let ours = bytes(variable)? as f64;
    let peer = Peer { name: "promise".into(), value: PROMISED };
    Ok(vec![Figure::new("image-size", "bytes", ours, peer, Target::AtMost(1.0))])
}
