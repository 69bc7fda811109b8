//! What an optimiser may spend, and the best that it has found.

use alloc::vec::Vec;

use nile_abi::RoleSet;

use crate::{Cost, Problem, Random};

/// The budget is spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spent;

/// One way to look for an assignment.
pub trait Optimiser: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// How it decides, for people.
    fn explain(&self) -> &'static str;

    /// Looks until it has nothing left to try, or the budget is spent.
    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent>;
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The roles of each core: legal, and no worse than staying put.
    pub roles: Vec<RoleSet>,
    /// What that costs.
    pub cost: Cost,
    /// What staying put costs.
    pub stays: Cost,
    /// How many assignments, or bounds of some, were judged.
    pub evaluations: u32,
}

/// Has an optimiser answer a problem with `budget` evaluations at most and what `seed` draws.
/// Blocks for the time of these.
pub fn choose(optimiser: &dyn Optimiser, problem: &Problem, budget: u32, seed: u64) -> Answer {
    let mut search = Search::new(problem, budget, seed);
    // Whether it came to its end, or to that of its budget: the best is the answer.
    let _ = optimiser.search(&mut search);
    let Search { best, cost, stays, spent, .. } = search;
    Answer { roles: best, cost, stays, evaluations: spent }
}

/// A search that is going on.
pub struct Search<'a> {
    problem: &'a Problem,
    budget: u32,
    spent: u32,
    best: Vec<RoleSet>,
    cost: Cost,
    stays: Cost,
    /// What the optimiser draws from.
    pub random: Random,
}

impl<'a> Search<'a> {
    /// A search that has found staying put.
    pub fn new(problem: &'a Problem, budget: u32, seed: u64) -> Search<'a> {
        let best = problem.now();
        let stays = problem.cost(&best).unwrap_or(Cost::MOST);
        Search { problem, budget, spent: 0, best, cost: stays, stays, random: Random::new(seed) }
    }

    /// The problem.
    pub fn problem(&self) -> &'a Problem {
        self.problem
    }

    /// What staying put costs.
    pub fn stays(&self) -> Cost {
        self.stays
    }

    /// The best so far, and what it costs.
    pub fn best(&self) -> (&[RoleSet], Cost) {
        (&self.best, self.cost)
    }

    /// How many evaluations are left.
    pub fn left(&self) -> u32 {
        self.budget - self.spent
    }

    /// Spends one evaluation.
    pub fn spend(&mut self) -> Result<(), Spent> {
        if self.spent >= self.budget {
            return Err(Spent);
        }
        self.spent += 1;
        Ok(())
    }

    /// What an assignment costs: [`Cost::MOST`] if it is not legal. The best is remembered.
    pub fn cost(&mut self, assignment: &[RoleSet]) -> Result<Cost, Spent> {
        self.spend()?;
        let Some(cost) = self.problem.cost(assignment) else { return Ok(Cost::MOST) };
        self.remember(cost, assignment);
        Ok(cost)
    }

    /// Remembers an assignment if it is the best, which an optimiser that adds up costs itself has
    /// seen. What is not legal, or costs something else, is not taken.
    pub fn offer(&mut self, cost: Cost, assignment: &[RoleSet]) {
        if cost < self.cost && self.problem.cost(assignment) == Some(cost) {
            self.remember(cost, assignment);
        }
    }

    fn remember(&mut self, cost: Cost, assignment: &[RoleSet]) {
        if cost < self.cost {
            self.cost = cost;
            self.best.copy_from_slice(assignment);
        }
    }
}
