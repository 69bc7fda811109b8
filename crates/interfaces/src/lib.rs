//! What the services of a node say, apart from who does it: the methods of each, the records that
//! calls carry, and its typed client. Callers of a service link this and not its implementation,
//! which is in `services`.
//!
//! * Memory and cores of a node: [`heap`], [`physical_memory`], [`virtual_memory`],
//!   [`core_manager`], [`role_assignment`], [`time`], [`timer`], [`timer_source`], [`interrupt`],
//!   [`sampler`], [`log`].
//! * Its disks and what is on them: [`disk`], [`dataset`], [`name`].
//! * Services of all nodes: [`registry`], [`network`], [`gossip`], [`bulk`], [`composer`].
//! * Who runs next: [`scheduling`], [`policy_manager`].
//! * Packages that stay: [`packages`]. What those are given that serve a network: [`frames`]; what
//!   they tell of it: [`sockets`].
//! * Graphs that change: [`graph`]. Records by key: [`records`].
//! * Parts of a machine that are nodes of their own: [`domains`].
//! * Jobs: [`job`], [`worker`], [`task`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bulk;
pub mod composer;
pub mod core_manager;
pub mod dataset;
pub mod disk;
pub mod domains;
pub mod frames;
pub mod gossip;
pub mod graph;
pub mod heap;
pub mod interrupt;
pub mod job;
pub mod log;
pub mod name;
pub mod net;
pub mod network;
pub mod packages;
pub mod physical_memory;
pub mod policy_manager;
pub mod records;
pub mod registry;
pub mod role_assignment;
pub mod sampler;
pub mod scheduling;
pub mod sockets;
pub mod task;
pub mod time;
pub mod timer;
pub mod timer_source;
pub mod virtual_memory;
pub mod worker;
