//! A network interface as the loop sees it: looked at once a pass while a task waits for frames.

use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
use core::ops::Deref;
use core::task::{Poll, Waker};

use nile_platform::Interface;

/// An interface and the task that waits for its frames.
pub struct Device {
    interface: Box<dyn Interface>,
    waiter: RefCell<Option<Waker>>,
    waits: Cell<bool>,
}

impl Device {
    /// An interface that nobody waits for yet.
    pub fn new(interface: Box<dyn Interface>) -> Device {
        Device { interface, waiter: RefCell::default(), waits: Cell::new(false) }
    }

    /// Whether a task waits and would be woken.
    pub fn is_ready(&self) -> bool {
        self.waits.get() && self.interface.is_ready()
    }

    /// Wakes the waiting task if a frame has come; whether it did.
    pub fn wake_if_ready(&self) -> bool {
        if !self.is_ready() {
            return false;
        }
        self.waits.set(false);
        if let Some(waiter) = self.waiter.borrow().as_ref() {
            waiter.wake_by_ref();
        }
        true
    }

    /// Ready when a frame has come; else `waker` is woken when one does.
    pub fn poll_frame(&self, waker: &Waker) -> Poll<()> {
        if self.interface.is_ready() {
            self.waits.set(false);
            return Poll::Ready(());
        }
        let mut waiter = self.waiter.borrow_mut();
        match waiter.as_mut() {
            Some(known) => known.clone_from(waker),
            None => *waiter = Some(waker.clone()),
        }
        self.waits.set(true);
        Poll::Pending
    }
}

impl Deref for Device {
    type Target = dyn Interface;

    fn deref(&self) -> &(dyn Interface + 'static) {
        &*self.interface
    }
}
