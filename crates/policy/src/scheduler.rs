//! The mechanism of scheduling: Dhara's policy manager (IV.A).
//!
//! What is ready is the mechanism's, each with its age. Policies hold tokens of it and are asked
//! from the highest global priority to the lowest. Whatever they do, four things hold:
//!
//! * Something that is ready runs. When a policy answers wrong, or nothing, the oldest of what it
//!   has runs, and the third time the policy is expelled: its subjects go to the default.
//! * Nothing is lost, and nothing runs twice: a token is good for one turn, under one policy.
//! * Nobody starves: a class that is ready and had no turn for the guard gets turns until it has
//!   had its reserve of the time, whatever stands above it.
//! * Binding moves all that a subject has ready from the old policy to the new one at once, in the
//!   order of age.

mod ask;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

use crate::class::{Class, GUARD, SLICE};
use crate::turn::{Asked, Next, Picked, Turn};
use crate::{
    ClassId, Expelled, Expulsion, Parameters, Ran, Ready, Refusal, Scheduling, Statistics, Stop,
    Subject, Token,
};

/// The default's global priority: above what is to run when there is nothing else.
pub const DEFAULT_PRIORITY: i64 = 15;

/// How soon it is looked again whether a class that has waited is due.
const LOOK: Duration = Duration::from_millis(1);

struct Entry<T> {
    task: T,
    subject: Subject,
    class: ClassId,
    since: Instant,
    /// Its age: more is younger.
    sequence: u64,
}

struct Slot<T> {
    generation: u32,
    entry: Option<Entry<T>>,
}

/// Schedules what is ready by policies. `T` is what its user knows a ready thing by.
pub struct Scheduler<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    classes: Vec<Class>,
    /// The classes from the highest global priority to the lowest.
    order: Vec<ClassId>,
    /// Which class a subject is bound to; those that are not named, to the default.
    bound: Vec<ClassId>,
    /// How much each of these has ready.
    has: Vec<u32>,
    sequence: u64,
    ready: usize,
    /// The last ones that were expelled, until somebody asks.
    expelled: Vec<ClassId>,
    /// When it was last looked who waits too long, and the class that does.
    looked: Instant,
    due: Option<ClassId>,
    /// Whether nothing was ready since anything was last picked.
    is_idle: bool,
}

impl<T> Default for Scheduler<T> {
    fn default() -> Scheduler<T> {
        Scheduler {
            slots: Vec::new(),
            free: Vec::new(),
            classes: Vec::from([Class::new(Cow::Borrowed("default"), DEFAULT_PRIORITY, None)]),
            order: Vec::from([ClassId::DEFAULT]),
            bound: Vec::new(),
            has: Vec::new(),
            sequence: 0,
            ready: 0,
            expelled: Vec::new(),
            looked: Instant::START,
            due: None,
            is_idle: true,
        }
    }
}

impl<T> Scheduler<T> {
    /// Adds a policy. One of this name that was expelled is replaced; one that works is kept, as
    /// others are bound to it.
    pub fn install(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        priority: i64,
        policy: Box<dyn Scheduling>,
    ) -> ClassId {
        let name = name.into();
        if let Some(id) = self.class_named(&name) {
            let class = self.class(id);
            if class.expelled.is_some() {
                *class = Class::new(name, priority, Some(policy));
                self.place(id);
            }
            return id;
        }
        let id = ClassId(u16::try_from(self.classes.len()).unwrap_or(u16::MAX));
        self.classes.push(Class::new(name, priority, Some(policy)));
        self.place(id);
        id
    }

    /// Has a policy of this name, which is not here, be one that was expelled: it has ended whom it
    /// decided for.
    pub fn bar(&mut self, name: impl Into<Cow<'static, str>>, at: Instant) {
        let mut class = Class::new(name.into(), 0, None);
        let (why, last) = (Expulsion::Fatal, Vec::new());
        class.expelled = Some(Expelled { why, subjects: 0, at, last });
        let id = ClassId(u16::try_from(self.classes.len()).unwrap_or(u16::MAX));
        self.classes.push(class);
        self.place(id);
    }

