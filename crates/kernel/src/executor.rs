//! The tasks of one core. They are cooperative and never leave the core, so a future may hold
//! what is not `Send`, and nothing here is locked in earnest: the standard `Waker` demands `Sync`,
//! therefore the ready queue sits behind a lock that is never contended.
//!
//! Tasks run in the order in which they became ready, until a subject of this core is bound to a
//! policy: then [`managed`] says which is next. A task is its spawner's subject's.
//!
//! A task's waker is one reference-counted object that lives as long as the task; waking puts it
//! on the ready queue unless it is there already.

mod managed;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use core::task::{Context, Poll, Waker};

use nile_abi::Instant;
use nile_policy::{SLICE, Stop, Subject};
use nile_sync::OneShot;
use spin::Mutex;

use managed::{Lane, Managed};

type Ready = Mutex<Woken>;

/// The tasks that have become ready, in the order in which they did.
#[derive(Default)]
struct Woken {
    /// Those of subjects that are bound to nothing.
    usual: VecDeque<Arc<Task>>,
    /// The others', by their class, from the one behind the default on.
    bound: Vec<Lane>,
    /// Which classes of these have any, a bit each.
    has: u64,
}

impl Woken {
    #[inline]
    fn push(&mut self, task: Arc<Task>) {
        match task.class.load(Ordering::Relaxed) {
            0 => self.usual.push_back(task),
            class => self.push_bound(class, task),
        }
    }

    fn is_empty(&self) -> bool {
        self.usual.is_empty() && self.has == 0
    }

    fn len(&self) -> usize {
        self.usual.len() + self.bound.iter().map(Lane::len).sum::<usize>()
    }
}

/// The part of a task that its wakers hold.
struct Task {
    slot: usize,
    subject: Subject,
    /// The number of the class that its subject is bound to.
    class: AtomicU16,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let ready = self.ready.clone();
            ready.lock().push(self);
        }
    }
}

/// What a slot of the task table holds.
enum Slot {
    Free,
    /// The task is being polled; its future is with the poller.
    Running,
    Waiting(Arc<Task>, Pin<Box<dyn Future<Output = ()>>>),
}

/// The tasks of one core.
#[derive(Default)]
pub struct Executor {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    ready: Arc<Ready>,
    live: Cell<usize>,
    closed: Cell<bool>,
    /// Whose task is being polled.
    subject: Cell<Subject>,
    /// What policies decide, if anybody is bound.
    managed: Managed,
}

impl Executor {
    /// Starts a task; it is polled first on a later turn. Its result goes to the [`Join`].
    pub fn spawn<F>(&self, future: F) -> Join<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let end = OneShot::default();
        let join = Join(end.clone());
        self.start(Box::pin(async move { end.give(future.await) }));
        join
    }

    fn start(&self, body: Pin<Box<dyn Future<Output = ()>>>) {
        if self.closed.get() {
            return;
        }
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.slots.borrow_mut().push(Slot::Free);
            self.slots.borrow().len() - 1
        });
        let subject = self.subject.get();
        let task = Arc::new(Task {
            slot,
            subject,
            class: AtomicU16::new(self.managed.class_of(subject)),
            queued: AtomicBool::new(false),
            ready: self.ready.clone(),
        });
        self.slots.borrow_mut()[slot] = Slot::Waiting(task.clone(), body);
        self.live.set(self.live.get() + 1);
        task.wake();
    }

    /// Whose tasks are started from now on; gives whose they were.
    pub fn act_as(&self, subject: Subject) -> Subject {
        self.subject.replace(subject)
    }

    /// How urgent the timers of whose task is being polled are: by the policy that it is bound to.
    #[inline]
    pub fn priority(&self) -> u32 {
        self.managed.priority_of(self.subject.get())
    }

    /// Whether a task may be polled.
    pub fn is_ready(&self, clock: impl Fn() -> Instant) -> bool {
        !self.ready.lock().is_empty() || self.managed.is_ready(clock)
    }

    /// When a task may be polled that is ready and has to wait.
    pub fn next_due(&self) -> Option<Instant> {
        self.managed.waits_until()
    }

    /// When the task that is being polled has had its slice, if it can be stopped; `None` while no
    /// other task waits for its turn, ready or, as the caller says, soon.
    pub fn slice_ends(&self, others: bool, clock: impl Fn() -> Instant) -> Option<Instant> {
        let others = others || !self.ready.lock().is_empty();
        if self.managed.is_used() {
            return self.managed.slice_ends(others, &clock);
        }
        others.then(|| clock() + SLICE)
    }

    /// The slice of the task that is being polled was over.
    pub fn note_preempted(&self) {
        self.managed.note_preempted();
    }

    /// Tasks that wait for their turn.
    pub fn ready(&self) -> usize {
        self.ready.lock().len() + self.managed.ready()
    }

    /// Tasks that have not finished.
    pub fn live(&self) -> usize {
        self.live.get()
    }

    /// Drops every task, and every task that is started from now on: the end of the core. (Tasks
    /// hold the core that holds them; nothing else would ever free either.)
    pub fn close(&self) {
        self.closed.set(true);
        let slots = core::mem::take(&mut *self.slots.borrow_mut());
        *self.ready.lock() = Woken::default();
        self.managed.close();
        drop(slots);
    }

    /// Polls the next ready task, or, where policies decide, some of them; how many. None if there
    /// was none, or the pass is long already. Only where policies decide is the time asked for.
    #[inline]
    pub fn poll_some(&self, most: u32, clock: impl Fn() -> Instant) -> u32 {
        if self.managed.is_used() {
            return self.poll_managed(most, &clock);
        }
        // The default, which is no call.
        let Some(task) = self.ready.lock().usual.pop_front() else { return 0 };
        self.poll(task);
        1
    }

    /// Polls a task; why its turn ended.
    fn poll(&self, task: Arc<Task>) -> Stop {
        task.queued.store(false, Ordering::Release);
        let Some(mut future) = self.take(&task) else { return Stop::Ended };
        let waker = Waker::from(task.clone());
        let before = self.subject.replace(task.subject);
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.subject.set(before);
        let slot = task.slot;
        if polled.is_pending() {
            let yields = task.queued.load(Ordering::Acquire);
            self.slots.borrow_mut()[slot] = Slot::Waiting(task, future);
            if yields { Stop::Yields } else { Stop::Waits }
        } else {
            self.slots.borrow_mut()[slot] = Slot::Free;
            self.free.borrow_mut().push(slot);
            self.live.set(self.live.get() - 1);
            Stop::Ended
        }
    }

    /// The future of `task`, unless the task has finished and its slot is free or another's.
    fn take(&self, task: &Arc<Task>) -> Option<Pin<Box<dyn Future<Output = ()>>>> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(task.slot)?;
        match core::mem::replace(slot, Slot::Free) {
            Slot::Waiting(owner, future) if Arc::ptr_eq(&owner, task) => {
                *slot = Slot::Running;
                Some(future)
            }
            other => {
                *slot = other;
                None
            }
        }
    }
}

