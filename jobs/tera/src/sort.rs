//! TeraSort: the steps of `nile-sort` as the stages of a job.
//!
//! A map task leaves the entries of each block's records behind them, in the block's own buffer,
//! and keeps that: the records are not moved. A reduce task on the same node reads entries and
//! records where they are, and copies each record once, into a block of the output. If other nodes
//! are to have pieces, a map task moves each block's records to another buffer, so that what each
//! slice of each partition has lies together, entries included, and travels as it is. With too
//! little memory a map task writes its records in order as runs, and a reduce task merges these
//! with the rest.
//!
//! * [`bounds`]: where partitions begin, from samples.
//! * [`output`]: blocks with their entries, and how they are described to who reads them.
//! * [`map`]: map tasks; [`grouped`]: those that move records; [`reduce`]: reduce tasks.

pub mod bounds;
pub mod grouped;
pub mod map;
pub mod output;
pub mod reduce;

use nile_sort::Failure;
use nile_tasks::Halt;

/// The most entries that are sorted at once: a few MiB of the package's memory.
pub const MOST_ENTRIES: usize = 1 << 17;

/// Records cannot be put in order because of what was read.
fn failed(failure: Failure) -> Halt {
    Halt::input(alloc::format!("{failure}"))
}
