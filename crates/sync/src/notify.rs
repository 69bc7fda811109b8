//! A condition that tasks look at themselves.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::mem;
use core::task::{Poll, Waker};

/// The tasks that wait until something has changed. There are a few at a time, and each looks for
/// itself. Whoever stops waiting leaves nothing behind.
#[derive(Default)]
pub struct Notify {
    waiting: RefCell<Vec<(u64, Waker)>>,
    last: Cell<u64>,
}

impl Notify {
    /// Something has changed: all who wait look again. Whether anybody waited.
    pub fn notify(&self) -> bool {
        let waiting = mem::take(&mut *self.waiting.borrow_mut());
        let waited = !waiting.is_empty();
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
        waited
    }

    /// Whether anybody waits.
    pub fn waits(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Waits until `look` finds something. It looks at once, and after every change.
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let mut place = Place { notify: self, number: 0 };
        poll_fn(|context| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                place.wait(context.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Waits for the next change.
    pub async fn next(&self) {
        let mut has_waited = false;
        self.until(|| mem::replace(&mut has_waited, true).then_some(())).await;
    }
}

/// A task's place among those that wait.
struct Place<'a> {
    notify: &'a Notify,
    /// 0 before it has waited.
    number: u64,
}

impl Place<'_> {
    fn wait(&mut self, waker: &Waker) {
        if self.number == 0 {
            self.number = self.notify.last.get() + 1;
            self.notify.last.set(self.number);
        }
        let mut waiting = self.notify.waiting.borrow_mut();
        match waiting.iter_mut().find(|(number, _)| *number == self.number) {
            Some((_, known)) => known.clone_from(waker),
            None => waiting.push((self.number, waker.clone())),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.number != 0 {
            self.notify.waiting.borrow_mut().retain(|(number, _)| *number != self.number);
        }
    }
}
