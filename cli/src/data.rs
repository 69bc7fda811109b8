//! Datasets of a running cluster: files put into it and got back, listed, removed. Every node's
//! store describes itself; what the cluster has is the sum of what those that answer say.
//!
//! * [`args`]: what can be said on the command line.
//! * [`stores`]: the nodes' stores, and calls to them.
//! * [`catalogue`]: the datasets of all of them.
//! * [`put`], [`get`], [`list`], [`remove`]: the commands.
//! * [`progress`]: how far a transfer is, on a terminal.

pub mod args;
pub mod catalogue;
pub mod get;
pub mod list;
mod progress;
pub mod put;
pub mod remove;
pub mod stores;
