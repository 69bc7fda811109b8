//! Hysteresis. It is the mechanism's, so that no optimiser thrashes a node:
//!
//! * A core that changed stays as it is for [`HOLD`].
//! * A node that changed stays as it is for a *quiet time*. It doubles with each change that undoes
//!   one of late, up to [`MOST_QUIET`], and halves with each that does not, down to [`QUIET`].
//! * Nothing changes while the demand does: two looks in a row have to agree. Where they do not for
//!   long, or the quiet time is long, the average over the last seconds decides. So whoever
//!   alternates faster than the node follows is seen as the mixture that he is.
//! * A change has to gain one part of [`WORTH`]. Where not even the best assignment could, the
//!   optimiser is not asked; nor soon again about the same, if it found nothing.
//! * What it answers is checked: what is not legal changes nothing.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, Role, RoleSet};

use crate::{Answer, Core, Optimiser, PerRole, Problem, Unfit, choose};

/// For how long a core that changed stays as it is.
pub const HOLD: Duration = Duration::from_secs(5);

/// How long a node stays as it is at least, between two changes.
pub const QUIET: Duration = Duration::from_secs(1);

/// How long at most.
pub const MOST_QUIET: Duration = Duration::from_secs(32);

/// A core that becomes what another has ceased to be within this time undoes that change; within
/// two quiet times, if those are longer.
pub const REVERSAL: Duration = Duration::from_secs(30);

/// A change has to gain one part of so many of the node's time.
pub const WORTH: u64 = 25;

/// For how long looks may disagree before the average decides, and over how long that is at least.
const UNSTEADY: Duration = Duration::from_secs(4);

/// For how long an optimiser that found nothing is not asked about the same again.
const FRUITLESS: Duration = Duration::from_secs(15);

/// Two looks agree if they differ in one part of so many at most.
const AGREE: u64 = 5;

/// What the mechanism of one node remembers.
#[derive(Clone, Debug)]
pub struct Damped {
    /// When each core changed last.
    cores: Vec<Option<Instant>>,
    /// When a core last ceased to be each set of roles.
    left: [Option<Instant>; 1 << Role::ALL.len()],
    changed: Option<Instant>,
    quiet: Duration,
    /// What was asked of each role in the last looks that agree, and for how long they were.
    recent: Mean,
    /// What was asked over the quiet time.
    usual: Mean,
    /// For how long looks have not agreed.
    unsteady: Duration,
    /// When an optimiser found nothing, what was asked of each role then, and how many cores were
    /// held.
    fruitless: Option<(Instant, Mean, usize)>,
}

/// What an optimiser is asked.
pub struct Question {
    /// The cores, of which those that changed of late stay as they are.
    pub cores: Vec<Core>,
    /// What is asked of each role.
    pub demand: PerRole<u64>,
    /// Both as a problem.
    pub problem: Problem,
    /// What an answer has to cost less than.
    least: u64,
    held: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    demand: PerRole<u64>,
    span: Duration,
}

impl Mean {
    /// Counts `demand` for `span` of the last `most`.
    fn add(&mut self, demand: &PerRole<u64>, span: Duration, most: Duration) {
        self.span = (self.span + span).min(most.max(span));
        let whole = self.span.as_micros().max(1);
        let part = span.as_micros();
        for (known, new) in self.demand.iter_mut().zip(demand) {
            let sum = u128::from(*known) * (whole - part) + u128::from(*new) * part;
            *known = (sum / whole) as u64;
        }
    }

    /// Whether `demand` is about the same.
    fn agrees(&self, demand: &PerRole<u64>) -> bool {
        let apart: u64 = self.demand.iter().zip(demand).map(|(a, b)| a.abs_diff(*b)).sum();
        let whole = self.demand.iter().sum::<u64>().max(demand.iter().sum());
        apart * AGREE <= whole
    }
}

impl Default for Damped {
    fn default() -> Damped {
        Damped {
            cores: Vec::new(),
            left: [None; 1 << Role::ALL.len()],
            changed: None,
            quiet: QUIET,
            recent: Mean::default(),
            usual: Mean::default(),
            unsteady: Duration::ZERO,
            fruitless: None,
        }
    }
}

