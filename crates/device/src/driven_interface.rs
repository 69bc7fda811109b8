//! A network interface as the tasks of its core use it: one of them waits for frames, and the
//! core's loop wakes it.

use alloc::boxed::Box;
use core::ops::Deref;
use core::task::{Context, Poll};

use nile_sync::Waiter;

use crate::Interface;

/// An interface that this core drives, and the task that waits for its frames.
pub struct DrivenInterface {
    interface: Box<dyn Interface>,
    waiter: Waiter,
}

impl DrivenInterface {
    /// An interface that nobody waits for yet.
    pub fn new(interface: Box<dyn Interface>) -> DrivenInterface {
        DrivenInterface { interface, waiter: Waiter::default() }
    }

    /// Whether a task waits and would be woken.
    pub fn is_ready(&self) -> bool {
        self.waiter.waits() && self.interface.is_ready()
    }

    /// Wakes the waiting task if a frame has come; whether it did. The core's loop does once a
    /// pass.
    pub fn turn(&self) -> bool {
        self.is_ready() && self.waiter.wake()
    }

    /// Ready when a frame has come; else the task is woken when one does. One task waits.
    pub fn poll_frame(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.interface.is_ready() {
            self.waiter.forget();
            return Poll::Ready(());
        }
        self.waiter.wait(context.waker());
        Poll::Pending
    }
}

impl Deref for DrivenInterface {
    type Target = dyn Interface;

    fn deref(&self) -> &(dyn Interface + 'static) {
        &*self.interface
    }
}
