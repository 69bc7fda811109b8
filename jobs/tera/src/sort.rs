//! TeraSort: the steps of `nile-sort` as the stages of a job.
//!
//! A map task leaves the entries of each block's records behind them, in the block's own buffer,
//! and keeps that: the records are not moved. A reduce task on the same node reads entries and
//! records where they are, and copies each record once, into a block of the output. If others are
//! to have pieces, a map task moves the records of each partition to blocks of their own, which go
//! to the other node as they are, entries included. Where partitions are too many for that, the
//! job's code copies the records of one partition in order for another node, to which the reduce
//! task there makes entries again. With too little memory a map task writes its records in order as
//! runs, and a reduce task merges these with the rest.
//!
//! * [`bounds`]: where partitions begin, from samples.
//! * [`output`]: blocks with their entries, and how they are described to who reads them.
//! * [`map`]: map tasks and exports; [`apart`]: map tasks that part the records; [`reduce`]: reduce
//!   tasks.

pub mod apart;
pub mod bounds;
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
