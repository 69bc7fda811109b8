//! Futures in a package: a thread waits for one as it waits for anything else.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use spin::Mutex;

use super::{Runtime, Thread};

/// Who waits for futures, and whose future has been woken. The standard waker demands `Sync`;
/// therefore the list sits behind a lock that is never contended.
#[derive(Default)]
pub(super) struct Waiting {
    woken: Arc<Mutex<Vec<u64>>>,
    threads: RefCell<BTreeMap<u64, Thread>>,
    next: Cell<u64>,
}

struct Woken {
    number: u64,
    list: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.list.lock().push(self.number);
    }
}

impl Runtime<'_> {
    /// What the future gives. The calling thread waits for it; others go on.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let waiting = &self.0.waiting;
        let number = waiting.next.get();
        waiting.next.set(number + 1);
        let waker = Waker::from(Arc::new(Woken { number, list: waiting.woken.clone() }));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
            waiting.threads.borrow_mut().insert(number, self.current());
            // A wake since the last poll is on the list, which is looked at before the package
            // waits.
            self.park();
            waiting.threads.borrow_mut().remove(&number);
        }
    }

    /// Lets the threads go on whose futures were woken; whether there were any.
    pub(super) fn unpark_woken(&self) -> bool {
        let woken = core::mem::take(&mut *self.0.waiting.woken.lock());
        let mut any = false;
        for number in woken {
            let thread = self.0.waiting.threads.borrow_mut().remove(&number);
            if let Some(thread) = thread {
                self.unpark(&thread);
                any = true;
            }
        }
        any
    }
}
