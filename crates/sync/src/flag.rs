//! What is raised once: an end, a cancellation.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use crate::Waiter;

/// Raised once and for good. One task at a time waits for it.
#[derive(Default, Debug)]
pub struct Flag {
    is_raised: Cell<bool>,
    waiter: Waiter,
}

impl Flag {
    /// Raises it.
    pub fn raise(&self) {
        self.is_raised.set(true);
        self.waiter.wake();
    }

    /// Whether it was raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.is_raised.get()
    }

    /// Waits until it is raised.
    pub async fn raised(&self) {
        poll_fn(|context| {
            if self.is_raised() {
                return Poll::Ready(());
            }
            self.waiter.wait(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// What `future` gives; `None`, and it goes no further, when the flag is raised before it is
    /// ready.
    pub async fn or<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let result = poll_fn(|context| {
            let polled = future.as_mut().poll(context).map(Some);
            if polled.is_ready() {
                return polled;
            }
            if self.is_raised() {
                return Poll::Ready(None);
            }
            self.waiter.wait(context.waker());
            Poll::Pending
        })
        .await;
        self.waiter.forget();
        result
    }
}
