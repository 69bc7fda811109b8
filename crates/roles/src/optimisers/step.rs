//! Steps of local searches: one core becomes something else, or two change places.

use alloc::vec::Vec;

use nile_abi::RoleSet;

use crate::{Problem, Random};

/// A step from an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    first: (usize, RoleSet),
    second: Option<(usize, RoleSet)>,
}

impl Step {
    /// One core becomes `to`.
    pub fn change(core: usize, to: RoleSet) -> Step {
        Step { first: (core, to), second: None }
    }

    /// A step at random; in one of four cases two cores change places, if they can.
    pub fn draw(problem: &Problem, at: &[RoleSet], random: &mut Random) -> Step {
        let core = random.below(at.len());
        if random.happens(1, 4) {
            let other = random.below(at.len());
            let can = |core: usize, to: RoleSet| problem.choices(core).contains(&to);
            if at[core] != at[other] && can(core, at[other]) && can(other, at[core]) {
                return Step { first: (core, at[other]), second: Some((other, at[core])) };
            }
        }
        let choices = problem.choices(core);
        Step::change(core, choices[random.below(choices.len())])
    }

    /// Takes it, and says how it is taken back.
    pub fn take(self, at: &mut [RoleSet]) -> Step {
        let mut take = |(core, to): (usize, RoleSet)| (core, core::mem::replace(&mut at[core], to));
        Step { first: take(self.first), second: self.second.map(take) }
    }
}

/// An assignment at random, mended.
pub(crate) fn anywhere(problem: &Problem, random: &mut Random) -> Vec<RoleSet> {
    let draw = |core| {
        let choices: &[RoleSet] = problem.choices(core);
        choices[random.below(choices.len())]
    };
    let mut roles: Vec<RoleSet> = (0..problem.cores()).map(draw).collect();
    problem.repair(&mut roles);
    roles
}
