//! How good instances are.

use alloc::string::String;

use nile_registry::Layer;
use nile_stl::{Measured, Record};

use super::Found;

/// How an instance was found to serve.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rating {
    /// The instance.
    pub found: Found,
    /// How long it takes until a call has succeeded, in nanoseconds.
    pub latency_ns: u64,
    /// How many of a million calls fail.
    pub failures_ppm: u32,
    /// How many calls say so.
    pub calls: u32,
}

impl From<Measured> for Rating {
    fn from(measured: Measured) -> Rating {
        let Measured { place, latency_ns, failures_ppm, calls } = measured;
        Rating { found: place.into(), latency_ns, failures_ppm, calls }
    }
}

/// An instance with pure methods, and how good it is, as it was found or says.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub found: Found,
    /// Its type's layer: high or low.
    pub layer: Layer,
    /// How long a call takes, in nanoseconds, if that is known.
    pub latency_ns: Option<u64>,
    /// How many of a million calls fail.
    pub failures_ppm: u32,
    /// How many calls in a second it can take, if it says so.
    pub per_second: Option<u64>,
    /// Whether that was measured of late, not declared.
    pub measured: bool,
}
