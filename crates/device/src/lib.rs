//! The devices of a core. A machine implements the traits; the kernel's loop looks at the driven
//! devices once a pass; services use them as they are.
//!
//! * [`interface`]: [`Interface`], a network interface as a machine gives it.
//! * [`disk`]: [`Disk`], a disk as a machine gives it: requests go in, completions come out.
//! * [`timer`]: [`TimerSource`], what can end a core's sleep.
//! * [`line`](mod@line): [`Line`], what a device interrupts by, and the guard against storms.
//! * [`driven_interface`]: [`DrivenInterface`], an interface and the task that waits for frames.
//! * [`driven_disk`]: [`DrivenDisk`], a disk whose requests are futures.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod disk;
pub mod driven_disk;
pub mod driven_interface;
pub mod interface;
pub mod line;
pub mod timer;

pub use disk::Disk;
pub use driven_disk::{DrivenDisk, Transfer};
pub use driven_interface::DrivenInterface;
pub use interface::Interface;
pub use line::{Gate, Guard, LINES, Line, LineState, MOST_OF_A_KIND, Verdict};
pub use timer::TimerSource;
