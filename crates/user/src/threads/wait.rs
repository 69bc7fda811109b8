//! Waiting for something that another thread does.

use core::cell::{Cell, RefCell};
use core::fmt;

use alloc::collections::VecDeque;
use alloc::rc::Rc;

use super::{Runtime, Thread};

/// Threads that wait until somebody wakes them, the longest wait first.
#[derive(Default)]
pub struct WaitQueue(RefCell<VecDeque<Rc<Waiter>>>);

struct Waiter {
    thread: Thread,
    woken: Cell<bool>,
}

impl WaitQueue {
    /// A queue without threads.
    pub fn new() -> WaitQueue {
        WaitQueue::default()
    }

    /// Waits until this thread is woken. A wake-up before this call does not count: threads of a
    /// package interrupt each other nowhere, so look at what you wait for, then call this.
    pub fn wait(&self, runtime: &Runtime<'_>) {
        let waiter = Rc::new(Waiter { thread: runtime.current(), woken: Cell::new(false) });
        self.0.borrow_mut().push_back(waiter.clone());
        // Somebody else may unpark this thread meanwhile.
        while !waiter.woken.get() {
            runtime.park();
        }
    }

    /// Waits as long as `condition` holds, looking at it at first and whenever this thread is
    /// woken.
    pub fn wait_while(&self, runtime: &Runtime<'_>, mut condition: impl FnMut() -> bool) {
        while condition() {
            self.wait(runtime);
        }
    }

    /// Wakes the thread that has waited longest; says whether there was one.
    pub fn wake_one(&self, runtime: &Runtime<'_>) -> bool {
        let first = self.0.borrow_mut().pop_front();
        first.inspect(|waiter| waiter.wake(runtime)).is_some()
    }

    /// Wakes every thread that waits; says how many.
    pub fn wake_all(&self, runtime: &Runtime<'_>) -> usize {
        let all = self.0.take();
        all.iter().for_each(|waiter| waiter.wake(runtime));
        all.len()
    }
}

impl Waiter {
    fn wake(&self, runtime: &Runtime<'_>) {
        self.woken.set(true);
        runtime.unpark(&self.thread);
    }
}

impl fmt::Debug for WaitQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitQueue({} waiting)", self.0.borrow().len())
    }
}

/// The right to a thread's result.
pub struct JoinHandle<T> {
    thread: Thread,
    end: Rc<End<T>>,
}

/// The end of a thread, seen by the thread and by whoever joins it.
struct End<T> {
    result: Cell<Option<T>>,
    joiner: WaitQueue,
    reached: Cell<bool>,
}

/// The thread's side of a [`JoinHandle`].
pub(super) struct Finish<T>(Rc<End<T>>);

/// A [`JoinHandle`] whose thread is still to be made.
pub(super) struct Unbound<T>(Rc<End<T>>);

impl<T> JoinHandle<T> {
    pub(super) fn halves() -> (Unbound<T>, Finish<T>) {
        let end = Rc::new(End {
            result: Cell::new(None),
            joiner: WaitQueue::new(),
            reached: Cell::new(false),
        });
        (Unbound(end.clone()), Finish(end))
    }

    /// Waits for the thread's end and gives what it returned. Dropping the handle instead lets the
    /// thread go on, and its result is dropped with it.
    pub fn join(self, runtime: &Runtime<'_>) -> T {
        self.end.joiner.wait_while(runtime, || !self.end.reached.get());
        self.end.result.take().expect("the thread left its result, and only one can take it")
    }

    /// Whether [`JoinHandle::join`] would not wait.
    pub fn is_finished(&self) -> bool {
        self.end.reached.get()
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl<T> Unbound<T> {
    pub fn of(self, thread: Thread) -> JoinHandle<T> {
        JoinHandle { thread, end: self.0 }
    }
}

impl<T> Finish<T> {
    /// The thread has this result.
    pub fn with(self, runtime: &Runtime<'_>, result: T) {
        self.0.result.set(Some(result));
        self.0.reached.set(true);
        self.0.joiner.wake_all(runtime);
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinHandle({:?})", self.thread)
    }
}
