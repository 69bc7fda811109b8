//! Sorting records of a fixed length, and the Sort Benchmark's records that TeraSort sorts.
//!
//! A sort never moves a record twice. What is sorted are *entries*, numbers of 16 bytes: the
//! record's key and its *position*, that is, which record of the input it is. No two entries are
//! equal, so the order is total and equal keys keep the order of the input. Its steps, each
//! over memory that the caller gives:
//!
//! 1. [`sample`]: a few keys of the whole input give [`Cuts`], between which the *parts* lie, one
//!    for each reducer.
//! 2. [`scatter`]: a map task goes through its input once and leaves an entry of each record in a
//!    *bucket* of the part that the record belongs to.
//! 3. [`sorted`]: a reduce task takes its part from every map task, bucket by bucket, and sorts
//!    each while it is in the cache (`order`).
//! 4. [`gather`]: the records, in that order, are copied into output buffers.
//! 5. [`merge`]: where memory was too small for that, sorted runs are merged.
//!
//! Around it: [`generator`] makes records ([`random`] are the benchmark's random numbers), and
//! [`validate`] says whether records are in order, with their [`checksum`]. [`layout`] says where
//! a record's key is; [`entry`] is what is sorted; [`plan`] finds an entry's part and bucket.
//!
//! Sans-IO: nothing here reads, writes, waits or allocates by the size of its input.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod checksum;
pub mod entry;
pub mod gather;
pub mod generator;
pub mod layout;
pub mod merge;
mod order;
pub mod plan;
pub mod random;
pub mod sample;
pub mod scatter;
pub mod sorted;
pub mod validate;

#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use entry::{Entry, Position};
pub use gather::{Missing, Records, gather};
pub use generator::{Format, Generator};
pub use layout::{Layout, Tera};
pub use merge::{Merge, Step};
pub use plan::Plan;
pub use sample::{Cuts, Sample, imbalance};
pub use scatter::{Full, Part, Scatter};
pub use sorted::Sorted;
pub use validate::{Summary, Validator};
