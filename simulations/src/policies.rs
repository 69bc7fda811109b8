//! Scheduling policies on one core: `nile_policy`'s mechanism with the policies of a node and with
//! hostile ones, while subjects come, go, wait, and are bound to other policies at any moment.
//!
//! * `hostile`: policies that do wrong.
//! * `core`: the core: its tasks, what befalls them, and what must hold.
//! * `deadlines`: the same with promised budgets: who was admitted gets them in time.
//!
//! Invariants: whatever is ready runs once, as its own subject's; what is ready oldest of a subject
//! runs first; no policy is without a turn for long while it has something ready; who answers wrong
//! is expelled at its third failure, who answers right never; and in the end nothing is left.

mod core;
mod deadlines;
mod hostile;
#[cfg(test)]
mod tests;

use std::time::Duration;

use nile_policy::policies::{EarliestDeadline, Fair, Fifo, RealTime};
use nile_policy::{ClassId, Scheduler};

use crate::options::Options;
use crate::report::{Figure, Report, Target};
use crate::runs::{Outcome, run_seeds};
use crate::trace::Trace;

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    run_seeds("policies", options, 1, |seed| simulate(seed, Conduct::default()))
}

/// How the parts of a run behave. Tests have them do wrong, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Conduct {
    /// A task that is ready is forgotten when its subject is bound.
    loses_at_bind: bool,
    /// A task is ready twice when its subject is bound.
    doubles_at_bind: bool,
    /// Tasks count as another subject's.
    mixes_subjects: bool,
    /// Subjects use more than the budget that they were admitted with.
    overruns: bool,
}

/// What was seen in a run.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    /// Subjects that were bound to another policy with something ready.
    moved: u64,
    /// Turns.
    turns: u64,
    /// The longest that a class was ready without a turn.
    waited: Duration,
    /// Budgets that were not had in their period.
    missed: u64,
}

/// One run.
fn simulate(seed: u64, conduct: Conduct) -> Outcome {
    let mut trace = Trace::default();
    let mut seen = Seen::default();
    let mut broken = core::run(seed, conduct, &mut trace, &mut seen).err();
    if broken.is_none() {
        broken = deadlines::run(seed, conduct, &mut trace, &mut seen).err();
    }
    let figures = vec![
        Figure::new("turns", seen.turns as f64, "turns"),
        Figure::new("bound elsewhere while ready", seen.moved as f64, "times"),
        Figure::new("longest wait of a policy", seen.waited.as_secs_f64() * 1e3, "ms")
            .with_target(Target::AtMost(LONGEST_WAIT.as_secs_f64() * 1e3)),
        Figure::new("missed deadlines", seen.missed as f64, "").with_target(Target::AtMost(0.0)),
    ];
    Outcome { trace_hash: trace.hash(), broken, figures }
}

/// How long a policy may be ready without a turn: it may have had its reserve of a second at once,
/// and then others wait for theirs, too.
const LONGEST_WAIT: Duration = Duration::from_millis(1_500);

/// A scheduler with the policies of a node.
fn scheduler<T>() -> (Scheduler<T>, [ClassId; 4]) {
    let mut it = Scheduler::default();
    let all = [
        it.install("fifo", Fifo::PRIORITY, Box::<Fifo>::default()),
        it.install("fair", Fair::PRIORITY, Box::<Fair>::default()),
        it.install(
            "earliest_deadline",
            EarliestDeadline::PRIORITY,
            Box::<EarliestDeadline>::default(),
        ),
        it.install("real_time", RealTime::PRIORITY, Box::<RealTime>::default()),
    ];
    (it, all)
}
