//! A policy, and what the mechanism keeps of it: what it has, by age, and how it has behaved.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use core::time::Duration;

use nile_abi::Instant;

use crate::expelled::Decisions;
use crate::{Expelled, Expulsion, Scheduling, Token};

/// Names a policy of a scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub(crate) u16);

impl ClassId {
    /// The default: whoever is bound to nothing.
    pub const DEFAULT: ClassId = ClassId(0);

    /// Its place among those of its scheduler, in the order in which they came.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// As a number, for what only holds numbers.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// What has become of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Its name, or `default`.
    pub name: String,
    /// Its global priority; more is asked earlier.
    pub priority: i64,
    /// How many subjects are bound to it.
    pub subjects: u32,
    /// How much of theirs is ready.
    pub ready: u32,
    /// Right answers.
    pub decisions: u64,
    /// Answers that were refused or missing, in place of which the oldest ran.
    pub refused: u64,
    /// Turns that the mechanism gave out of the policy's order, so that nobody starves.
    pub reserved: u64,
    /// The time that its subjects have run.
    pub ran: Duration,
    /// How it was expelled, if it was.
    pub expelled: Option<Expelled>,
}

impl Statistics {
    /// Why it was expelled, if it was.
    pub fn why(&self) -> Option<Expulsion> {
        self.expelled.as_ref().map(|it| it.why)
    }
}

/// Each class can count on one part of this many of the time.
const RESERVE: u64 = 20;

/// How long a class may be ready without a turn before its reserve counts.
/// Nor is any turn longer while others wait.
pub const GUARD: Duration = Duration::from_millis(100);

/// How long a turn may be while others wait, where nothing says otherwise.
pub const SLICE: Duration = Duration::from_millis(3);

/// How long a turn of a class that goes by age may be while others wait: the default's subjects
/// take turns; others run until they wait, but for whoever is due for its reserve.
pub fn usual_slice(id: ClassId) -> Duration {
    if id == ClassId::DEFAULT { SLICE } else { GUARD }
}

/// The most that a class has to its credit, or owes: its reserve of a second.
const MOST_CREDIT: i64 = 1_000_000_000 / RESERVE as i64;

/// A policy and what it has.
pub(crate) struct Class {
    pub name: Cow<'static, str>,
    pub priority: i64,
    /// None where age decides: in the default, in one that says so, and in one that was expelled.
    pub policy: Option<Box<dyn Scheduling>>,
    /// What is ready, oldest first, and some that no longer is.
    pub ages: VecDeque<Token>,
    pub ready: u32,
    /// Subjects of which something is ready here.
    pub active: u32,
    /// Whether turns of a subject that is alone follow each other by one answer.
    pub goes_on: bool,
    pub subjects: u32,
    pub decisions: u64,
    pub refused: u64,
    pub reserved: u64,
    /// Nanoseconds.
    pub ran: u64,
    pub expelled: Option<Expelled>,
    pub last: Decisions,
    /// What it had had less than its reserve, in nanoseconds, when it was counted; more, if
    /// negative.
    credit: i64,
    counted: Instant,
    /// What it had run by then.
    counted_ran: u64,
    /// Whether it is being given what it has to its credit.
    is_reserved: bool,
    /// What it may still have before it has had all but a reserve, in nanoseconds.
    room: i64,
    /// Turns since the last look that nobody has measured, and nanoseconds of those that were.
    pub turns: u64,
    pub measured: u64,
    /// When it was last seen to have had a turn, or nothing ready.
    served: Instant,
}

impl Class {
    pub fn new(
        name: Cow<'static, str>,
        priority: i64,
        policy: Option<Box<dyn Scheduling>>,
    ) -> Class {
        let policy = policy.filter(|policy| !policy.is_by_age());
        let goes_on = policy.as_ref().is_some_and(|policy| policy.goes_on());
        Class {
            name,
            priority,
            policy,
            ages: VecDeque::new(),
            ready: 0,
            active: 0,
            goes_on,
            subjects: 0,
            decisions: 0,
            refused: 0,
            reserved: 0,
            ran: 0,
            expelled: None,
            last: Decisions::new(),
            credit: 0,
            counted: Instant::START,
            counted_ran: 0,
            is_reserved: false,
            room: MOST_CREDIT,
            turns: 0,
            measured: 0,
            served: Instant::START,
        }
    }

    /// Counts what has accrued until `now`, and what was had.
    fn count(&mut self, now: Instant) {
        let accrued = now.as_nanos().saturating_sub(self.counted.as_nanos()) / RESERVE;
        let had = self.ran - self.counted_ran;
        let change = i64::try_from(accrued).unwrap_or(i64::MAX).saturating_sub_unsigned(had);
        self.credit = self.credit.saturating_add(change).clamp(-MOST_CREDIT, MOST_CREDIT);
        (self.counted, self.counted_ran) = (now, self.ran);
    }

    /// Begins to count from here, `passed` after the last look: it had nothing ready, and is owed
    /// nothing for that.
    pub fn begin(&mut self, now: Instant, passed: u64) {
        self.served = now;
        self.is_reserved = false;
        self.allow(passed, 0);
    }

    /// Counts what it may have, and what it had.
    fn allow(&mut self, passed: u64, had: u64) {
        let allowed = i64::try_from(passed - passed / RESERVE).unwrap_or(i64::MAX);
        let change = allowed.saturating_sub_unsigned(had);
        self.room = self.room.saturating_add(change).clamp(-MOST_CREDIT, MOST_CREDIT);
    }

    /// Takes its part of what `turns` took together since the last look, `passed` ago.
    pub fn share(&mut self, now: Instant, passed: u64, nanos: u64, turns: u64) {
        if self.turns > 0 || self.measured > 0 {
            self.served = now;
        }
        // What a class had is counted to the turn, over time.
        let had = self.measured + nanos.saturating_mul(self.turns) / turns.max(1);
        self.ran += had;
        (self.turns, self.measured) = (0, 0);
        self.allow(passed, had);
    }

    /// Whether its subjects leave room for others by themselves.
    pub fn is_bounded(&self) -> bool {
        self.room >= 0 && self.policy.as_ref().is_some_and(|policy| policy.is_bounded())
    }

    /// When it last had a turn, or nothing ready.
    pub fn served(&self) -> Instant {
        self.served
    }

    /// Whether it is due for its reserve: it has waited longer than the guard, and then until it
    /// has had what it had too little.
    pub fn is_due(&mut self, now: Instant, is_ready: bool) -> bool {
        if !is_ready {
            self.served = now;
        }
        let has_waited = now.since(self.served) > GUARD;
        if !is_ready || !has_waited && !self.is_reserved {
            return false;
        }
        self.count(now);
        self.is_reserved = self.credit > 0;
        self.is_reserved
    }

    pub fn statistics(&self) -> Statistics {
        Statistics {
            name: self.name.clone().into_owned(),
            priority: self.priority,
            subjects: self.subjects,
            ready: self.ready,
            decisions: self.decisions,
            refused: self.refused,
            reserved: self.reserved,
            ran: Duration::from_nanos(self.ran + self.measured),
            expelled: self.expelled.clone(),
        }
    }
}
