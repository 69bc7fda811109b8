//! Sorting records of a fixed length, and the Sort Benchmark's records that TeraSort sorts.
//!
//! A sort moves a record once, and once more if pieces go to other nodes. What is sorted are
//! *entries*, numbers of 16 bytes: the record's key and its *position*, that is, which record of
//! the input it is. No two entries are equal, so the order is total and equal keys keep the order
//! of the input. Beside a block they are packed, in 12 bytes: there the position is only the
//! record's place in the block. Its steps, each over memory that the caller gives:
//!
//! 1. [`sample`]: a few keys of the whole input give [`Cuts`], between which the *parts* lie, one
//!    for each reducer.
//! 2. [`index`]: a map task leaves an entry of each record of a block behind the records, grouped
//!    by the *bucket* of the part that the record belongs to. [`group`]: one whose pieces go to
//!    other nodes moves the records, too, so that what each part has lies together.
//! 3. [`sorted`]: a reduce task takes its part of every block, bucket by bucket, sorts each while
//!    it is in the cache (`order`), and copies the records into output buffers ([`gather`]).
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
pub mod gather;
pub mod generator;
pub mod group;
pub mod index;
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
pub use gather::{Missing, Place, gather};
pub use generator::{Format, Generator};
pub use group::{Groups, grouped};
pub use index::{Index, NoRoom};
pub use layout::{Layout, Tera};
pub use merge::{Merge, Step};
pub use plan::Plan;
pub use sample::{Cuts, Sample, imbalance};
pub use sorted::{Block, Failure, Sorted};
pub use tally::Tally;
pub use validate::{Summary, Validator};