    /// Gives a class its place in the order: among equals, behind those that came before.
    fn place(&mut self, id: ClassId) {
        self.order.retain(|other| *other != id);
        let priority = self.class(id).priority;
        let is_before = |other: &&ClassId| self.classes[other.0 as usize].priority >= priority;
        let place = self.order.iter().take_while(is_before).count();
        self.order.insert(place, id);
    }

    fn class(&mut self, id: ClassId) -> &mut Class {
        &mut self.classes[id.0 as usize]
    }

    /// The policy of this name, if there is one here.
    pub fn class_named(&self, name: &str) -> Option<ClassId> {
        let index = self.classes.iter().position(|class| class.name == name)?;
        u16::try_from(index).ok().map(ClassId)
    }

    /// The name of a policy; that of none, if there is none such.
    pub fn name_of(&self, class: ClassId) -> &str {
        self.classes.get(class.0 as usize).map_or("", |class| &class.name)
    }

    /// What a subject is bound to.
    pub fn class_of(&self, subject: Subject) -> ClassId {
        self.bound.get(subject.0 as usize).copied().unwrap_or(ClassId::DEFAULT)
    }

    /// The global priority of what a subject is bound to.
    pub fn priority_of(&self, subject: Subject) -> i64 {
        self.classes[self.class_of(subject).0 as usize].priority
    }

    /// Whether anybody is bound to anything.
    pub fn is_used(&self) -> bool {
        self.classes.iter().skip(1).any(|class| class.subjects > 0)
    }

    /// How much is ready.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// What has become of each policy, from the highest global priority to the lowest.
    pub fn statistics(&self) -> impl Iterator<Item = Statistics> {
        self.order.iter().map(|id| self.classes[id.0 as usize].statistics())
    }

    /// The next policy that was expelled since the last time that this was asked.
    pub fn take_expelled(&mut self) -> Option<Statistics> {
        let id = self.expelled.pop()?;
        self.classes.get(id.0 as usize).map(Class::statistics)
    }

    /// Binds a subject to a policy, or changes its parameters; what it has ready goes with it.
    pub fn bind(
        &mut self,
        subject: Subject,
        to: ClassId,
        parameters: &Parameters,
        now: Instant,
    ) -> Result<(), Refusal> {
        let class = self.classes.get_mut(to.0 as usize).ok_or(Refusal::NoPolicy)?;
        if class.expelled.is_some() {
            return Err(Refusal::Expelled);
        }
        match &mut class.policy {
            Some(policy) => {
                parameters.check(policy.parameters())?;
                policy.admit(subject, parameters, now)?;
            }
            None => parameters.check(&[])?,
        }
        self.meet(subject);
        let from = self.class_of(subject);
        if from != to {
            self.rebind(from, to, |it| it == subject);
        }
        Ok(())
    }

    /// Counts a subject among the default's from when it is first heard of.
    fn meet(&mut self, subject: Subject) {
        let known = self.bound.len();
        let count = subject.0 as usize + 1;
        if known < count {
            self.bound.resize(count, ClassId::DEFAULT);
            self.has.resize(count, 0);
            self.class(ClassId::DEFAULT).subjects += u32::try_from(count - known).unwrap_or(0);
        }
    }

    /// Binds a subject to the default; `false` if it was.
    pub fn unbind(&mut self, subject: Subject) -> bool {
        let from = self.class_of(subject);
        if from != ClassId::DEFAULT {
            self.rebind(from, ClassId::DEFAULT, |it| it == subject);
        }
        from != ClassId::DEFAULT
    }

