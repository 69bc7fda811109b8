//! The waker of one task.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::task::Waker;

/// The one task that waits for something. Of two that wait, the later is woken.
#[derive(Default)]
pub struct Waiter {
    /// The last one that waited. It stays when it was woken: mostly the same task waits again.
    waker: RefCell<Option<Waker>>,
    waits: Cell<bool>,
}

impl Waiter {
    /// The task of `waker` waits from now on.
    #[inline]
    pub fn wait(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        match known.as_mut() {
            Some(known) => known.clone_from(waker),
            None => *known = Some(waker.clone()),
        }
        self.waits.set(true);
    }

    /// Whether a task waits.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waits.get()
    }

    /// Nobody waits any more.
    pub fn forget(&self) {
        self.waits.set(false);
    }

    /// Wakes the task that waits. Whether there was one.
    #[inline]
    pub fn wake(&self) -> bool {
        let waited = self.waits.replace(false);
        if waited && let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
        waited
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("waits", &self.waits()).finish_non_exhaustive()
    }
}
