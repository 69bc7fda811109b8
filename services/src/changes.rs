//! Tasks of one core that wait for something to change.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};

/// Who waits. There are a few tasks at a time, and each looks for itself.
#[derive(Default)]
pub struct Changes(RefCell<Vec<Waker>>);

impl Changes {
    /// Something has changed: all who wait look again.
    pub fn tell(&self) {
        let waiting = core::mem::take(&mut *self.0.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` finds something. It looks at once, and after every change.
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(found) = look() {
                return Poll::Ready(found);
            }
            let mut waiting = self.0.borrow_mut();
            if !waiting.iter().any(|known| known.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}

/// What one task of a core does at a time.
#[derive(Default)]
pub struct Lock {
    is_taken: Cell<bool>,
    changes: Changes,
}

/// The right to do it, until this is dropped.
pub struct Turn<'a>(&'a Lock);

impl Lock {
    /// Waits until nobody else has it.
    pub async fn take(&self) -> Turn<'_> {
        self.changes.until(|| (!self.is_taken.replace(true)).then_some(())).await;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.changes.tell();
    }
}
