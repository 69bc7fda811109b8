//! The tasks of a core whose subjects are bound to policies: Dhara's policy manager (IV.A).
//!
//! A subject is a service on this core or its package, by name; the kernel's own tasks are the
//! first one's. Wakers put a task on the list of the class that its subject is bound to. What goes
//! by age runs from there; what a policy decides is handed over to it first. When nobody is bound
//! any more, all go on the one list again.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use core::time::Duration;

use nile_abi::Instant;
use nile_policy::{
    ClassId, Next, Parameters, Picked, Refusal, SLICE, Scheduler, Scheduling, Statistics, Stop,
    Subject, SubjectState, usual_slice,
};
use nile_sync::Waiter;

use super::{Executor, Slot, Task, Woken};

/// The subject of the kernel's own tasks.
const KERNEL: &str = "kernel";

/// Turns between two looks at the clock, where nobody asks for it.
const TURNS_PER_LOOK: u32 = 32;

/// What policies decide.
#[derive(Default)]
pub(super) struct Managed {
    is_used: Cell<bool>,
    /// Whether somebody was bound since tasks were last given to their classes.
    has_moved: Cell<bool>,
    /// What policies hold: all that is ready of those that do not go by age.
    scheduler: RefCell<Scheduler<Arc<Task>>>,
    /// The classes in the order in which they are asked, and whether each goes by age.
    lanes: RefCell<Vec<(ClassId, bool)>>,
    /// The class that has waited too long.
    due: Cell<Option<ClassId>>,
    turns: Cell<u32>,
    /// The subjects but the first, by their numbers.
    names: RefCell<Vec<String>>,
    /// How long the present turn may be while others wait, and when one of a higher class may run.
    slice: Cell<Duration>,
    ends: Cell<Option<Instant>>,
    /// When its slice began, if it was asked for, and whether it was over.
    began: Cell<Option<Instant>>,
    is_preempted: Cell<bool>,
    /// Until when whatever is ready has to wait.
    waits_until: Cell<Option<Instant>>,
    /// Whether there was nothing to run.
    is_idle: Cell<bool>,
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

    #[inline(never)]
    pub fn slice_ends(&self, others: bool, clock: &dyn Fn() -> Instant) -> Option<Instant> {
        let now = clock();
        self.began.set(Some(now));
        let slice = (others || self.ready() > 0).then(|| now + self.slice.get());
        slice.into_iter().chain(self.ends.get()).min()
    }

    pub fn note_preempted(&self) {
        self.is_preempted.set(true);
    }

    /// What policies hold.
    pub fn ready(&self) -> usize {
        self.scheduler.borrow().ready()
    }

    /// The number of the class that a subject's tasks are of.
    #[inline]
    pub fn class_of(&self, subject: Subject) -> u16 {
        match self.is_used.get() {
            true => self.scheduler.borrow().class_of(subject).number(),
            false => ClassId::DEFAULT.number(),
        }
    }

