//! Fair: subjects run in proportion to their weights. Each has a virtual time, which passes the
//! slower the more it weighs; whoever is furthest behind runs next. Who has waited long is not paid
//! for it: it goes on from where the others are.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::time::Duration;

use nile_abi::Instant;

use crate::{Answer, Parameter, Parameters, Ran, Ready, Refusal, Scheduling, Subject, Token};

const WEIGHT: Parameter = Parameter::new("weight", 1, 10_000);

/// The weight of who says nothing of it.
const USUAL: i64 = 100;

/// How long a turn may be, where it can be ended.
const SLICE: Duration = Duration::from_millis(3);

/// Virtual time that passes in a nanosecond of a subject with a weight of one.
const SCALE: u128 = 1 << 20;

struct Share {
    weight: i64,
    /// How much it has had for its weight.
    virtual_time: u128,
    ready: VecDeque<Token>,
}

/// Fair.
#[derive(Default)]
pub struct Fair {
    shares: BTreeMap<Subject, Share>,
    /// Those that have something ready, the furthest behind first.
    waiting: BTreeSet<(u128, Subject)>,
    owners: BTreeMap<Token, Subject>,
    /// Where the one was that ran last: who comes back is not further behind.
    floor: u128,
}

impl Fair {
    /// Its global priority.
    pub const PRIORITY: i64 = 20;
}

impl Scheduling for Fair {
    fn parameters(&self) -> &'static [Parameter] {
        &[WEIGHT]
    }

    fn admit(&mut self, subject: Subject, it: &Parameters, _: Instant) -> Result<(), Refusal> {
        let weight = it.get(WEIGHT.name).unwrap_or(USUAL).max(1);
        let (virtual_time, ready) = (self.floor, VecDeque::new());
        let share = self.shares.entry(subject).or_insert(Share { weight, virtual_time, ready });
        share.weight = weight;
        Ok(())
    }

    fn leave(&mut self, subject: Subject) {
        if let Some(share) = self.shares.remove(&subject) {
            self.waiting.remove(&(share.virtual_time, subject));
        }
    }

    fn enqueue(&mut self, it: &Ready) {
        let Some(share) = self.shares.get_mut(&it.subject) else { return };
        if share.ready.is_empty() {
            share.virtual_time = share.virtual_time.max(self.floor);
            self.waiting.insert((share.virtual_time, it.subject));
        }
        share.ready.push_back(it.token);
        self.owners.insert(it.token, it.subject);
    }

    fn dequeue(&mut self, it: Token) {
        let Some(subject) = self.owners.remove(&it) else { return };
        let Some(share) = self.shares.get_mut(&subject) else { return };
        share.ready.retain(|token| *token != it);
        if share.ready.is_empty() {
            self.waiting.remove(&(share.virtual_time, subject));
        }
    }

    fn next(&mut self, _: Instant) -> Option<Answer> {
        let (virtual_time, subject) = *self.waiting.first()?;
        let share = self.shares.get_mut(&subject)?;
        let token = share.ready.pop_front()?;
        self.owners.remove(&token);
        self.floor = self.floor.max(virtual_time);
        if share.ready.is_empty() {
            self.waiting.remove(&(virtual_time, subject));
        }
        Some(Answer::Run(token, Some(SLICE)))
    }

    fn ran(&mut self, it: &Ran) {
        let Some(share) = self.shares.get_mut(&it.subject) else { return };
        let before = share.virtual_time;
        let weight = u128::from(share.weight.unsigned_abs());
        // Where a clock does not tell a turn from none, each counts alike.
        share.virtual_time += it.span.as_nanos().max(1) * SCALE / weight;
        if !share.ready.is_empty() {
            self.waiting.remove(&(before, it.subject));
            self.waiting.insert((share.virtual_time, it.subject));
        }
    }
}
