//! A node in one thread. Every choice that a real machine leaves open (which core runs next, how
//! long a pass takes, when a signal arrives, when a core stops) comes from one seeded generator,
//! and time is a number. The same seed gives the same run, event by event; the hash of its trace
//! says so.
//!
//! The kernel is not changed for this: the simulator steps each core's loop and keeps the contract
//! of its doorbell, so a wake-up that a real machine could lose is lost here, too, and shows as a
//! node in which nothing can happen any more ([`Stuck`]).
//!
//! In reading order:
//!
//! * [`options`]: what a run is made of, faults included.
//! * [`simulation`]: the scheduler.
//! * [`cluster`]: several nodes with a switch between them.
//! * [`machine`]: one core's view, what the kernel sees.
//! * [`user`], `packages`: how a core runs a package, and what goes wrong with packages.
//! * `network`: a node's interface; `neighbours`: nodes that show each other their pools.
//! * [`image`]: what a core runs in place of the node's own image.
//! * `disk`: a node's disks, and what is left of them when the power fails.
//! * [`supervised`]: a machine that a supervisor shares out to domains; `hardware`: its cores and
//!   seats, and what its supervisor may do; `units`: its memory; `loops`: frames between nodes.
//! * `memory`: the node's memory, with an emulated MMU for each core that checks every grant.
//! * `timer`: what wakes a core at a moment: an exact timer, or a coarse one.
//! * `state`: what all cores share: clock, events, generator.
//! * [`trace`]: what happened, as a hash.
#![forbid(unsafe_code)]

pub mod cluster;
mod disk;
mod hardware;
pub mod image;
mod loops;
pub mod machine;
mod memory;
mod neighbours;
mod network;
pub mod options;
mod packages;
mod parts;
pub mod simulation;
mod state;
mod status;
pub mod supervised;
mod timer;
pub mod trace;
mod units;
pub mod user;

pub use cluster::{ClusterOptions, Deed, Deeds, simulate_cluster, simulate_deeds};
pub use disk::Contents;
pub use hardware::Text;
pub use machine::{SimMachine, SimManager};
pub use options::{DiskFaults, DiskOptions, Faults, Options, Program};
pub use simulation::{Finished, Stuck, simulate};
pub use supervised::{Image, MachineOptions, Plan, simulate_machine};
pub use user::{Misbehaviour, SimUser, compute, misbehave, raw_call};
