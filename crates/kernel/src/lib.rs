//! The kernel: one loop per core, and what runs on it. It knows no architecture; it is written
//! against the traits of `nile-platform` and runs on every machine that implements them.
//!
//! In reading order:
//!
//! * [`config`], [`roles`], [`membership`], [`ip`] and `filter`: `nile.toml`: which core does what,
//!   which node of a cluster this is, and what holds of its network.
//! * [`core`]: a core and its loop: drain channels, poll tasks, fire timers, sleep.
//! * [`executor`] and [`timers`]: the tasks of a core and their deadlines.
//! * [`channel`]: one-way channels between cores, as tasks use them.
//! * [`memory`]: frames of a core's own, and how much memory the node has.
//! * [`pool`]: buffers in memory that all cores of the node share.
//! * [`packages`]: user mode: how a core loads a package, runs it, serves it and ends it.
//! * `control`, `client`, `manager`: what a core asks of the management core, and how that answers.
//! * `leave`: planned ends of cores.
//! * `device` and `lines`: the network interfaces and disks of a core, and how they interrupt.
//! * `services`: the service transport layer of a core, and its links to the other cores.
//! * [`boot`] and [`report`]: the first program, and what it says.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod boot;
pub mod channel;
mod client;
pub mod config;
mod control;
pub mod core;
mod device;
pub mod executor;
mod filter;
mod images;
mod input;
pub mod ip;
mod leave;
mod lines;
mod manager;
pub mod membership;
pub mod memory;
pub mod packages;
pub mod pool;
mod regions;
pub mod report;
pub mod roles;
mod sampling;
mod services;
mod supervising;
pub mod timers;

pub use self::channel::{Inbound, Outbound};
pub use self::config::{Config, ConfigError, Named};
pub use self::core::{Core, CoreLoop, run};
pub use self::executor::Join;
pub use self::memory::{Frame, MemoryRegion, MemoryStatistics};
pub use self::packages::{
    Calls, Ended, LoadError, Package, PackageId, PackageLimits, PackageReport,
};
pub use self::pool::{Pool, PoolConfig};
pub use self::report::{ProgramReport, Report};
pub use self::services::ServiceCalls;
pub use self::supervising::{DiskParts, Supervising};
