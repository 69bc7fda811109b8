//! The dataset store (NileOS paper, III.B puts data on a node's own disks; docs/store.md
//! specifies the bytes): named, immutable datasets of checksummed blocks on an *extent*, a named
//! part of a disk. After power loss at any write, committed datasets are whole and all others are
//! absent.
//!
//! A dataset begins as a *draft* in memory, which reserves space for blocks. It is *prepared*
//! when its *manifest*, which lists the blocks and who holds them, is durable, and *committed*
//! when the store has recorded that, too; one that is on this node alone takes both steps at once.
//! Beside datasets it keeps *notes*, small values under keys. All this is records of a *log*, which
//! lives in one of two *halves* in turns: when one is full, and at every mount, what is still
//! valid is written to the other.
//!
//! Sans-IO: the store says what is to be read, written and flushed, and is told how that ended.
//! It never touches the bytes of blocks; the caller moves those between its buffers and the ranges
//! of the disk that the store names.
//!
//! * [`manifest`]: names, versions, blocks, who holds them.
//! * [`error`]: why something cannot be done.
//! * [`extent`]: where a store is, and what it asks of its disk.
//! * [`label`]: whose a disk is, and the table of its extents.
//! * [`space`]: free space, in units.
//! * [`bytes`]: numbers and names as bytes.
//! * [`record`]: the log's records; [`entry`], [`note`]: what they say of datasets and notes;
//!   `log`: one half, written; `checkpoint`: what it begins with.
//! * [`table`]: the datasets and notes, as the records leave them.
//! * [`draft`]: datasets that are being written.
//! * [`recovery`]: a store read from its disk.
//! * [`store`]: [`Store`]; `work`, what it does to its disk, step by step.
//! * [`catalogue`]: what the stores of all nodes have together.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
pub mod catalogue;
mod checkpoint;
pub mod draft;
mod entry;
pub mod error;
pub mod extent;
pub mod label;
mod log;
pub mod manifest;
pub mod note;
mod record;
pub mod recovery;
mod space;
pub mod store;
mod table;
mod work;

#[cfg(test)]
mod tests;

pub use catalogue::{Catalogue, Verdict};
pub use draft::DraftId;
pub use error::{DiskFailed, Error};
pub use extent::{Action, Extent, Range, Step, UNIT};
pub use label::{Home, Label, LabelError};
pub use manifest::{Attempt, Block, Epoch, Manifest, Name, Owner, Version};
pub use nile_ipioe::checksum::{self, Checksum};
pub use note::LONGEST_NOTE;
pub use recovery::{MountError, Recovery};
pub use space::{RECORDS, Space};
pub use store::{Store, Ticket};
pub use table::{Dataset, State};
