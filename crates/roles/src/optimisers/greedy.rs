//! Steepest descent: of all changes of one core the one that gains most, until none gains.

use alloc::vec::Vec;

use nile_abi::RoleSet;

use super::step::Step;
use crate::{Cost, Optimiser, Search, Spent};

/// Changes one core at a time, from what is now.
pub struct Greedy;

impl Optimiser for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn explain(&self) -> &'static str {
        "of all changes of one core the one that gains most, until none gains"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let mut at = search.problem().now();
        descend(search, &mut at)
    }
}

/// Goes down from an assignment until no change of one core gains anything.
pub(crate) fn descend(search: &mut Search<'_>, at: &mut [RoleSet]) -> Result<(), Spent> {
    let problem = search.problem();
    let mut cost = search.cost(at)?;
    loop {
        let mut best: Option<(Cost, Step)> = None;
        // Of cores that differ in nothing one is tried.
        let mut tried: Vec<(u16, RoleSet, bool)> = Vec::new();
        for core in 0..at.len() {
            let kind = (problem.class(core), at[core], problem.is_now(core, at[core]));
            if tried.contains(&kind) {
                continue;
            }
            tried.push(kind);
            for to in problem.choices(core).iter().filter(|to| **to != kind.1) {
                let step = Step::change(core, *to);
                let back = step.take(at);
                let found = search.cost(at);
                back.take(at);
                let found = found?;
                if found < best.map_or(cost, |(least, _)| least) {
                    best = Some((found, step));
                }
            }
        }
        let Some((least, step)) = best else { return Ok(()) };
        step.take(at);
        cost = least;
    }
}
