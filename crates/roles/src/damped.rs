//! Hysteresis. It is the mechanism's, so that no optimiser thrashes a node:
//!
//! * A core that changed stays as it is for [`HOLD`].
//! * A node that changed stays as it is for a *quiet time*. It doubles with each change that undoes
//!   one of late, up to [`MOST_QUIET`], and is [`QUIET`] again after six times as long without any.
//! * The demand is averaged over the quiet time. So whoever alternates faster than the node follows
//!   is seen as the mixture that he is.
//! * Where not even the best assignment could gain anything worth it, the optimiser is not asked.
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
pub const MOST_QUIET: Duration = Duration::from_secs(64);

/// A core that becomes what another has ceased to be within this time, or six quiet times, undoes
/// that change.
pub const REVERSAL: Duration = Duration::from_secs(30);

/// The optimiser is not asked if staying costs at most so many hundredths of what it must cost.
const GOOD_ENOUGH: u64 = 102;

/// What the mechanism of one node remembers.
#[derive(Clone, Debug)]
pub struct Damped {
    /// When each core changed last.
    cores: Vec<Option<Instant>>,
    /// When a core last ceased to be each set of roles.
    left: [Option<Instant>; 1 << Role::ALL.len()],
    changed: Option<Instant>,
    quiet: Duration,
    demand: Option<PerRole<u64>>,
}

impl Default for Damped {
    fn default() -> Damped {
        let left = [None; 1 << Role::ALL.len()];
        Damped { cores: Vec::new(), left, changed: None, quiet: QUIET, demand: None }
    }
}

impl Damped {
    /// How long the node stays as it is after a change.
    pub fn quiet(&self) -> Duration {
        self.quiet
    }

    /// What is asked of each role, over the quiet time.
    pub fn demand(&self) -> PerRole<u64> {
        self.demand.unwrap_or_default()
    }

    /// Notes what was asked of each role for `span`.
    pub fn observe(&mut self, demand: &PerRole<u64>, span: Duration) {
        let Some(known) = &mut self.demand else {
            self.demand = Some(*demand);
            return;
        };
        let whole = span.max(self.quiet).as_micros().max(1);
        for (known, new) in known.iter_mut().zip(demand) {
            let old = u128::from(*known) * (whole - span.as_micros());
            *known = ((old + u128::from(*new) * span.as_micros()) / whole) as u64;
        }
    }

    /// Has an optimiser say what the cores become, if anything may change now and something would
    /// gain by it. Whoever moves the cores then tells it to [`Damped::changed`].
    pub fn decide(
        &self,
        optimiser: &dyn Optimiser,
        mut cores: Vec<Core>,
        now: Instant,
        budget: u32,
        seed: u64,
    ) -> Result<Option<Answer>, Unfit> {
        if self.changed.is_some_and(|at| now.since(at) < self.quiet) {
            return Ok(None);
        }
        for (core, at) in cores.iter_mut().zip(&self.cores) {
            if at.is_some_and(|at| now.since(at) < HOLD) {
                *core = core.pinned();
            }
        }
        let problem = Problem::new(cores, &self.demand())?;
        let stays = problem.cost(&problem.now());
        if stays.is_some_and(|stays| stays.0 * 100 <= problem.floor().0 * GOOD_ENOUGH) {
            return Ok(None);
        }
        let answer = choose(optimiser, &problem, budget, seed);
        let is_change = answer.roles != problem.now() && problem.is_legal(&answer.roles);
        Ok(is_change.then_some(answer))
    }

    /// Notes that cores change.
    pub fn changed(&mut self, before: &[RoleSet], after: &[RoleSet], now: Instant) {
        let window = (self.quiet * 6).max(REVERSAL);
        let moved = |core: &usize| before[*core] != after[*core];
        let moved: Vec<usize> = (0..before.len().min(after.len())).filter(moved).collect();
        let of_late = |at: Option<Instant>| at.is_some_and(|at| now.since(at) < window);
        let undone = moved.iter().any(|core| of_late(self.left[place(after[*core])]));
        if undone {
            self.quiet = (self.quiet * 2).min(MOST_QUIET);
        } else if !of_late(self.changed) {
            self.quiet = QUIET;
        }
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