    /// Moves subjects, and all that they have ready, from one class to another.
    fn rebind(&mut self, from: ClassId, to: ClassId, moves: impl Fn(Subject) -> bool) {
        let ages = core::mem::take(&mut self.class(from).ages);
        let mut stay = VecDeque::new();
        let mut gone = Vec::new();
        for token in ages {
            match self.entry(token) {
                Some(entry) if moves(entry.subject) => gone.push(token),
                Some(_) => stay.push_back(token),
                None => {}
            }
        }
        let class = self.class(from);
        class.ages = stay;
        class.ready -= u32::try_from(gone.len()).unwrap_or(0);
        for token in &gone {
            self.dequeue(from, *token);
        }
        self.change_subjects(from, to, moves);
        let mut come = VecDeque::with_capacity(gone.len());
        for token in gone {
            let slot = &mut self.slots[token.slot as usize];
            // What the old policy knows it by is worth nothing from now on.
            slot.generation = slot.generation.wrapping_add(1);
            let token = Token { generation: slot.generation, ..token };
            let Some(entry) = &mut slot.entry else { continue };
            entry.class = to;
            let ready = Ready { token, subject: entry.subject, since: entry.since };
            come.push_back(token);
            let class = &mut self.classes[to.0 as usize];
            class.ready += 1;
            if let Some(policy) = &mut class.policy {
                policy.enqueue(&ready);
            }
        }
        self.merge(to, come);
    }

    fn change_subjects(&mut self, from: ClassId, to: ClassId, moves: impl Fn(Subject) -> bool) {
        let mut moved = Vec::new();
        for (index, class) in self.bound.iter_mut().enumerate() {
            let subject = Subject(u32::try_from(index).unwrap_or(u32::MAX));
            if *class == from && moves(subject) {
                *class = to;
                moved.push(subject);
            }
        }
        let count = u32::try_from(moved.len()).unwrap_or(0);
        let active = moved.iter().filter(|it| self.has[it.0 as usize] > 0).count() as u32;
        self.class(to).active += active;
        let class = self.class(from);
        class.active -= active;
        class.subjects -= count;
        if let Some(policy) = &mut class.policy {
            moved.iter().for_each(|subject| policy.leave(*subject));
        }
        self.class(to).subjects += count;
    }

    /// Adds tokens to those of a class; both are in the order of age.
    fn merge(&mut self, to: ClassId, come: VecDeque<Token>) {
        if come.is_empty() {
            return;
        }
        let mut ages = core::mem::take(&mut self.class(to).ages);
        let mut merged = VecDeque::with_capacity(ages.len() + come.len());
        for token in come {
            let age = self.age(token);
            while let Some(older) = ages.pop_front_if(|it| self.age(*it) < age) {
                merged.push_back(older);
            }
            merged.push_back(token);
        }
        merged.extend(ages);
        self.class(to).ages = merged;
    }

    /// The age of what a token stands for; what is gone is older than all.
    fn age(&self, token: Token) -> u64 {
        self.entry(token).map_or(0, |entry| entry.sequence)
    }

    /// Has the policy of a class forget something.
    fn dequeue(&mut self, class: ClassId, token: Token) {
        let Some(entry) = self.entry(token) else { return };
        let it = Ready { token, subject: entry.subject, since: entry.since };
        if let Some(policy) = &mut self.class(class).policy {
            policy.dequeue(&it);
        }
    }

    fn entry(&self, token: Token) -> Option<&Entry<T>> {
        let slot = self.slots.get(token.slot as usize)?;
        slot.entry.as_ref().filter(|_| slot.generation == token.generation)
    }

    /// Something of a subject is ready. The token is for [`Scheduler::remove`].
    pub fn enqueue(&mut self, subject: Subject, task: T, now: Instant) -> Token {
        self.meet(subject);
        let class = self.class_of(subject);
        self.sequence += 1;
        self.ready += 1;
        let entry = Entry { task, subject, class, since: now, sequence: self.sequence };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, entry: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.entry = Some(entry);
        let token = Token { slot: index, generation: slot.generation };
        let has = &mut self.has[subject.0 as usize];
        *has += 1;
        let is_first = *has == 1;
        let class = self.class(class);
        class.active += u32::from(is_first);
        class.ages.push_back(token);
        class.ready += 1;
        if let Some(policy) = &mut class.policy {
            policy.enqueue(&Ready { token, subject, since: now });
        }
        token
    }

