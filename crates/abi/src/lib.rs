//! What every part of NileOS agrees on: names of things that restart, error codes with fixed
//! numbers, roles, time, limits. No logic lives here and nothing here depends on a machine.
//!
//! * [`id`]: nodes, cores, endpoints, channels, each with a generation.
//! * [`image`]: why a core does not get another kernel image.
//! * [`keep`]: names of memory that outlives its package.
//! * [`part`]: bytes of a buffer, as others read them.
//! * [`status`]: how a call between cores ends, with its number on the wire.
//! * [`role`]: what a core is for; [`phase`]: how far it has come.
//! * [`time`]: nanoseconds since the node started; [`window`]: when something may happen.
//! * [`call`]: the entry table of packages, and the system calls.
//! * [`ethernet`]: addresses of interfaces, the types of our frames; [`ip`]: the IPv4 network of a
//!   cluster.
//! * [`address`]: physical and virtual addresses, page sizes.
#![no_std]
#![forbid(unsafe_code)]

pub mod address;
pub mod call;
pub mod ethernet;
pub mod id;
pub mod image;
pub mod ip;
pub mod keep;
pub mod part;
pub mod phase;
pub mod role;
pub mod status;
pub mod time;
pub mod window;

pub use address::{PageSize, PhysAddr, VirtAddr};
pub use ethernet::MacAddress;
pub use id::{ChannelId, CoreId, EndpointId, Generation, NodeId};
pub use image::{IMAGE_HEAD, ImageDigest, ImageRefused};
pub use keep::KeepName;
pub use part::Part;
pub use phase::CorePhase;
pub use role::{Role, RoleSet};
pub use status::Status;
pub use time::Instant;
pub use window::Window;

/// The most cores one node can have: what an 8-bit APIC id can name.
pub const MAX_CORES: usize = 256;

/// The most channel receivers one node can have: one bit each in a 4 KiB bitmap.
pub const MAX_RECEIVERS: usize = 4096 * 8;
