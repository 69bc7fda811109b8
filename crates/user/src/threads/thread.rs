//! One thread: its stack, and whether it can go on.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::mem;
use core::ptr;

use alloc::rc::Rc;
use corosensei::{Coroutine, Yielder};

use super::stack::{Canary, HeapStack};

/// Names a thread of a package, also after its end.
#[derive(Clone)]
pub struct Thread(pub(super) Rc<State>);

/// Whether a thread can go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It runs, or waits for its turn.
    Ready,
    /// It waits until it is unparked.
    Parked,
    /// It has ended.
    Ended,
}

pub(super) struct State {
    /// The main thread of its runtime, which no other runtime may resume it in; nothing for the
    /// main one.
    main: Option<Thread>,
    canary: Option<Canary>,
    pub phase: Cell<Phase>,
    /// It was unparked before it parked.
    pub unparked: Cell<bool>,
    /// Where the thread is while it does not run; nothing for the main one.
    body: RefCell<Option<Coroutine<(), (), (), HeapStack>>>,
    /// How the thread gives the core away: it lives on the thread's own stack.
    yielder: Cell<*const Yielder<(), ()>>,
}

impl Thread {
    /// The thread that the package began with.
    pub(super) fn main() -> Thread {
        Thread(Rc::new(State::new(None, None)))
    }

    /// A thread that will run `body`, in the runtime of which `main` is the main thread.
    ///
    /// # Safety
    /// What `body` has borrowed outlives the runtime.
    pub(super) unsafe fn new(main: &Thread, stack_bytes: usize, body: impl FnOnce()) -> Thread {
        let stack = HeapStack::new(stack_bytes);
        let state = State::new(Some(main.clone()), Some(stack.canary()));
        let thread = Thread(Rc::new(state));
        let own = Rc::downgrade(&thread.0);
        let run = move |yielder: &Yielder<(), ()>, ()| {
            // Whoever resumes a thread holds it.
            let Some(own) = own.upgrade().map(Thread) else { return };
            own.0.yielder.set(yielder);
            body();
        };
        // SAFETY: only the runtime resumes the thread, and it is forgotten if it does not end.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, run) };
        *thread.0.body.borrow_mut() = Some(coroutine);
        thread
    }

    /// Whether it is a thread of the runtime of which `main` is the main thread.
    pub(super) fn is_of(&self, main: &Thread) -> bool {
        self == main || self.0.main.as_ref() == Some(main)
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.0.phase.get() == Phase::Ended
    }

    /// Runs the thread until it gives the core away. Called by the main thread.
    pub(super) fn resume(&self) {
        let mut body = self.0.body.borrow_mut();
        let Some(coroutine) = &mut *body else { return };
        let ended = coroutine.resume(()).as_return().is_some();
        // SAFETY: the coroutine holds the stack.
        let whole = self.0.canary.is_none_or(|canary| unsafe { canary.is_alive() });
        assert!(whole, "a thread has run over its stack's end; spawn it with a larger stack");
        if ended {
            self.0.phase.set(Phase::Ended);
            *body = None;
        }
    }

    /// Gives the core to the main thread until this thread is resumed. Called by this thread.
    pub(super) fn suspend(&self) {
        // SAFETY: the thread set it when it began, and it lives on the thread's stack until the
        // thread ends.
        unsafe { &*self.0.yielder.get() }.suspend(());
    }
}

impl State {
    fn new(main: Option<Thread>, canary: Option<Canary>) -> State {
        State {
            main,
            canary,
            phase: Cell::new(Phase::Ready),
            unparked: Cell::new(false),
            body: RefCell::new(None),
            yielder: Cell::new(ptr::null()),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // A thread that never ends keeps its stack, with all that is on it: nothing here could
        // unwind it, and what it has borrowed may be gone by now.
        mem::forget(self.body.take());
    }
}

impl PartialEq for Thread {
    fn eq(&self, other: &Thread) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Thread {}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thread({:p}, {:?})", Rc::as_ptr(&self.0), self.0.phase.get())
    }
}
