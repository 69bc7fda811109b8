//! The hosted machine: a node is a Linux process, no root needed.
//!
//! Cores with a system role (management, network, disk) are pinned threads of that process; cores
//! that are workers and nothing else are child processes, each with an address space of its own.
//! The node's memory is one file without a name; what two cores share is mapped in both, at one
//! address. A worker that dies is reported and restarted; the node goes on.
//!
//! Threads of the node share an address space, so the system cores are not protected from each
//! other as they are on bare hardware: a fault in one of them ends the node. Isolation here keeps
//! mistakes of workers in; it is no defence against a worker that means harm, which can map the
//! file it has inherited.
//!
//! In reading order:
//!
//! * [`start`]: a node from its description to its end, [`run_node`].
//! * `clock`, `steps`: the node's time.
//! * `layout`, `arena`, `large`, `boot`: the node's memory, what lies where, in what pages, what a
//!   worker reads first.
//! * `node`: the node as one of its processes sees it.
//! * [`machine`]: one core, [`Hosted`]; `tick`: its periodic timer; `alarm`: what ends its sleep;
//!   both of `timer`.
//! * [`user`]: how a core runs a package, [`HostedUser`]; `package`: the package's own stack;
//!   `dispatch`, `handlers`, `context`: what of Linux that takes.
//! * [`network`]: the network interface: a link to a virtual switch, and `direct` links with other
//!   nodes of the machine, which `mesh` makes; `peer_pool`: the pools that these show.
//! * [`disk`]: disks, which are files; `handed`: files that other programs hand to the node.
//! * [`manager`], [`tables`]: what the management core may do to the whole node.
//! * `system`, [`worker`]: cores as threads and as processes.
//! * `supervisor`, `signals`, `restart`, `fault`: what goes wrong, and how a node ends.
//! * [`samples`], `sampler`: what a core does, noted time and again if that is asked for.
//! * `images`: other programs that workers run.
//! * `placement`, `image`: facts for the boot report.

mod alarm;
mod arena;
mod boot;
mod checksum;
mod clock;
mod context;
pub mod direct;
pub mod disk;
mod dispatch;
mod fault;
mod handed;
mod handlers;
mod image;
mod images;
mod large;
mod layout;
pub mod machine;
pub mod manager;
mod mesh;
pub mod network;
mod node;
pub mod outside;
mod package;
mod packets;
mod peer_pool;
mod placement;
mod restart;
mod sampler;
pub mod samples;
mod shared;
mod signals;
pub mod start;
mod steps;
mod supervisor;
mod system;
pub mod tables;
mod tick;
mod timer;
pub mod user;
pub mod worker;

pub use boot::Boot;
pub use direct::{Direct, Filled};
pub use disk::DiskFile;
pub use machine::Hosted;
pub use manager::HostedManager;
pub use network::{Cable, Link};
pub use outside::Outside;
pub use samples::SampleFile;
pub use start::{CoreMain, End, Setup, StartError, least_memory, run_node};
pub use user::HostedUser;
pub use worker::be_worker;
