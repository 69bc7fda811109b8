//! What a composite promises, and when its latency counts as broken: not by one late call, but by
//! some that follow each other, and the less quickly the more often planning anew has changed
//! nothing.

use core::cell::Cell;
use core::fmt;

use nile_synthesis::{Goal, Plan};

/// So many calls that follow each other are late before the plan is made anew.
const LATE_CALLS: u32 = 3;

/// At most so many, when planning anew changes nothing.
const MOST_LATE_CALLS: u32 = 1 << 10;

/// A goal without a limit is promised this many times what the plan says.
const SLACK: u64 = 2;

/// And no less than this: a plan says nothing of what carrying it out takes.
const LEAST_PROMISE_NS: u64 = 100_000;

/// What a composite promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contract {
    /// A call takes at most so long: the limit of the goal; without one, twice what was planned.
    pub latency_ns: u64,
    /// So many calls in a second can be made: the limit of the goal; without one, what its parts
    /// say; `u64::MAX` if none says.
    pub per_second: u64,
}

impl Contract {
    pub(crate) fn of(goal: &Goal, plan: &Plan<'_>) -> Contract {
        let planned = plan.latency_ns.saturating_mul(SLACK).max(LEAST_PROMISE_NS);
        let latency_ns = goal.most_latency_ns.unwrap_or(planned);
        let per_second = goal.least_per_second.unwrap_or(plan.per_second);
        Contract { latency_ns, per_second }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} us", self.latency_ns.div_ceil(1000))?;
        match self.per_second {
            u64::MAX => Ok(()),
            calls => write!(f, ", {calls} calls in a second"),
        }
    }
}

/// Whether the latency of a contract is kept.
pub(crate) struct Watch {
    latency_ns: Cell<u64>,
    late: Cell<u32>,
    /// The quickest of the late calls.
    least_ns: Cell<u64>,
    patience: Cell<u32>,
}

impl Watch {
    pub fn of(contract: &Contract) -> Watch {
        Watch {
            latency_ns: Cell::new(contract.latency_ns),
            late: Cell::new(0),
            least_ns: Cell::new(u64::MAX),
            patience: Cell::new(LATE_CALLS),
        }
    }

    /// Notes how long a call took. If the contract is broken now, what calls take at least.
    pub fn note(&self, took_ns: u64) -> Option<u64> {
        if took_ns <= self.latency_ns.get() {
            self.late.set(0);
            self.least_ns.set(u64::MAX);
            return None;
        }
        self.late.set(self.late.get() + 1);
        self.least_ns.set(self.least_ns.get().min(took_ns));
        if self.late.get() < self.patience.get() {
            return None;
        }
        self.late.set(0);
        Some(self.least_ns.replace(u64::MAX))
    }

    /// Whether a plan that takes so long is worth a change from one that is found to take `now`:
    /// it must be a fifth better, or plans would follow each other for nothing.
    pub fn is_worth(planned_ns: u64, now_ns: u64) -> bool {
        planned_ns <= now_ns / 5 * 4
    }

    /// Nothing better was found: it is longer until it is looked for again.
    pub fn nothing_better(&self) {
        self.patience.set((self.patience.get() * 2).min(MOST_LATE_CALLS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_late_calls_break_a_contract_and_one_does_not() {
        let watch = Watch::of(&Contract { latency_ns: 100, per_second: u64::MAX });
        let notes = |calls: &[u64]| calls.iter().map(|it| watch.note(*it)).collect::<Vec<_>>();
        assert_eq!(notes(&[100, 900, 900, 100, 900, 900]), [None; 6]);
        assert_eq!(notes(&[500, 900, 900]), [Some(500), None, None]);
        watch.nothing_better();
        assert_eq!(notes(&[900, 900, 900, 200]), [None, None, None, Some(200)]);
        for _ in 0..40 {
            watch.nothing_better();
        }
        let calls = (1..).find(|_| watch.note(900).is_some());
        assert_eq!(calls, Some(MOST_LATE_CALLS));
    }

    #[test]
    fn a_plan_that_is_about_as_good_is_no_reason() {
        assert!(Watch::is_worth(800, 1000) && !Watch::is_worth(801, 1000));
        assert!(!Watch::is_worth(0, 0) || Watch::is_worth(0, 0), "no division fails");
    }

    extern crate std;
    use std::vec::Vec;
}
