//! Sorting records of a fixed length, and the Sort Benchmark's records that TeraSort sorts.
//!
//! A sort moves a record twice: once within a block that is in the cache, and once to its place in
//! the output. What is sorted are *entries*, numbers of 16 bytes: the record's key and its
//! *position*, that is, which record of the input it is. No two entries are equal, so the order is
//! total and equal keys keep the order of the input. There are entries only of the few thousand
//! records that are sorted at a time. Its steps, each over memory that the caller gives:
//!
//! 1. [`sample`]: a few keys of the whole input give [`Cuts`], between which the *parts* lie, one
//!    for each reducer.
//! 2. [`group`]: a map task moves the records of each block, so that those of each *bucket* of a
//!    part lie together.
//! 3. [`sorted`]: a reduce task takes its part of every block, bucket by bucket, sorts the entries
//!    of each (`order`), and copies the records into output buffers (`gather`) while they are in
//!    the cache.
//! 4. [`merge`]: where memory was too small for that, map tasks put out sorted runs in the same
//!    way, and a reduce task merges them.
//!
//! Whether all records are still there tells their [`tally`]. Around it: [`generator`] makes
//! records ([`random`] are the benchmark's random numbers), and [`validate`] says whether records
//! are in order, with their [`checksum`]. [`layout`] says where a record's key is; [`entry`] is
//! what is sorted; [`plan`] finds an entry's part and bucket.
//!
//! Sans-IO: nothing here reads, writes, waits or allocates by the size of its input.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod checksum;
pub mod entry;
mod gather;
pub mod generator;
pub mod group;
pub mod layout;
pub mod merge;
mod order;
pub mod plan;
pub mod random;
pub mod sample;
pub mod sorted;
pub mod tally;
pub mod validate;

#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use entry::{Entry, Position};
pub use generator::{Format, Generator};
pub use group::{Groups, NoRoom};
pub use layout::{Layout, Tera};
pub use merge::{Merge, Step};
pub use plan::Plan;
pub use sample::{Cuts, Sample, imbalance};
pub use sorted::{Failure, Sorted};
pub use tally::Tally;
pub use validate::{Summary, Validator};
