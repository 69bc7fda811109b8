//! The waker of one task.

use core::cell::Cell;
use core::fmt;
use core::task::Waker;

/// The one task that waits for something. Of two that wait, the later is woken.
#[derive(Default)]
pub struct Waiter {
    waker: Cell<Option<Waker>>,
    /// Whether there is one: a look at it that costs nothing.
    waits: Cell<bool>,
}

impl Waiter {
    /// The task of `waker` waits from now on.
    #[inline]
    pub fn wait(&self, waker: &Waker) {
        self.waker.set(Some(waker.clone()));
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
        self.waker.set(None);
    }

    /// Wakes the task that waits. Whether there was one.
    #[inline]
    pub fn wake(&self) -> bool {
        let waiting = self.waker.take();
        self.waits.set(false);
        let waited = waiting.is_some();
        if let Some(waker) = waiting {
            waker.wake();
        }
        waited
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("waits", &self.waits()).finish_non_exhaustive()
    }
}
