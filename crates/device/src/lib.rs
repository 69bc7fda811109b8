//! The devices of a core. A machine implements the traits; the kernel's loop looks at the driven
//! devices once a pass; services use them as they are.
//!
//! * [`interface`]: [`Interface`], a network interface as a machine gives it.
//! * [`disk`]: [`Disk`], a disk as a machine gives it: requests go in, completions come out.
//! * [`timer`]: [`TimerSource`], what can end a core's sleep.
//! * [`line`](mod@line): [`Line`], what a device interrupts by, and the guard against storms.
//! * [`domains`]: [`Domains`], what a supervisor may do to its machine, and the [`Seat`] that it
//!   shares with each domain.
//! * [`rfloop`]: [`FrameLoop`], a loop of frames between a domain and its supervisor, and
//!   [`LoopInterface`], an interface over it.
//! * [`bridge`]: [`Bridge`], a supervisor's interface, to which domains' loops are plugged.
//! * [`rffuse`]: [`DiskLink`], what a domain and its supervisor share of a part of a disk, and
//!   [`LinkedDisk`], a disk over it.
//! * [`shared_disk`]: [`SharedDisk`], a supervisor's disk, of which domains have parts.
//! * [`toll`]: [`Toll`], what a domain may have done and is charged for; [`fair`]: how those share
//!   who want the same.
//! * [`grant`]: [`Grant`], memory that was given to a core.
//! * [`driven_interface`]: [`DrivenInterface`], an interface and the task that waits for frames.
//! * [`driven_seat`]: [`DrivenSeat`], a domain's seat and the task that waits for its supervisor.
//! * [`driven_disk`]: [`DrivenDisk`], a disk whose requests are futures.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bridge;
pub mod disk;
pub mod domains;
pub mod driven_disk;
pub mod driven_interface;
pub mod driven_seat;
pub mod fair;
pub mod grant;
pub mod interface;
pub mod line;
pub mod rffuse;
pub mod rfloop;
pub mod shared_disk;
pub mod timer;
pub mod toll;
mod waits;

pub use bridge::Bridge;
pub use disk::Disk;
pub use domains::{Domains, Entry, Seat, SeatLink, SeatPhase, Seated, Wanted};
pub use driven_disk::{DrivenDisk, Transfer};
pub use driven_interface::DrivenInterface;
pub use driven_seat::DrivenSeat;
pub use grant::Grant;
pub use interface::Interface;
pub use line::{Gate, Guard, LINES, Line, LineState, MOST_OF_A_KIND, Verdict};
pub use rffuse::{DiskLink, LinkedDisk};
pub use rfloop::{FrameLoop, LoopEnd, LoopInterface};
pub use shared_disk::SharedDisk;
pub use timer::TimerSource;
pub use toll::{LedgerWords, TOLL_BYTES, Toll};
