//! What tasks of one core wait by, and what several cores share.
//!
//! For the tasks of one core; nothing here leaves the core or locks anything:
//!
//! * [`Waiter`]: the one task that waits for something which is looked at elsewhere.
//! * [`Notify`]: all tasks that wait until a condition holds.
//! * [`Flag`]: raised once, as for an end or a cancellation.
//! * [`OneShot`]: a value that is given once.
//! * [`Lock`]: what one task does at a time.
//! * [`first`]: whichever of two is ready.
//!
//! For several cores, over a [`Region`](nile_ring::Region) of words (FENCE, sections 3 and 4):
//!
//! * [`seat`]: who takes part, in which of its lives.
//! * [`spread`]: the pieces of a loop, distributed without a lock.
//! * [`shfl`]: a lock whose waiters put themselves in order.
//! * [`ranges`]: locks of ranges, on one core and of several.
//! * [`quiet`]: grace periods by message.
//! * [`mvrlu`]: objects of several versions, read as of one moment.
//!
//! Each of these survives the death of a core between any two of its stores: whoever comes next
//! finishes or undoes what the words say. References are numbers and never pointers, so that
//! cores may have the words at different addresses, and nonsense in them gives wrong values at
//! worst. loom runs each with a core that dies after each of its stores (`tests/loom`).
//!
//! (Of the crates for tasks of one thread none has a condition that tasks look at themselves,
//! which is most of what is here.)
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod flag;
mod lock;
pub mod mvrlu;
mod notify;
mod one_shot;
pub mod quiet;
pub mod ranges;
pub mod seat;
pub mod shfl;
pub mod spread;
mod waiter;
#[cfg(loom)]
pub mod words;
#[cfg(not(loom))]
mod words;

pub use flag::Flag;
pub use lock::{Lock, Turn};
pub use notify::Notify;
pub use one_shot::OneShot;
pub use seat::{Seat, Seats};
pub use waiter::Waiter;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

/// What the one of two futures gives that is ready first: `a`, if both are.
pub async fn first<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> T {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| match a.as_mut().poll(context) {
        Poll::Pending => b.as_mut().poll(context),
        ready => ready,
    })
    .await
}

/// Lets every other ready task of the core run once.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if core::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
