//! What a run is made of.

use std::time::Duration;

use nile_abi::RoleSet;
use nile_abi::call::System;
use nile_platform::WakeMode;

/// A package that is linked in: it gets the kernel and its argument, and gives its exit code.
pub type Program = fn(&dyn System, &[u8]) -> u64;

/// A run. Two runs with equal options and the same kernel are the same run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where every choice comes from.
    pub seed: u64,
    /// The role of each core; their number is the node's.
    pub roles: Vec<RoleSet>,
    /// Bytes of the node's memory.
    pub memory_bytes: u64,
    /// Bytes of them that all cores share for buffers.
    pub pool_bytes: u64,
    /// How sleeping cores are woken; `None` lets the seed choose.
    pub wake_mode: Option<WakeMode>,
    /// The packages that are linked in, by name.
    pub packages: Vec<(&'static str, Program)>,
    /// What goes wrong.
    pub faults: Faults,
    /// When a run that has not ended is called off, in virtual time.
    pub limit: Duration,
}

/// What goes wrong in a run. Nothing, by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The longest that a signal may take on top of its usual time.
    pub signal_delay: Duration,
    /// How many times a core is stopped, at moments and on cores that the seed chooses.
    pub core_stops: u32,
    /// The span at the start of the run into which the stops fall.
    pub stops_within: Duration,
    /// Whether the management core may be among those that stop.
    pub stop_manager: bool,
    /// How many packages fault in the midst of what they do, in turns that the seed chooses.
    pub package_faults: u32,
    /// How many packages begin to loop, in turns that the seed chooses: from then on they never
    /// call their kernel, and their core makes a pass only when it is signalled.
    pub package_loops: u32,
}
