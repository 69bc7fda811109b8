//! What a package is linked with. A package is a library with one function,
//! `fn main(system: &dyn System, argument: &[u8]) -> u64`, and a binary of two lines that turns it
//! into a program for this system with [`package!`]. In a simulation the same function is linked
//! in and called directly, so everything here takes the kernel as a
//! [`System`](nile_abi::call::System).
//!
//! In reading order:
//!
//! * [`package!`], [`entry`]: from the first instruction to the exit code.
//! * [`gate`]: the kernel, behind the gate that the entry table names.
//! * [`heap`]: the package's memory; `grow`: where more comes from.
//! * [`log!`]: a line in the node's log.
//! * [`threads`]: cooperative threads, which switch without a system call.
//! * [`channel`]: channel ends that send and receive without a system call.
//! * [`pool`]: buffers of the node's pool. [`prefetch`](fn@prefetch): lines of the cache.
//!   [`cycles`](fn@cycles): the processor's clock; [`compute`](fn@compute) passes the time.
//! * [`keep`]: memory that stays when the package ends.
//! * [`region`]: memory that packages of several cores share.
//! * [`services`]: the user half of the service transport layer.
//! * Sockets: [`net`].
//!
//! This crate is one of the few with unsafe code: it changes stacks, and it trusts the entry table.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod channel;
mod compute;
mod cycles;
pub mod entry;
pub mod gate;
mod grow;
pub mod heap;
pub mod keep;
mod log;
#[doc(hidden)]
pub mod macros;
pub mod net;
pub mod pool;
mod prefetch;
pub mod region;
pub mod services;
pub mod threads;

pub use channel::{ChannelReceiver, ChannelSender, LastingReceiver, LastingSender, UserChannel};
pub use compute::compute;
pub use cycles::cycles;
pub use gate::Gate;
pub use heap::Heap;
pub use keep::{Keep, KeepError};
pub use log::write_log;
pub use nile_abi as abi;
pub use pool::{PoolBuffer, PoolView};
pub use prefetch::prefetch;
pub use region::{SEATS_OF_DOMAIN, SharedRegion, seat_of};
pub use services::{Services, with_services};
pub use threads::{JoinHandle, Runtime, Thread, WaitQueue};