    /// Takes back what is ready no longer; `None` if it has had its turn, or its subject was bound
    /// elsewhere since.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        let class = self.entry(token)?.class;
        self.dequeue(class, token);
        self.take(token).map(|entry| entry.task)
    }

    /// Takes everything of a subject that is ready.
    pub fn remove_all(&mut self, subject: Subject) -> Vec<T> {
        let class = self.class_of(subject);
        let ages = self.class(class).ages.clone();
        let is_its = |token: &Token| self.entry(*token).is_some_and(|it| it.subject == subject);
        let tokens: Vec<Token> = ages.into_iter().filter(is_its).collect();
        tokens.into_iter().filter_map(|token| self.remove(token)).collect()
    }

    /// Takes what the token stands for out of the slots.
    fn take(&mut self, token: Token) -> Option<Entry<T>> {
        let slot = self.slots.get_mut(token.slot as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(token.slot);
        self.ready -= 1;
        self.is_idle = self.ready == 0;
        let has = &mut self.has[entry.subject.0 as usize];
        *has -= 1;
        let is_last = *has == 0;
        let class = self.class(entry.class);
        class.active -= u32::from(is_last);
        class.ready -= 1;
        // What is gone is at the front, most of the time.
        if class.ages.front() == Some(&token) {
            class.ages.pop_front();
        } else if class.ages.len() > 16 + 2 * class.ready as usize {
            let mut ages = core::mem::take(&mut class.ages);
            ages.retain(|token| self.entry(*token).is_some());
            self.class(entry.class).ages = ages;
        }
        Some(entry)
    }

    /// The oldest that a class has.
    fn oldest(&mut self, id: ClassId) -> Option<Token> {
        while let Some(token) = self.class(id).ages.front().copied() {
            if self.entry(token).is_some() {
                return Some(token);
            }
            self.class(id).ages.pop_front();
        }
        None
    }

    /// What runs next.
    pub fn next(&mut self, now: Instant) -> Next<T> {
        if self.ready == 0 {
            return Next::Nothing;
        }
        if core::mem::take(&mut self.is_idle) {
            self.resume(now);
        }
        if now >= self.looked + LOOK {
            self.look(now, &|_| false);
        }
        if let Some(due) = self.due {
            for place in 0..self.order.len() {
                let id = self.order[place];
                if self.is_bounded(id)
                    && let Next::Run(picked) = self.next_of(id, now)
                {
                    return Next::Run(picked);
                }
            }
            if let Some(picked) = self.next_oldest(due) {
                return Next::Run(picked);
            }
        }
        let mut until: Option<Instant> = None;
        for place in 0..self.order.len() {
            match self.next_of(self.order[place], now) {
                Next::Wait(then) => until = Some(until.map_or(then, |until| until.min(then))),
                Next::Nothing => {}
                run => return run,
            }
        }
        until.map_or(Next::Nothing, Next::Wait)
    }

    /// Whether the subjects of a class have no more than they were promised: they run before what
    /// has waited too long.
    pub fn is_bounded(&self, id: ClassId) -> bool {
        self.classes[id.0 as usize].is_bounded()
    }

    /// Whether a class has something here.
    pub fn has_ready(&self, id: ClassId) -> bool {
        self.classes[id.0 as usize].ready > 0
    }

    /// Whether turns of a subject may follow each other by one answer: the policy says so, and has
    /// nothing of others.
    pub fn goes_on(&self, id: ClassId, whose: Option<Subject>) -> bool {
        let class = &self.classes[id.0 as usize];
        let own = whose.map_or(0, |it| self.has.get(it.0 as usize).map_or(0, |has| (*has).min(1)));
        class.goes_on && class.active == own
    }

    /// What runs next of a class.
    pub fn next_of(&mut self, id: ClassId, now: Instant) -> Next<T> {
        if self.class(id).ready == 0 {
            return Next::Nothing;
        }
        match self.ask(id, now) {
            Asked::Run(token, slice) => self.pick(token, slice).map_or(Next::Nothing, Next::Run),
            // A guard ends a wait that a policy would have go on for ever.
            Asked::Wait(until) => Next::Wait(until.min(now + GUARD)),
        }
    }

    /// What a class has had ready longest, out of the order of its policy.
    pub fn next_oldest(&mut self, id: ClassId) -> Option<Picked<T>> {
        let oldest = self.oldest(id)?;
        self.class(id).reserved += 1;
        self.dequeue(id, oldest);
        self.pick(oldest, SLICE)
    }

    /// Looks which class has waited too long, and longest: behind those that are bounded it is to
    /// have turns until the next look. `waits` says of which classes something is ready that is
    /// not here.
    pub fn look(&mut self, now: Instant, waits: &dyn Fn(ClassId) -> bool) -> Option<ClassId> {
        let sum = |of: fn(&Class) -> u64| self.classes.iter().map(of).sum::<u64>();
        let (turns, measured) = (sum(|it| it.turns), sum(|it| it.measured));
        let passed = now.as_nanos().saturating_sub(self.looked.as_nanos());
        let rest = passed.saturating_sub(measured);
        self.looked = now;
        let mut longest: Option<(Instant, ClassId)> = None;
        for place in 0..self.order.len() {
            let id = self.order[place];
            let is_waiting = waits(id);
            let class = self.class(id);
            class.share(now, passed, rest, turns);
            let is_ready = class.ready > 0 || is_waiting;
            let served = class.served();
            if class.is_due(now, is_ready) && longest.is_none_or(|(since, _)| served < since) {
                longest = Some((served, id));
            }
        }
        self.due = longest.map(|(_, id)| id);
        self.due
    }

    /// From now on time counts as turns': before, there was nothing to run.
    pub fn resume(&mut self, now: Instant) {
        let passed = now.as_nanos().saturating_sub(self.looked.as_nanos());
        self.looked = now;
        self.due = None;
        self.classes.iter_mut().for_each(|class| class.begin(now, passed));
    }

    /// Something of a class that goes by age had so many turns, without being here.
    #[inline]
    pub fn turned(&mut self, id: ClassId, turns: u32) {
        self.class(id).turns += u64::from(turns);
    }

    /// The same for one turn, if somebody has measured it.
    pub fn measured(&mut self, id: ClassId, span: Duration) {
        self.class(id).measured += u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    }

    /// The classes from the highest global priority to the lowest, and whether each goes by age.
    pub fn order(&self) -> impl Iterator<Item = (ClassId, bool)> {
        self.order.iter().map(|id| (*id, self.classes[id.0 as usize].policy.is_none()))
    }

    fn pick(&mut self, token: Token, slice: Duration) -> Option<Picked<T>> {
        let Entry { task, subject, class, .. } = self.take(token)?;
        Some(Picked { task, turn: Turn { token, class, subject }, slice })
    }

    /// A turn is over, which began at `start`.
    pub fn ran(&mut self, turn: Turn, start: Instant, end: Instant, why: Stop) {
        let Turn { token, class: id, subject } = turn;
        let span = end.as_nanos().saturating_sub(start.as_nanos());
        let class = self.class(id);
        class.measured += span;
        // A policy hears nothing of a subject that has been bound elsewhere meanwhile.
        if class.policy.is_some() && self.class_of(subject) == id {
            let it = Ran { token, subject, end, span: Duration::from_nanos(span), why };
            if let Some(policy) = &mut self.class(id).policy {
                policy.ran(&it);
            }
        }
    }

    /// A subject is gone, with all that it had ready; its number may be another's from now on.
    pub fn forget(&mut self, subject: Subject) -> Vec<T> {
        let tasks = self.remove_all(subject);
        self.unbind(subject);
        tasks
    }
}
