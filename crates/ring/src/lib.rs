//! Channels between cores over shared memory: messages of one cache line, buffers that change
//! owner, and wake-ups that adapt to how the receiver waits (NewtOS thesis, sections 2.1 and 3.3).
//!
//! A *channel* is a one-way ring with one sender and one receiver; two of them make a
//! conversation. Neither end makes a system call to send or receive.
//!
//! ```text
//!         ┌────────────────────┬──────────────────────┬────────┬────────┬─────┬────────┐
//!  ring   │ sender's position  │ receiver's position  │ cell 0 │ cell 1 │  …  │ cell n │
//!         └────────────────────┴──────────────────────┴────────┴────────┴─────┴────────┘
//!           each box is one 64-byte line with one writer; zeroed memory is an empty ring
//! ```
//!
//! A cell carries its own sequence number, so one line travels per message: the receiver polls
//! the cell that comes next, and the sender looks at the receiver's position only when the ring
//! seems full. Both positions live in the ring, so that either end can be dropped on one core and
//! attached on another, or by the next incarnation after a restart.
//!
//! In reading order:
//!
//! * [`region`]: shared memory as atomic words, on every platform.
//! * [`cell`]: a message and its line.
//! * [`channel`], [`sender`], [`receiver`]: the ring and its two ends.
//! * [`doorbell`]: how a core sleeps without missing anything.
//! * [`receivers`]: where each receiver runs, how it is woken, how it is moved.
//! * [`notify`]: waking a receiver whichever way it waits.
//! * [`pool`], [`buffer`]: buffers whose ownership travels in a message, or which others read where
//!   they are; [`lent`]: buffers that a device has.
//! * [`user`]: channels in the memory of packages.
//! * [`requests`]: what was asked and is not answered yet.
//!
//! Anything read from shared memory is distrusted. The protocols are checked by loom
//! (`tests/loom`).
#![no_std]

extern crate alloc;

pub mod buffer;
pub mod cell;
pub mod channel;
pub mod doorbell;
#[cfg(not(loom))]
pub mod lent;
pub mod notify;
pub mod pool;
pub mod receiver;
pub mod receivers;
pub mod region;
pub mod requests;
pub mod sender;
mod sync;
#[cfg(not(loom))]
pub mod user;

pub use buffer::{Buffer, Handle, PoolId};
pub use cell::{Message, PAYLOAD_BYTES, TooLong};
pub use channel::{BadSize, Endpoint};
pub use doorbell::{Computing, Doorbell, Doorbells, SLEEPING, Sleep};
#[cfg(not(loom))]
pub use lent::Lent;
pub use notify::{Notifier, Signal};
pub use pool::{ClaimError, HeapPool, Pool, PoolError, PoolMemory};
#[cfg(not(loom))]
pub use pool::{GivenUp, Reader};
pub use receiver::{ReceiveError, Receiver};
pub use receivers::{MapError, Move, Mover, ReceiverMap, Wake};
pub use region::{LINE_BYTES, Line, Region, Word};
pub use requests::{Busy, Request, RequestId, Requests};
pub use sender::{Full, Sender};
