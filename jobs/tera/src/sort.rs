//! TeraSort: the steps of `nile-sort` as the stages of a job.
//!
//! A map task moves the records of each block to another buffer, so that what each slice of each
//! partition has of it lies together, and keeps that. A reduce task on the same node reads the
//! records where they are, and copies each into a block of the output; to other nodes they travel
//! as they are. With too little memory a map task writes its records in order as runs, and a reduce
//! task merges these with the rest.
//!
//! [`bounds`]: where partitions begin, from samples. [`map`] and [`reduce`]: the tasks.

pub mod bounds;
pub mod map;
pub mod reduce;

use nile_sort::Failure;
use nile_tasks::Halt;

/// The most entries that are sorted at once: a few MiB of the package's memory.
pub const MOST_ENTRIES: usize = 1 << 17;

/// Records cannot be put in order because of what was read.
fn failed(failure: Failure) -> Halt {
    Halt::input(alloc::format!("{failure}"))
}