/// The end of a task, to be awaited. Dropping it lets the task go on by itself.
pub struct Join<T>(OneShot<T>);

impl<T> Join<T> {
    /// The task's result, once, if it has finished.
    pub fn take(&self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Future for Join<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.poll_take(context)
    }
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;

    use nile_sync::yield_now;

    use super::*;

    fn run(executor: &Executor) {
        for _ in 0..10_000 {
            if executor.poll_some(1, || Instant::START) == 0 {
                return;
            }
        }
        panic!("the tasks never came to rest");
    }

    #[test]
    fn a_result_reaches_its_joiner() {
        let executor = Rc::new(Executor::default());
        let seen = Rc::new(Cell::new(0));
        let inner = executor.spawn(async {
            yield_now().await;
            7
        });
        let copy = seen.clone();
        executor.spawn(async move { copy.set(inner.await) });
        run(&executor);
        assert_eq!(seen.get(), 7);
        assert_eq!(executor.live(), 0);
    }

    #[test]
    fn ready_tasks_take_turns() {
        let executor = Executor::default();
        let log = Rc::new(RefCell::new(Vec::new()));
        for name in 0..3 {
            let log = log.clone();
            executor.spawn(async move {
                for round in 0..2 {
                    log.borrow_mut().push((round, name));
                    yield_now().await;
                }
            });
        }
        run(&executor);
        assert_eq!(*log.borrow(), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn a_waker_of_a_finished_task_wakes_nobody() {
        let executor = Executor::default();
        let stale: Rc<RefCell<Option<Waker>>> = Rc::default();
        let copy = stale.clone();
        executor.spawn(core::future::poll_fn(move |context| {
            *copy.borrow_mut() = Some(context.waker().clone());
            Poll::Ready(())
        }));
        run(&executor);
        let polls = Rc::new(Cell::new(0));
        let copy = polls.clone();
        // Takes the finished task's slot.
        executor.spawn(core::future::poll_fn(move |_| {
            copy.set(copy.get() + 1);
            Poll::<()>::Pending
        }));
        run(&executor);
        stale.borrow().as_ref().unwrap().wake_by_ref();
        run(&executor);
        assert_eq!(polls.get(), 1);
    }

    #[test]
    fn waking_twice_polls_once() {
        let executor = Executor::default();
        let polls = Rc::new(Cell::new(0));
        let copy = polls.clone();
        executor.spawn(core::future::poll_fn(move |context| {
            copy.set(copy.get() + 1);
            if copy.get() == 1 {
                context.waker().wake_by_ref();
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        run(&executor);
        assert_eq!(polls.get(), 2);
    }
}