impl Damped {
    /// How long the node stays as it is after a change.
    pub fn quiet(&self) -> Duration {
        self.quiet
    }

    /// Notes what was asked of each role for `span`: a quarter of a second or so.
    pub fn observe(&mut self, demand: &PerRole<u64>, span: Duration) {
        self.usual.add(demand, span, self.quiet.max(UNSTEADY));
        if self.recent.agrees(demand) {
            self.recent.add(demand, span, UNSTEADY);
            self.unsteady = Duration::ZERO;
        } else {
            self.recent = Mean { demand: *demand, span: Duration::ZERO };
            self.unsteady += span;
        }
    }

    /// What is asked of each role, unless that is just changing.
    pub fn demand(&self) -> Option<PerRole<u64>> {
        if self.quiet > UNSTEADY || self.unsteady >= UNSTEADY {
            return Some(self.usual.demand);
        }
        (self.recent.span > Duration::ZERO).then_some(self.recent.demand)
    }

    /// What an optimiser is to be asked, if anything may change now and something would gain by it.
    pub fn ask(&mut self, mut cores: Vec<Core>, now: Instant) -> Result<Option<Question>, Unfit> {
        let is_quiet = self.changed.is_some_and(|at| now.since(at) < self.quiet);
        let Some(demand) = self.demand().filter(|_| !is_quiet) else { return Ok(None) };
        let mut held = 0;
        for (core, at) in cores.iter_mut().zip(&self.cores) {
            if at.is_some_and(|at| now.since(at) < HOLD) {
                *core = core.pinned();
                held += 1;
            }
        }
        let is_same = |(at, then, others): &(Instant, Mean, usize)| {
            now.since(*at) < FRUITLESS && *others == held && then.agrees(&demand)
        };
        if self.fruitless.as_ref().is_some_and(is_same) {
            return Ok(None);
        }
        let problem = Problem::new(cores.clone(), &demand)?;
        let stays = problem.cost(&problem.now()).map_or(0, |cost| cost.0);
        let least = stays.saturating_sub(stays / WORTH);
        let gains = problem.floor().0 < least;
        Ok(gains.then_some(Question { cores, demand, problem, least, held }))
    }

    /// Whether what an optimiser has answered is to be done: it is legal, and worth it.
    pub fn answered(&mut self, question: &Question, roles: &[RoleSet], now: Instant) -> bool {
        let Question { problem, demand, least, held, .. } = question;
        let is_worth_it = problem.cost(roles).is_some_and(|cost| cost.0 < *least);
        let asked = Mean { demand: *demand, span: Duration::ZERO };
        self.fruitless = (!is_worth_it).then_some((now, asked, *held));
        is_worth_it
    }

    /// Has an optimiser say what the cores become, if anything may change now and something would
    /// gain by it. Whoever moves the cores then tells it to [`Damped::changed`].
    pub fn decide(
        &mut self,
        optimiser: &dyn Optimiser,
        cores: Vec<Core>,
        now: Instant,
        budget: u32,
        seed: u64,
    ) -> Result<Option<Answer>, Unfit> {
        let Some(question) = self.ask(cores, now)? else { return Ok(None) };
        let answer = choose(optimiser, &question.problem, budget, seed);
        Ok(self.answered(&question, &answer.roles, now).then_some(answer))
    }

    /// Notes that cores change.
    pub fn changed(&mut self, before: &[RoleSet], after: &[RoleSet], now: Instant) {
        let window = (self.quiet * 2).max(REVERSAL);
        let moved = |core: &usize| before[*core] != after[*core];
        let moved: Vec<usize> = (0..before.len().min(after.len())).filter(moved).collect();
        let of_late = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < window);
        let undone = moved.iter().any(|core| of_late(self.left[place(after[*core])]));
        self.quiet = match undone {
            true => (self.quiet * 2).min(MOST_QUIET),
            false => (self.quiet / 2).max(QUIET),
        };
        self.cores.resize(self.cores.len().max(before.len()), None);
        for core in moved {
            self.left[place(before[core])] = Some(now);
            self.cores[core] = Some(now);
            self.changed = Some(now);
        }
    }
}

fn place(set: RoleSet) -> usize {
    set.bits().into()
}
