//! A core with subjects that were promised a budget in each period, drawn up to the most that may
//! be promised, while others beneath them are ready all the time. Nobody who was promised anything
//! goes without it.

use std::time::Duration;

use nile_abi::Instant;
use nile_policy::{Next, Parameters, Refusal, Scheduler, Stop, Subject};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::{Conduct, Seen, scheduler};
use crate::draw::below;
use crate::trace::Trace;

/// The longest turn, which nobody ends: what has the nearest deadline waits for one.
const TURN: u64 = 50;

/// How long a core runs, in microseconds.
const END: u64 = 1_000_000;

struct Periodic {
    period: u64,
    budget: u64,
    /// What is left to do in this period.
    left: u64,
    /// When the next period begins.
    next: u64,
}

struct Core {
    scheduler: Scheduler<usize>,
    promised: Vec<Periodic>,
    /// What each of the others has had, in microseconds.
    had: Vec<u64>,
}

/// Runs one core; the first invariant that is broken, if one is.
pub fn run(seed: u64, conduct: Conduct, trace: &mut Trace, seen: &mut Seen) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0xdead);
    let (mut scheduler, [fifo, fair, deadline, _]) = scheduler();
    let mut promised = Vec::new();
    // Parts of a million that may still be promised.
    let mut left = 950_000;
    for _ in 0..1 + below(&mut random, 8) {
        // Whole turns, so that no turn is cut.
        let period = 2_000 + 1_000 * below(&mut random, 60);
        let share = left * (50 + below(&mut random, 900)) / 1_000;
        let budget = period * share / 1_000_000 / TURN * TURN;
        if budget < 100 {
            continue;
        }
        left -= budget * 1_000_000 / period;
        let subject = Subject(promised.len() as u32);
        let terms =
            Parameters::none().with("period_us", period as i64).with("budget_us", budget as i64);
        scheduler
            .bind(subject, deadline, &terms, Instant::START)
            .map_err(|refusal| format!("a set that fits was refused: {refusal}"))?;
        promised.push(Periodic { period, budget, left: 0, next: 0 });
    }
    check_admission(&mut scheduler, left, promised.len())?;
    // Those that are promised nothing are ready all the time, by as many policies as there are.
    let others = below(&mut random, 4) as usize;
    for (place, class) in [fair, fifo].into_iter().enumerate().take(others) {
        let subject = Subject((promised.len() + place) as u32);
        scheduler
            .bind(subject, class, &Parameters::none(), Instant::START)
            .map_err(|refusal| format!("refused: {refusal}"))?;
    }
    for place in 0..others {
        let subject = promised.len() + place;
        scheduler.enqueue(Subject(subject as u32), subject, Instant::START);
    }
    if conduct.overruns {
        promised.iter_mut().for_each(|it| it.budget += it.period / 10);
    }
    let mut core = Core { scheduler, promised, had: vec![0; others] };
    core.run(trace, seen)
}

/// What does not fit any more is refused.
fn check_admission(
    scheduler: &mut Scheduler<usize>,
    left: u64,
    promised: usize,
) -> Result<(), String> {
    let deadline = scheduler.class_named("earliest_deadline").ok_or("there is no such policy")?;
    let budget = (left as i64 + 1_000) / 10;
    let more = Parameters::none().with("period_us", 100_000).with("budget_us", budget.max(101));
    let subject = Subject(promised as u32);
    match scheduler.bind(subject, deadline, &more, Instant::START) {
        Err(Refusal::Overcommitted { .. }) => Ok(()),
        other => Err(format!("more than all was asked for: {other:?}")),
    }
}

impl Core {
    fn run(&mut self, trace: &mut Trace, seen: &mut Seen) -> Result<(), String> {
        let mut now = 0;
        while now < END {
            self.release(now, seen);
            match self.scheduler.next(at(now)) {
                Next::Run(picked) => {
                    let index = picked.task;
                    trace.note(at(now), index as u64, 4, 0);
                    let slice = (picked.slice.as_micros() as u64).max(1);
                    let own = self.promised.get_mut(index);
                    let span = own.as_ref().map_or(TURN, |it| it.left).min(slice).min(TURN);
                    let start = now;
                    now += span;
                    let is_done = own.is_some_and(|it| {
                        it.left -= span;
                        it.left == 0
                    });
                    let why = if is_done { Stop::Waits } else { Stop::Yields };
                    let subject = picked.turn.subject;
                    self.scheduler.ran(picked.turn, at(start), at(now), why);
                    if !is_done {
                        self.scheduler.enqueue(subject, index, at(now));
                    }
                    if let Some(had) = self.had.get_mut(index.wrapping_sub(self.promised.len())) {
                        *had += span;
                    }
                }
                Next::Wait(then) => now = (then.as_nanos() / 1_000).max(now + 1),
                Next::Nothing => {
                    now = self.promised.iter().map(|it| it.next).min().unwrap_or(END);
                }
            }
        }
        if seen.missed > 0 {
            return Err(format!("{} promised budgets were not had in time", seen.missed));
        }
        match self.had.iter().position(|had| *had == 0) {
            Some(place) => Err(format!("number {place} of those promised nothing never ran")),
            None => Ok(()),
        }
    }

    /// Periods begin: what was not done by now is late.
    fn release(&mut self, now: u64, seen: &mut Seen) {
        for (index, it) in self.promised.iter_mut().enumerate() {
            if it.next <= now {
                seen.missed += u64::from(it.left > 0);
                let is_new = it.left == 0;
                it.left += it.budget;
                it.next += it.period;
                if is_new {
                    self.scheduler.enqueue(Subject(index as u32), index, at(now));
                }
            }
        }
    }
}

fn at(micros: u64) -> Instant {
    Instant::START + Duration::from_micros(micros)
}
