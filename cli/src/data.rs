//! Datasets of a running cluster: files put into it and got back, listed, removed. What a name
//! means its keepers say; what there is of it, the stores that answer.
//!
//! * [`args`]: what can be said on the command line.
//! * [`service`]: a service of the nodes; [`stores`]: the nodes' stores, and calls to them;
//!   [`names`]: what names mean.
//! * [`catalogue`]: what names mean, and what the stores have of it.
//! * [`flow`]: many calls one after another; [`hand`]: files that nodes read and write themselves.
//! * `write`: bytes into drafts; `restore`: copies in place of those that failed meanwhile; `read`:
//!   bytes out of datasets.
//! * [`put`], [`get`], [`list`], [`remove`]: the commands; [`mend`]: those for disks.
//! * [`progress`]: how far a transfer is, on a terminal.

pub mod args;
pub mod catalogue;
mod flow;
pub mod get;
pub mod hand;
mod held;
pub mod list;
pub mod mend;
pub mod names;
mod progress;
pub mod put;
mod read;
pub mod remove;
mod restore;
pub mod service;
pub mod stores;
mod write;
