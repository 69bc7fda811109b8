//! The tasks of a core whose subjects are bound to policies: Dhara's policy manager (IV.A).
//!
//! A subject is a service on this core or its package, by name; the kernel's own tasks are the
//! first one's. Wakers put a task on the list of the class that its subject is bound to. What goes
//! by age runs from there; what a policy decides is handed over to it first. When nobody is bound
//! any more, all go on the one list again.
//!
//! Where one answer holds for more than one turn they follow each other in a *go*: those of a class
//! that goes by age, or of a subject that alone has something ready of a policy that says so, until
//! something is ready that goes before them. A go is charged to its class as one turn.

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
    ClassId, GUARD, Next, Parameters, Picked, Refusal, SLICE, Scheduler, Scheduling, Statistics,
    Stop, Subject, SubjectState, usual_slice,
};
use nile_sync::Waiter;

use super::{Executor, Slot, Task, Woken};

/// The subject of the kernel's own tasks.
const KERNEL: &str = "kernel";

/// Turns between two looks at the clock, where nobody asks for it: as many as have room in the
/// guard if each has its whole slice, so that who waits for longer is seen by the next.
const TURNS_PER_LOOK: u32 = 32;
const _: () = assert!(SLICE.as_micros() * (TURNS_PER_LOOK as u128) < GUARD.as_micros());

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
    /// Turns until the next look at the clock.
    turns: Cell<u32>,
    /// The classes that go before the turn that may follow, a bit each.
    before: Cell<u64>,
    /// Whether the loop is to look around before the next turn.
    is_over: Cell<bool>,
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
        self.before.set(ALL);
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

    /// Somebody is bound elsewhere: tasks are to be given to their classes before the next turn.
    fn move_tasks(&self) {
        self.has_moved.set(true);
        self.before.set(ALL);
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

/// What is ready of a class that is not the default, as far as no policy has it.
#[derive(Default)]
pub(super) struct Lane {
    tasks: VecDeque<Arc<Task>>,
    /// Whose all of it is, if it is one subject's.
    whose: Option<Subject>,
}

impl Lane {
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Something of another subject than the one whose all was is ready.
    #[cold]
    #[inline(never)]
    fn mix(&mut self, subject: Subject) {
        self.whose = self.tasks.is_empty().then_some(subject);
    }
}

/// The bit of a class. Some share one if there are many, which costs them goes.
fn bit(class: usize) -> u64 {
    1 << (class & 63)
}

/// Nothing may follow.
const ALL: u64 = u64::MAX;

impl Woken {
    /// One of a class that is not the default.
    #[inline(never)]
    pub(super) fn push_bound(&mut self, class: u16, task: Arc<Task>) {
        let class = usize::from(class);
        self.has |= bit(class);
        let Some(lane) = self.bound.get_mut(class - 1) else { return self.push_first(class, task) };
        if lane.whose != Some(task.subject) {
            lane.mix(task.subject);
        }
        lane.tasks.push_back(task);
    }

    /// The first of a class.
    #[cold]
    fn push_first(&mut self, class: usize, task: Arc<Task>) {
        self.bound.resize_with(class, Lane::default);
        let lane = &mut self.bound[class - 1];
        lane.mix(task.subject);
        lane.tasks.push_back(task);
    }

    /// Whose all is that a class has here, if it is one subject's.
    fn subject(&self, class: ClassId) -> Option<Subject> {
        self.bound.get(class.index().checked_sub(1)?)?.whose
    }

    /// The oldest of a class.
    #[inline]
    fn pop(&mut self, class: ClassId) -> Option<Arc<Task>> {
        let Some(index) = class.index().checked_sub(1) else { return self.usual.pop_front() };
        let lane = self.bound.get_mut(index)?;
        let task = lane.tasks.pop_front();
        if lane.tasks.is_empty() {
            self.has &= !bit(class.index());
        }
        task
    }

    /// The oldest of a class, unless something is ready of those before it.
    #[inline]
    fn pop_next(&mut self, class: ClassId, before: u64) -> Option<Arc<Task>> {
        let is_behind = self.has & before != 0 || before & 1 != 0 && !self.usual.is_empty();
        if is_behind { None } else { self.pop(class) }
    }

    /// The classes of which any are here.
    fn waiting(&self) -> u64 {
        self.has | u64::from(!self.usual.is_empty())
    }

    fn waits(&self, class: ClassId) -> bool {
        self.waiting() & bit(class.index()) != 0
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

    /// Polls what policies say, this often at most; how often. None if nothing may run, or nothing
    /// more in this pass.
    #[inline(never)]
    pub(super) fn poll_managed(&self, most: u32, clock: &dyn Fn() -> Instant) -> u32 {
        let managed = &self.managed;
        if managed.is_over.take() {
            return 0;
        }
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
        if managed.turns.get() == 0 {
            managed.turns.set(TURNS_PER_LOOK);
            self.look(clock());
        }
        let most = most.min(managed.turns.get());
        let polls = match self.choose(clock) {
            Some(Chosen::Oldest(class, task)) => {
                let (polls, _) = self.poll_go(task, class, None, most);
                let mut scheduler = managed.scheduler.borrow_mut();
                match managed.began.take() {
                    Some(began) => {
                        scheduler.turned(class, polls - 1);
                        scheduler.measured(class, clock().since(began));
                    }
                    None => scheduler.turned(class, polls),
                }
                polls
            }
            Some(Chosen::Picked(picked, start)) => {
                let turn = picked.turn;
                let (polls, why) =
                    self.poll_go(picked.task, turn.class(), Some(turn.subject), most);
                let why = if managed.is_preempted.take() { Stop::Preempted } else { why };
                managed.began.set(None);
                managed.scheduler.borrow_mut().ran(turn, start, clock(), why);
                // The next may be as long.
                managed.is_over.set(why == Stop::Preempted);
                polls
            }
            None => {
                self.look(clock());
                managed.is_idle.set(true);
                return 0;
            }
        };
        managed.turns.set(managed.turns.get() - polls);
        polls
    }

    /// Polls a task, and those that follow it in the same go; how many, and why the last turn has
    /// ended.
    fn poll_go(
        &self,
        mut task: Arc<Task>,
        class: ClassId,
        whose: Option<Subject>,
        most: u32,
    ) -> (u32, Stop) {
        let mut polls = 1;
        loop {
            let why = self.poll(task);
            let mut woken = self.ready.lock();
            let follows = polls < most && (whose.is_none() || woken.subject(class) == whose);
            let next = match follows {
                true => woken.pop_next(class, self.managed.before.get()),
                false => None,
            };
            drop(woken);
            let Some(next) = next else { return (polls, why) };
            task = next;
            polls += 1;
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
        managed.before.set(ALL);
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
        // Of one that goes by age a scheduler only has what was bound to another before.
        let held = |class| managed.scheduler.borrow().has_ready(class);
        let waiting = self.ready.lock().waiting();
        let (mut until, mut before) = (None::<Instant>, 0);
        for (class, by_age) in managed.lanes.borrow().iter().copied() {
            let is_waiting = waiting & bit(class.index()) != 0;
            let next = match is_waiting && !by_age || held(class) {
                true => self.choose_of(class, by_age, clock()),
                false => Err(None),
            };
            // What a policy has wait is asked for at each turn.
            let goes = if until.is_none() { before } else { ALL };
            match next {
                Ok(chosen) => {
                    managed.ends.set(until);
                    if !by_age && managed.scheduler.borrow().goes_on(class, None) {
                        managed.before.set(goes);
                    }
                    return Some(chosen);
                }
                Err(Some(then)) => until = Some(until.map_or(then, |it| it.min(then))),
                Err(None) => {}
            }
            if by_age
                && is_waiting
                && let Some(task) = self.ready.lock().pop(class)
            {
                managed.slice.set(usual_slice(class));
                managed.ends.set(until);
                managed.before.set(goes);
                return Some(Chosen::Oldest(class, task));
            }
            before |= bit(class.index());
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
        let task = self.ready.lock().pop(class)?;
        Some(Chosen::Oldest(class, task))
    }

    /// Gives a policy what has become ready of its subjects: all, or, where turns of one subject
    /// follow each other, only what is next.
    fn hand_over(&self, scheduler: &mut Scheduler<Arc<Task>>, class: ClassId, now: Instant) {
        let mut woken = self.ready.lock();
        let whose = woken.subject(class);
        let goes_on = whose.is_some() && scheduler.goes_on(class, whose);
        while !(goes_on && scheduler.has_ready(class))
            && let Some(task) = woken.pop(class)
        {
            scheduler.enqueue(task.subject, task, now);
        }
    }

    /// Has whoever waits for it told which policies were expelled.
    fn note_expelled(&self) {
        let managed = &self.managed;
        let mut scheduler = managed.scheduler.borrow_mut();
        while let Some(it) = scheduler.take_expelled() {
            managed.expelled.borrow_mut().push(it.name);
            managed.move_tasks();
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
        let Woken { usual, bound, .. } = core::mem::take(&mut *woken);
        // What policies hold was ready before.
        let mut held = VecDeque::new();
        if !scheduler.is_used() {
            while let Next::Run(picked) = scheduler.next(Instant::START) {
                held.push_back(picked.task);
            }
        }
        let bound = bound.into_iter().flat_map(|lane| lane.tasks);
        for task in held.into_iter().chain(usual).chain(bound) {
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
    pub fn bar(&self, name: &str, at: Instant) {
        self.managed.scheduler.borrow_mut().bar(name.to_owned(), at);
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
        managed.move_tasks();
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
        managed.move_tasks();
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