    /// The priority of a subject's timers; zero where policies decide nothing.
    #[inline]
    pub fn priority_of(&self, subject: Subject) -> u32 {
        match self.is_used.get() {
            true => u32::try_from(self.scheduler.borrow().priority_of(subject)).unwrap_or(0),
            false => 0,
        }
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

impl Woken {
    /// One of a class that is not the default.
    #[inline(never)]
    pub(super) fn push_bound(&mut self, class: u16, task: Arc<Task>) {
        let index = usize::from(class) - 1;
        if self.bound.len() <= index {
            self.bound.resize_with(index + 1, VecDeque::new);
        }
        self.bound[index].push_back(task);
    }

    fn of(&mut self, class: ClassId) -> Option<&mut VecDeque<Arc<Task>>> {
        match class.index() {
            0 => Some(&mut self.usual),
            index => self.bound.get_mut(index - 1),
        }
    }

    fn waits(&self, class: ClassId) -> bool {
        match class.index() {
            0 => !self.usual.is_empty(),
            index => self.bound.get(index - 1).is_some_and(|tasks| !tasks.is_empty()),
        }
    }
}

/// What has been chosen.
enum Chosen {
    /// The oldest of a class that goes by age.
    Oldest(ClassId, Arc<Task>),
    /// What a policy, or the guard, has picked.
    Picked(Picked<Arc<Task>>, Instant),
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

    /// Polls what policies say. `false` if nothing may run, or nothing more in this pass.
    #[inline(never)]
    pub(super) fn poll_managed(&self, clock: &dyn Fn() -> Instant) -> bool {
        let managed = &self.managed;
        if managed.has_moved.get() {
            self.settle();
            managed.is_idle.set(true);
        }
        if managed.is_idle.take() {
            // Who has to wait has waited meanwhile; all others had nothing to run.
            match managed.ready() {
                0 => managed.scheduler.borrow_mut().resume(clock()),
                _ => self.look(clock()),
            }
        }
        let turns = managed.turns.get().wrapping_add(1);
        managed.turns.set(turns);
        if turns.is_multiple_of(TURNS_PER_LOOK) {
            self.look(clock());
        }
        match self.choose(clock) {
            Some(Chosen::Oldest(class, task)) => {
                self.poll(task);
                let mut scheduler = managed.scheduler.borrow_mut();
                match managed.began.take() {
                    Some(began) => scheduler.measured(class, clock().since(began)),
                    None => scheduler.turned(class),
                }
                true
            }
            Some(Chosen::Picked(picked, start)) => {
                let why = match self.poll(picked.task) {
                    _ if managed.is_preempted.take() => Stop::Preempted,
                    why => why,
                };
                managed.began.set(None);
                managed.scheduler.borrow_mut().ran(picked.turn, start, clock(), why);
                // The loop is to look around before the next, which may be as long.
                why != Stop::Preempted
            }
            None => {
                self.look(clock());
                managed.is_idle.set(true);
                false
            }
        }
    }

    /// Looks who has waited too long.
    fn look(&self, now: Instant) {
        let managed = &self.managed;
        let woken = self.ready.lock();
        let due = managed.scheduler.borrow_mut().look(now, &|class| woken.waits(class));
        managed.due.set(due);
    }

    fn choose(&self, clock: &dyn Fn() -> Instant) -> Option<Chosen> {
        let managed = &self.managed;
        managed.waits_until.set(None);
        managed.ends.set(None);
        managed.is_preempted.set(false);
        if let Some(due) = managed.due.get() {
            for (class, by_age) in managed.lanes.borrow().iter().copied() {
                if managed.scheduler.borrow().is_bounded(class)
                    && let Ok(chosen) = self.choose_of(class, by_age, clock())
                {
                    return Some(chosen);
                }
            }
            if let Some(chosen) = self.choose_due(due, clock) {
                managed.slice.set(SLICE);
                return Some(chosen);
            }
        }
        let mut until: Option<Instant> = None;
        for (class, by_age) in managed.lanes.borrow().iter().copied() {
            // Of one that goes by age a scheduler only has what was bound to another before.
            let next = match by_age && managed.scheduler.borrow().ready() == 0 {
                true => Err(None),
                false => self.choose_of(class, by_age, clock()),
            };
            let then = match next {
                Ok(chosen) => {
                    managed.ends.set(until);
                    return Some(chosen);
                }
                Err(then) => then,
            };
            if by_age && let Some(task) = self.ready.lock().of(class).and_then(VecDeque::pop_front)
            {
                managed.slice.set(usual_slice(class));
                managed.ends.set(until);
                return Some(Chosen::Oldest(class, task));
            }
            until = [until, then].into_iter().flatten().min();
        }
        managed.waits_until.set(until);
        None
    }

    /// What the policy of a class gives; else until when it has its subjects wait, if it does.
    fn choose_of(
        &self,
        class: ClassId,
        by_age: bool,
        now: Instant,
    ) -> Result<Chosen, Option<Instant>> {
        let mut scheduler = self.managed.scheduler.borrow_mut();
        if !by_age {
            self.hand_over(&mut scheduler, class, now);
        }
        match scheduler.next_of(class, now) {
            Next::Run(picked) => {
                drop(scheduler);
                self.note_expelled();
                self.managed.slice.set(picked.slice);
                Ok(Chosen::Picked(picked, now))
            }
            Next::Wait(until) => Err(Some(until)),
            Next::Nothing => Err(None),
        }
    }

    /// The oldest of a class that has waited too long.
    fn choose_due(&self, class: ClassId, clock: &dyn Fn() -> Instant) -> Option<Chosen> {
        let mut scheduler = self.managed.scheduler.borrow_mut();
        if let Some(picked) = scheduler.next_oldest(class) {
            return Some(Chosen::Picked(picked, clock()));
        }
        let task = self.ready.lock().of(class)?.pop_front()?;
        Some(Chosen::Oldest(class, task))
    }

    /// Gives a policy what has become ready of its subjects.
    fn hand_over(&self, scheduler: &mut Scheduler<Arc<Task>>, class: ClassId, now: Instant) {
        let mut woken = self.ready.lock();
        let Some(tasks) = woken.of(class) else { return };
        while let Some(task) = tasks.pop_front() {
            scheduler.enqueue(task.subject, task, now);
        }
    }

    /// Has whoever waits for it told which policies were expelled.
    fn note_expelled(&self) {
        let managed = &self.managed;
        let mut scheduler = managed.scheduler.borrow_mut();
        while let Some(it) = scheduler.take_expelled() {
            managed.expelled.borrow_mut().push(it.name);
            managed.has_moved.set(true);
            managed.watcher.wake();
        }
    }

    /// Gives every task to the class that its subject is bound to now. No task is being polled.
    fn settle(&self) {
        let managed = &self.managed;
        managed.has_moved.set(false);
        managed.waits_until.set(None);
        let mut scheduler = managed.scheduler.borrow_mut();
        let class_of = |task: &Task| scheduler.class_of(task.subject).number();
        for slot in self.slots.borrow().iter() {
            if let Slot::Waiting(task, _) = slot {
                task.class.store(class_of(task), Ordering::Relaxed);
            }
        }
        let mut woken = self.ready.lock();
        let Woken { usual, bound } = core::mem::take(&mut *woken);
        // What policies hold was ready before.
        let mut held = VecDeque::new();
        if !scheduler.is_used() {
            while let Next::Run(picked) = scheduler.next(Instant::START) {
                held.push_back(picked.task);
            }
        }
        for task in held.into_iter().chain(usual).chain(bound.into_iter().flatten()) {
            woken.push(task);
        }
        *managed.lanes.borrow_mut() = scheduler.order().collect();
        managed.is_used.set(scheduler.is_used());
    }

    /// The subjects, in the order in which they came.
    pub fn subjects(&self) -> Vec<SubjectState> {
        let managed = &self.managed;
        // A policy that asks while it decides is told nothing.
        let Ok(scheduler) = managed.scheduler.try_borrow() else { return Vec::new() };
        let names = managed.names.borrow();
        let all = core::iter::once(KERNEL).chain(names.iter().map(String::as_str));
        let state = |(number, name): (u32, &str)| SubjectState {
            name: name.to_owned(),
            policy: scheduler.name_of(scheduler.class_of(Subject(number))).to_owned(),
        };
        (0..).zip(all).map(state).collect()
    }

    /// The policies from the highest global priority to the lowest.
    pub fn policies(&self) -> Vec<Statistics> {
        let scheduler = self.managed.scheduler.try_borrow();
        scheduler.map_or_else(|_| Vec::new(), |scheduler| scheduler.statistics().collect())
    }

    /// Adds a policy, unless there is one of this name that works.
    pub fn install(&self, name: &str, priority: i64, policy: Box<dyn Scheduling>) {
        if let Ok(mut scheduler) = self.managed.scheduler.try_borrow_mut() {
            scheduler.install(name.to_owned(), priority, policy);
        }
    }

    /// Nobody is bound to the policy of this name before it is published anew: the last incarnation
    /// of this core has ended in it.
    pub fn bar(&self, name: &str) {
        self.managed.scheduler.borrow_mut().bar(name.to_owned());
    }

    /// Whether anybody is bound to a policy.
    pub fn is_bound(&self) -> bool {
        self.managed.scheduler.try_borrow().map_or(true, |scheduler| scheduler.is_used())
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
        let scheduler = managed.scheduler.try_borrow_mut();
        let mut scheduler = scheduler.map_err(|_| Refusal::Deciding)?;
        let class = scheduler.class_named(policy).ok_or(Refusal::NoPolicy)?;
        scheduler.bind(subject, class, parameters, now)?;
        managed.has_moved.set(true);
        managed.is_used.set(true);
        Ok(())
    }

    /// Binds a subject to the default; `false` if it was.
    pub fn unbind(&self, subject: &str) -> bool {
        let managed = &self.managed;
        let Some(subject) = managed.subject(subject) else { return false };
        let Ok(mut scheduler) = managed.scheduler.try_borrow_mut() else { return false };
        let was_bound = scheduler.unbind(subject);
        drop(scheduler);
        managed.has_moved.set(true);
        managed.is_used.set(true);
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
