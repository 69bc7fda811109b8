//! What the package of a job is written with (NileOS paper, V; docs/write-a-job.md leads through
//! it). The package asks the service `task` of its core what to do, does it, and tells; this crate
//! makes these calls, and a job's author writes what happens to the data.
//!
//! * [`outcome`]: how a stage ends.
//! * [`stages`]: [`Stages`], a job over blocks of bytes; [`run`], which turns one into a package.
//! * [`task`]: [`Task`], what a stage reads and writes.
//! * `desk`: the calls; the word that work is off.
//! * [`map_reduce`]: [`MapReduce`], a job over lines and pairs of key and value, for most jobs.
//!   `lines` finds the lines of a split, `pairs` writes and reads pairs, `merge` brings them
//!   together by key, `stash` has those for which there is no room.
//! * [`local`]: runs a job in memory, for tests.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod desk;
mod lines;
pub mod local;
pub mod map_reduce;
mod merge;
pub mod outcome;
mod pace;
mod pairs;
pub mod stages;
mod stash;
pub mod task;

#[cfg(test)]
mod tests;

pub use map_reduce::{Emitter, Lines, MapReduce, Values, map_reduce};
pub use nile_interfaces::task::records::{Far, Range};
pub use outcome::{Done, Fault, Halt, Outcome};
pub use stages::{Bounds, Stages, run};
pub use task::{Block, DESCRIBED, Kept, MOST_DESCRIBED, Run, Source, Task};
