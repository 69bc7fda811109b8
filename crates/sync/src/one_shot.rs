//! A value that is given once.

use alloc::rc::Rc;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::Waiter;

/// A value that one task gives, at most once, and another takes. Both ends are clones of one; as a
/// future it gives the value.
pub struct OneShot<T>(Rc<Inner<T>>);

struct Inner<T> {
    value: Cell<Option<T>>,
    waiter: Waiter,
}

impl<T> Default for OneShot<T> {
    fn default() -> OneShot<T> {
        OneShot(Rc::new(Inner { value: Cell::new(None), waiter: Waiter::default() }))
    }
}

impl<T> Clone for OneShot<T> {
    fn clone(&self) -> OneShot<T> {
        OneShot(self.0.clone())
    }
}

impl<T> OneShot<T> {
    /// Gives the value.
    #[inline]
    pub fn give(&self, value: T) {
        self.0.value.set(Some(value));
        self.0.waiter.wake();
    }

    /// The value, if it is there, once.
    #[inline]
    pub fn take(&self) -> Option<T> {
        self.0.value.take()
    }

    /// The value, once; else the task is woken when it is there.
    #[inline]
    pub fn poll_take(&self, context: &mut Context<'_>) -> Poll<T> {
        match self.take() {
            Some(value) => Poll::Ready(value),
            None => {
                self.0.waiter.wait(context.waker());
                Poll::Pending
            }
        }
    }
}

impl<T> Future for OneShot<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_take(context)
    }
}
