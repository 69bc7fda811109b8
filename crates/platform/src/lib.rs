//! What the kernel asks of a machine, and nothing more.
//!
//! The kernel is written against these traits; a platform implements them and never names the
//! kernel. Only the thin binaries in `images/` see both sides.
//!
//! * [`machine`]: [`Machine`], one core's view of its machine, and [`Manager`], the few things
//!   that only a management core may do to the whole node.
//! * [`answers`]: how long the calls took that a core has answered.
//! * [`board`]: [`Board`], the explicit regions that all cores of a node share: doorbells,
//!   the receiver map, a record per core and the node's own state.
//! * [`record`]: [`Record`], what one core tells the others about itself.
//! * [`cause`]: why a core was interrupted.
//! * [`images`]: [`Images`], which kernel image each core runs, where that can differ.
//! * [`samples`]: what a core was found doing, time and again.
//! * [`user`]: [`User`], how a core runs a package.
//! * [`interface`], [`disk`], [`TimerSource`], [`domains`]: what a machine gives of its devices and
//!   lets a supervisor do, as `nile-device` says.
//! * [`image_memory`]: [`ImageMemory`], such images where they lie in the node's memory.
//! * [`misbehave`]: [`Misbehave`], what scenarios do wrong on purpose. The kernel uses none of it.
//! * [`attack`]: what a domain tries against others, for scenarios, too.
//! * [`turn`]: [`Loop`], the kernel as a machine that steps it sees it.
//! * [`handoff`]: [`Handoff`], the machine as the boot path found it, handed to the kernel as an
//!   explicit description, never assumed to be the whole machine.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answers;
pub mod attack;
pub mod board;
pub mod cause;
pub mod handoff;
pub mod image_memory;
pub mod images;
pub mod load;
pub mod machine;
pub mod misbehave;
pub mod record;
pub mod samples;
pub mod turn;
pub mod user;

pub use attack::{Attack, Target, Tried};
pub use board::{Board, NodePhase};
pub use cause::Cause;
pub use handoff::{Handoff, NodeDescription, Step, Tables};
pub use image_memory::ImageMemory;
pub use images::{Image, Images};
pub use load::Load;
pub use machine::{AttachError, CONTROL_BYTES, Machine, Manager, Outcome, Sleeper, WakeMode};
pub use misbehave::{Misbehave, recurse_for_ever};
pub use nile_abi::CorePhase;
pub use nile_device::{
    Disk, Domains, Entry, Gate, Grant, Interface, LINES, Line, LineState, MOST_OF_A_KIND, Seat,
    SeatLink, SeatPhase, Seated, TimerSource, Wanted, disk, domains, interface,
};
pub use record::{Fault, Hosting, Queue, Record};
pub use turn::{Loop, Turn};
pub use user::User;
