//! Populations over a cube: each member has a position, one number from 0 to 1 for each core, that
//! says which of its choices the core has. What is not legal is mended before it is judged.

use alloc::vec::Vec;

use nile_abi::RoleSet;

use super::fixed::{ONE, unit};
use crate::{Cost, Problem, Search, Spent};

/// How many members a population has, in each of the methods.
pub(crate) const SIZE: usize = 20;

/// So many of the best of a generation replace as many of the worst of the next.
const ELITE: usize = 2;

/// A position and what its assignment costs.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// One number for each core.
    pub at: Vec<i64>,
    /// What it costs.
    pub cost: Cost,
}

impl Member {
    /// Judges a position, which is first put back into the cube.
    pub fn new(mut at: Vec<i64>, search: &mut Search<'_>) -> Result<Member, Spent> {
        at.iter_mut().for_each(|x| *x = (*x).clamp(0, ONE - 1));
        let cost = search.cost(&settle(search.problem(), &at))?;
        Ok(Member { at, cost })
    }
}

/// The assignment at a position.
fn settle(problem: &Problem, at: &[i64]) -> Vec<RoleSet> {
    let choice = |(core, x): (usize, &i64)| {
        let choices = problem.choices(core);
        choices[(*x * choices.len() as i64 / ONE) as usize]
    };
    let mut roles: Vec<RoleSet> = at.iter().enumerate().map(choice).collect();
    problem.repair(&mut roles);
    roles
}

/// The position of an assignment: the middle of what stands for it.
fn position(problem: &Problem, roles: &[RoleSet]) -> Vec<i64> {
    let middle = |(core, set): (usize, &RoleSet)| {
        let choices = problem.choices(core);
        let index = choices.iter().position(|choice| choice == set).unwrap_or(0) as i64;
        (2 * index + 1) * ONE / (2 * choices.len() as i64)
    };
    roles.iter().enumerate().map(middle).collect()
}

/// The first population, the best first: what is now, and others anywhere.
pub(crate) fn first(search: &mut Search<'_>) -> Result<Vec<Member>, Spent> {
    let problem = search.problem();
    let mut members = Vec::with_capacity(SIZE);
    members.push(Member::new(position(problem, &problem.now()), search)?);
    while members.len() < SIZE {
        let at = (0..problem.cores()).map(|_| unit(&mut search.random)).collect();
        members.push(Member::new(at, search)?);
    }
    sort(&mut members);
    Ok(members)
}

/// The best first.
pub(crate) fn sort(members: &mut [Member]) {
    nile_order::sort_by_key(members, |member| member.cost);
}

/// The next generation: its worst give way to the best of the one before, which is sorted.
pub(crate) fn succeed(members: &mut Vec<Member>, mut next: Vec<Member>) {
    sort(&mut next);
    next.truncate(members.len().saturating_sub(ELITE));
    next.extend(members.iter().take(ELITE).cloned());
    sort(&mut next);
    *members = next;
}
