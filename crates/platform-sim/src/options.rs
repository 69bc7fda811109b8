//! What a run is made of.

use std::time::Duration;

use nile_abi::RoleSet;
use nile_abi::call::System;
use nile_platform::WakeMode;

use crate::disk::Contents;

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
    /// The node's disks.
    pub disks: Vec<DiskOptions>,
    /// The files that are handed to the node, by number: [images](crate::image) for its cores.
    pub files: Vec<Vec<u8>>,
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

/// A disk of a run.
#[derive(Clone, Debug, Default)]
pub struct DiskOptions {
    /// Its bytes; rounded down to whole sectors of 512 bytes.
    pub bytes: u64,
    /// What is on it at the start: nothing, or what an earlier run has left.
    pub contents: Contents,
    /// What goes wrong with it.
    pub faults: DiskFaults,
}

/// What goes wrong with a disk. Nothing, by default, but what a power failure does to every disk.
#[derive(Clone, Debug, Default)]
pub struct DiskFaults {
    /// Whether flushes end without effect.
    pub ignores_flushes: bool,
    /// Ends the node by a power failure in the midst of the write with this number, the first
    /// being 1.
    pub cut_at_write: Option<u64>,
    /// Bytes whose sectors can be neither read nor written.
    pub bad_bytes: Vec<u64>,
    /// The disk fails for good after so many requests.
    pub fails_after: Option<u64>,
    /// Of a million reads, how many have one bit wrong.
    pub flips_per_million: u32,
    /// Of a million reads, how many give what is elsewhere.
    pub misdirected_per_million: u32,
}
