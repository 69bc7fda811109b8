//! The tasks of a core whose subjects are bound to policies: Dhara's policy manager (IV.A).
//!
//! A subject is a service on this core or its package, by name; the kernel's own tasks are the
//! first one's. Wakers put tasks on the executor's list as ever; before each turn what has come is
//! given to the scheduler. When nobody is bound any more, what is ready goes back to the list.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::task::{Context, Poll};

use nile_abi::Instant;
use nile_policy::{
    Next, Parameters, PolicyState, Refusal, Scheduler, Scheduling, Subject, SubjectState,
};
use nile_sync::Waiter;

use super::{Executor, Task};

/// The subject of the kernel's own tasks.
const KERNEL: &str = "kernel";

/// What policies decide.
#[derive(Default)]
pub(super) struct Managed {
    is_used: Cell<bool>,
    scheduler: RefCell<Scheduler<Arc<Task>>>,
    /// The subjects but the first, by their numbers.
    names: RefCell<Vec<String>>,
    /// Until when whatever is ready has to wait.
    waits_until: Cell<Option<Instant>>,
    /// When the last turn of this pass was over.
    last: Cell<Option<Instant>>,
    /// Those expelled of whom nobody has been told, and who waits for one.
    expelled: RefCell<Vec<String>>,
    watcher: Waiter,
}

impl Managed {
    #[inline]
    pub fn is_used(&self) -> bool {
        self.is_used.get()
    }

    pub fn is_ready(&self, clock: impl Fn() -> Instant) -> bool {
        self.is_used.get()
            && self.ready() > 0
            && self.waits_until.get().is_none_or(|until| until <= clock())
    }

    pub fn waits_until(&self) -> Option<Instant> {
        self.waits_until.get()
    }

    pub fn ready(&self) -> usize {
        self.scheduler.borrow().ready()
    }

    pub fn close(&self) {
        drop(self.scheduler.take());
        self.is_used.set(false);
        self.waits_until.set(None);
    }

    fn subject(&self, name: &str) -> Option<Subject> {
        if name == KERNEL {
            return Some(Subject(0));
        }
        let index = self.names.borrow().iter().position(|known| known == name)?;
        u32::try_from(index + 1).ok().map(Subject)
    }
}

impl Executor {
    /// The subject of this name, which is new if there was none.
    pub fn subject(&self, name: &str) -> Subject {
        let managed = &self.managed;
        managed.subject(name).unwrap_or_else(|| {
            let mut names = managed.names.borrow_mut();
            names.push(name.to_owned());
            Subject(u32::try_from(names.len()).unwrap_or(u32::MAX))
        })
    }

    /// Gives the scheduler what has become ready, and polls what it says.
    #[inline(never)]
    pub(super) fn poll_managed(&self, clock: &dyn Fn() -> Instant) -> bool {
        let managed = &self.managed;
        let now = managed.last.take().unwrap_or_else(clock);
        let next = {
            let mut scheduler = managed.scheduler.borrow_mut();
            let mut woken = self.ready.lock();
            while let Some(task) = woken.pop_front() {
                scheduler.enqueue(task.subject, task, now);
            }
            drop(woken);
            let next = scheduler.next(now);
            while let Some(it) = scheduler.take_expelled() {
                managed.expelled.borrow_mut().push(it.name.to_owned());
            }
            next
        };
        if !managed.expelled.borrow().is_empty() {
            managed.watcher.wake();
        }
        let picked = match next {
            Next::Run(picked) => picked,
            Next::Wait(until) => {
                managed.waits_until.set(Some(until));
                return false;
            }
            Next::Nothing => {
                managed.waits_until.set(None);
                return false;
            }
        };
        managed.waits_until.set(None);
        let why = self.poll(picked.task);
        let end = clock();
        managed.last.set(Some(end));
        managed.scheduler.borrow_mut().ran(picked.turn, now, end, why);
        true
    }

    /// A pass begins: time has passed since the last turn that was no task's.
    #[inline]
    pub fn begin_pass(&self) {
        self.managed.last.set(None);
    }

    /// The subjects, in the order in which they came.
    pub fn subjects(&self) -> Vec<SubjectState> {
        let managed = &self.managed;
        let scheduler = managed.scheduler.borrow();
        let names = managed.names.borrow();
        let all = core::iter::once(KERNEL).chain(names.iter().map(String::as_str));
        let state = |(number, name): (u32, &str)| SubjectState {
            name: name.to_owned(),
            policy: scheduler.name_of(scheduler.class_of(Subject(number))).to_owned(),
        };
        (0..).zip(all).map(state).collect()
    }

    /// The policies from the highest global priority to the lowest.
    pub fn policies(&self) -> Vec<PolicyState> {
        self.managed.scheduler.borrow().statistics().map(PolicyState::from).collect()
    }

    /// Adds a policy, unless there is one of this name that works.
    pub fn install(&self, name: &str, priority: i64, policy: Box<dyn Scheduling>) {
        self.managed.scheduler.borrow_mut().install(name.to_owned(), priority, policy);
    }

    /// Binds a subject to a policy.
    pub fn bind(
        &self,
        subject: &str,
        policy: &str,
        parameters: &Parameters,
        now: Instant,
    ) -> Result<(), Refusal> {
        let managed = &self.managed;
        let subject = managed.subject(subject).ok_or(Refusal::NoSubject)?;
        let mut scheduler = managed.scheduler.borrow_mut();
        let class = scheduler.class_named(policy).ok_or(Refusal::NoPolicy)?;
        scheduler.bind(subject, class, parameters, now)?;
        managed.is_used.set(scheduler.is_used());
        managed.waits_until.set(None);
        Ok(())
    }

    /// Binds a subject to the default; `false` if it was.
    pub fn unbind(&self, subject: &str) -> bool {
        let managed = &self.managed;
        let Some(subject) = managed.subject(subject) else { return false };
        let mut scheduler = managed.scheduler.borrow_mut();
        let was_bound = scheduler.unbind(subject);
        managed.waits_until.set(None);
        if was_bound && !scheduler.is_used() {
            // The oldest first, and all of them older than what has come since.
            let mut ready = VecDeque::new();
            while let Next::Run(picked) = scheduler.next(Instant::START) {
                ready.push_back(picked.task);
            }
            let mut list = self.ready.lock();
            ready.append(&mut list);
            *list = ready;
            managed.is_used.set(false);
        }
        was_bound
    }

    /// The next policy that was expelled and that nobody has been told of.
    pub fn poll_expelled(&self, context: &mut Context<'_>) -> Poll<String> {
        let managed = &self.managed;
        match managed.expelled.borrow_mut().pop() {
            Some(name) => Poll::Ready(name),
            None => {
                managed.watcher.wait(context.waker());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests;
