//! The rule of thumb of elastic schedulers: who is above a threshold gets cores of who is not.

use nile_abi::{Role, RoleSet};

use crate::{Optimiser, Problem, Search, Spent, Tally};

/// Who is busier than this wants more cores, in millionths.
const HIGH: u64 = 850_000;

/// Gives idle cores to the bottleneck, one after the other, and at most as many as it has already.
pub struct Threshold;

impl Optimiser for Threshold {
    fn name(&self) -> &'static str {
        "threshold"
    }

    fn explain(&self) -> &'static str {
        "what is more than 85% busy gets cores of roles that stay less busy without them"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let problem = search.problem();
        let mut roles = problem.now();
        let (_, hot) = problem.tally(&roles).tightest(problem);
        let is_hot = |set: RoleSet| set.iter().any(|role| hot.contains(role));
        let more = roles.iter().filter(|set| is_hot(**set)).count();
        for _ in 0..more {
            let tally = problem.tally(&roles);
            let (heat, hot) = tally.tightest(problem);
            // The one of these that has most to do.
            let wanted = hot.iter().max_by_key(|role| problem.demand(*role));
            let Some(wanted) = wanted.filter(|_| heat > HIGH) else { break };
            let mut donor: Option<(u64, usize, RoleSet)> = None;
            for (core, from) in roles.iter().enumerate() {
                if from.iter().any(|role| hot.contains(role)) {
                    continue;
                }
                let narrow = |to: &&RoleSet| to.contains(wanted);
                let to = problem.choices(core).iter().filter(narrow);
                let Some(to) = to.min_by_key(|to| to.iter().count()) else { continue };
                let after = left(problem, &tally, core, *from, *to);
                if after < donor.map_or(heat, |(least, ..)| least) {
                    donor = Some((after, core, *to));
                }
            }
            let Some((_, core, to)) = donor else { break };
            roles[core] = to;
        }
        search.cost(&roles).map(drop)
    }
}

/// How busy the busiest of the roles is that a core gives up, without it.
fn left(problem: &Problem, tally: &Tally, core: usize, from: RoleSet, to: RoleSet) -> u64 {
    let given = Role::ALL.into_iter().filter(|role| from.contains(*role) && !to.contains(*role));
    given.map(|role| tally.time_without(problem, core, from, role)).max().unwrap_or(0)
}
