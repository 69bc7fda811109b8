//! Earliest deadline first. A subject says either by when it is to be done, once, or that it needs
//! a budget of time in each period; then it is promised that budget, if that fits beside what was
//! promised to others, and gets no more than that: who has used it up waits for the next period
//! (a constant bandwidth server).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

use crate::{Answer, Parameter, Parameters, Ran, Ready, Refusal, Scheduling, Subject, Token};

const HOUR_US: i64 = 3_600_000_000;
const PERIOD: Parameter = Parameter::new("period_us", 1_000, HOUR_US);
const BUDGET: Parameter = Parameter::new("budget_us", 100, HOUR_US);
const DEADLINE: Parameter = Parameter::new("deadline_us", 1, 24 * HOUR_US);

/// The most that is promised, in parts of a million of the core.
const MOST_PROMISED: u64 = 950_000;

#[derive(Clone, Copy)]
enum Terms {
    /// Done by then, once.
    Once,
    /// So much in each period.
    Each { period: Duration, budget: Duration },
}

impl Terms {
    fn promised(&self) -> u64 {
        match self {
            Terms::Once => 0,
            Terms::Each { period, budget } => {
                let ppm = budget.as_nanos() * 1_000_000 / period.as_nanos().max(1);
                u64::try_from(ppm).unwrap_or(u64::MAX)
            }
        }
    }
}

struct Promise {
    subject: Subject,
    terms: Terms,
    deadline: Instant,
    /// What is left of the budget until the deadline.
    left: Duration,
    ready: VecDeque<Token>,
}

impl Promise {
    /// Begins new periods, from the original date, until the present one.
    fn renew(&mut self, now: Instant) {
        let Terms::Each { period, budget } = self.terms else { return };
        if self.deadline > now {
            return;
        }
        let late = now.since(self.deadline).as_nanos() / period.as_nanos().max(1) + 1;
        let late = u32::try_from(late).unwrap_or(u32::MAX);
        self.deadline = self.deadline + period.saturating_mul(late);
        self.left = budget;
    }

    fn may_run(&self) -> bool {
        matches!(self.terms, Terms::Once) || !self.left.is_zero()
    }
}

/// Earliest deadline first.
#[derive(Default)]
pub struct EarliestDeadline {
    promises: Vec<Promise>,
}

impl EarliestDeadline {
    /// Its global priority.
    pub const PRIORITY: i64 = 25;

    fn promise(&mut self, subject: Subject) -> Option<&mut Promise> {
        self.promises.iter_mut().find(|promise| promise.subject == subject)
    }

    fn terms(parameters: &Parameters) -> Result<(Terms, Duration), Refusal> {
        let span = |it: Parameter| {
            let micros = parameters.get(it.name)?;
            Some(Duration::from_micros(micros.unsigned_abs()))
        };
        match (span(PERIOD), span(BUDGET), span(DEADLINE)) {
            (None, None, Some(deadline)) => Ok((Terms::Once, deadline)),
            (Some(period), Some(budget), None) if budget <= period => {
                Ok((Terms::Each { period, budget }, period))
            }
            (Some(_), Some(_), None) => {
                Err(Refusal::Incomplete("budget_us must not be more than period_us"))
            }
            _ => Err(Refusal::Incomplete("give either deadline_us, or period_us and budget_us")),
        }
    }
}

impl Scheduling for EarliestDeadline {
    fn parameters(&self) -> &'static [Parameter] {
        &[PERIOD, BUDGET, DEADLINE]
    }

    fn is_bounded(&self) -> bool {
        self.promises.iter().all(|promise| matches!(promise.terms, Terms::Each { .. }))
    }

    fn admit(&mut self, subject: Subject, it: &Parameters, now: Instant) -> Result<(), Refusal> {
        let (terms, span) = EarliestDeadline::terms(it)?;
        let others = self.promises.iter().filter(|promise| promise.subject != subject);
        let promised: u64 = others.map(|promise| promise.terms.promised()).sum();
        let asked = terms.promised();
        if promised.saturating_add(asked) > MOST_PROMISED {
            return Err(Refusal::Overcommitted { promised, asked, most: MOST_PROMISED });
        }
        let left = match terms {
            Terms::Once => Duration::ZERO,
            Terms::Each { budget, .. } => budget,
        };
        let deadline = now + span;
        match self.promise(subject) {
            Some(promise) => {
                (promise.terms, promise.deadline, promise.left) = (terms, deadline, left)
            }
            None => {
                let ready = VecDeque::new();
                self.promises.push(Promise { subject, terms, deadline, left, ready });
            }
        }
        Ok(())
    }

    fn leave(&mut self, subject: Subject) {
        self.promises.retain(|promise| promise.subject != subject);
    }

    fn enqueue(&mut self, it: &Ready) {
        let Some(promise) = self.promise(it.subject) else { return };
        promise.renew(it.since);
        promise.ready.push_back(it.token);
    }

    fn dequeue(&mut self, it: &Ready) {
        if let Some(promise) = self.promise(it.subject) {
            promise.ready.retain(|token| *token != it.token);
        }
    }

    fn next(&mut self, now: Instant) -> Option<Answer> {
        let waiting = self.promises.iter_mut().filter(|it| !it.ready.is_empty());
        let mut first: Option<&mut Promise> = None;
        let mut until: Option<Instant> = None;
        for promise in waiting {
            promise.renew(now);
            if !promise.may_run() {
                until = Some(until.map_or(promise.deadline, |it| it.min(promise.deadline)));
            } else if first.as_ref().is_none_or(|it| promise.deadline < it.deadline) {
                first = Some(promise);
            }
        }
        let Some(promise) = first else { return until.map(Answer::Wait) };
        let token = promise.ready.pop_front()?;
        let slice = match promise.terms {
            Terms::Once => None,
            Terms::Each { .. } => Some(promise.left),
        };
        Some(Answer::Run(token, slice))
    }

    fn ran(&mut self, it: &Ran) {
        if let Some(promise) = self.promise(it.subject) {
            promise.left = promise.left.saturating_sub(it.span);
        }
    }
}
