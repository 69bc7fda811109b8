//! Datasets of a running cluster: files put into it and got back, listed, removed. What a name
//! means its keepers say; what there is of it, the stores that answer.
//!
//! * [`args`]: what can be said on the command line.
//! * `service`: a service of the nodes; [`stores`]: the nodes' stores, and calls to them;
//!   [`names`]: what names mean.
//! * [`catalogue`]: what names mean, and what the stores have of it.
//! * [`put`], [`get`], [`list`], [`remove`]: the commands.
//! * [`progress`]: how far a transfer is, on a terminal.

pub mod args;
pub mod catalogue;
pub mod get;
pub mod list;
pub mod names;
mod progress;
pub mod put;
pub mod remove;
mod service;
pub mod stores;
