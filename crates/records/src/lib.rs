//! Records by key, in memory (FENCE, section 5): bytes under a key of bytes, each with a version.
//!
//! * [`operation`]: what can be done to records, and what becomes of it.
//! * [`Shard`]: the share of one core, a plain map that nobody else reaches.
//! * [`Shared`]: a table of versioned objects over a region, for several writers at once; who
//!   takes a snapshot reads all of it as of one moment, while others write.
//!
//! Both do the same operations, and answer the same.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod operation;
mod shard;
mod shared;

pub use operation::{MOST_KEY, MOST_VALUE, Operation, Outcome, Record, Wrong};
pub use shard::Shard;
pub use shared::{Bucket, Scan, Shared, Sizes, View};

#[cfg(test)]
mod tests;
