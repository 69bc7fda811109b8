//! Fair: subjects run in proportion to their weights. Each has a virtual time, which passes the
//! slower the more it weighs; whoever is furthest behind runs next. Who has waited long is not paid
//! for it: it goes on from where the others are.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::Instant;

use crate::{
    Answer, Parameter, Parameters, Ran, Ready, Refusal, SLICE, Scheduling, Subject, Token,
};

const WEIGHT: Parameter = Parameter::new("weight", 1, 10_000);

/// The weight of who says nothing of it.
const USUAL: i64 = 100;

/// Virtual time that passes in a nanosecond of a subject with a weight of one.
const SCALE: u64 = 1 << 40;

struct Share {
    subject: Subject,
    /// Virtual time that passes in a nanosecond of its turns.
    per_nano: u64,
    /// How much it has had for its weight.
    virtual_time: u128,
    ready: VecDeque<Token>,
}

/// Fair.
#[derive(Default)]
pub struct Fair {
    /// Those that are bound; a core has few, and jobs are few.
    shares: Vec<Share>,
    /// Where the one was that ran last: who comes back is not further behind.
    floor: u128,
}

impl Fair {
    /// Its global priority.
    pub const PRIORITY: i64 = 20;

    fn share(&mut self, subject: Subject) -> Option<&mut Share> {
        self.shares.iter_mut().find(|share| share.subject == subject)
    }
}

impl Scheduling for Fair {
    fn parameters(&self) -> &'static [Parameter] {
        &[WEIGHT]
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn admit(&mut self, subject: Subject, it: &Parameters, _: Instant) -> Result<(), Refusal> {
        let weight = it.get(WEIGHT.name).unwrap_or(USUAL);
        let per_nano = SCALE / weight.max(1).unsigned_abs();
        match self.share(subject) {
            Some(share) => share.per_nano = per_nano,
            None => {
                let (virtual_time, ready) = (self.floor, VecDeque::new());
                self.shares.push(Share { subject, per_nano, virtual_time, ready });
            }
        }
        Ok(())
    }

    fn leave(&mut self, subject: Subject) {
        self.shares.retain(|share| share.subject != subject);
    }

    fn enqueue(&mut self, it: &Ready) {
        let floor = self.floor;
        let Some(share) = self.share(it.subject) else { return };
        if share.ready.is_empty() {
            share.virtual_time = share.virtual_time.max(floor);
        }
        share.ready.push_back(it.token);
    }

    fn dequeue(&mut self, it: &Ready) {
        if let Some(share) = self.share(it.subject) {
            share.ready.retain(|token| *token != it.token);
        }
    }

    fn next(&mut self, _: Instant) -> Option<Answer> {
        let waiting = self.shares.iter_mut().filter(|share| !share.ready.is_empty());
        let share = waiting.min_by_key(|share| share.virtual_time)?;
        self.floor = self.floor.max(share.virtual_time);
        share.ready.pop_front().map(|token| Answer::Run(token, Some(SLICE)))
    }

    fn ran(&mut self, it: &Ran) {
        let Some(share) = self.share(it.subject) else { return };
        // Where a clock does not tell a turn from none, each counts alike.
        let nanos = u64::try_from(it.span.as_nanos()).unwrap_or(u64::MAX).max(1);
        share.virtual_time += u128::from(nanos) * u128::from(share.per_nano);
    }
}
