//! The rule of thumb of elastic schedulers: who is above a threshold gets cores of who is not.

use nile_abi::{Role, RoleSet};

use crate::{Optimiser, PerRole, Search, Spent};

/// A role whose cores are busier than this wants more of them, in millionths.
const HIGH: u64 = 850_000;

/// Gives cores of idle roles to the busiest, at most as many as that has already.
pub struct Threshold;

impl Optimiser for Threshold {
    fn name(&self) -> &'static str {
        "threshold"
    }

    fn explain(&self) -> &'static str {
        "a role that is more than 85% busy gets cores of those that stay less busy without them"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let problem = search.problem();
        let mut roles = problem.now();
        let mut speeds: PerRole<u64> = [0; Role::ALL.len()];
        for (core, set) in roles.iter().enumerate() {
            for role in set.iter() {
                speeds[role as usize] += problem.speed(core, role);
            }
        }
        let busy = |role: Role, speed: u64| problem.demand(role) * 1000 / speed.max(1);
        let all = problem.needed();
        let busiest = all.iter().max_by_key(|role| busy(*role, speeds[*role as usize]));
        let Some(hot) = busiest else { return Ok(()) };
        let more = roles.iter().filter(|set| set.contains(hot)).count();
        for _ in 0..more {
            let heat = busy(hot, speeds[hot as usize]);
            if heat < HIGH {
                break;
            }
            // How busy what the core leaves is without it, and it itself in its new role.
            let after = |core: usize, from: RoleSet, to: RoleSet| {
                let left = from.iter().filter(|role| !to.contains(*role));
                left.map(|role| {
                    let speed = speeds[role as usize] - problem.speed(core, role);
                    if speed == 0 { u64::MAX } else { busy(role, speed) }
                })
                .max()
                .unwrap_or(0)
            };
            let donor = (0..roles.len())
                .filter(|core| !roles[*core].contains(hot))
                .flat_map(|core| problem.choices(core).iter().map(move |to| (core, *to)))
                .filter(|(_, to)| to.contains(hot))
                .map(|(core, to)| (after(core, roles[core], to), core, to))
                .min_by_key(|(heat, core, to)| (*heat, *core, to.bits()));
            let Some((_, core, to)) = donor.filter(|(after, ..)| *after < heat) else { break };
            for role in Role::ALL {
                let speed = problem.speed(core, role);
                speeds[role as usize] -= if roles[core].contains(role) { speed } else { 0 };
                speeds[role as usize] += if to.contains(role) { speed } else { 0 };
            }
            roles[core] = to;
        }
        search.cost(&roles).map(drop)
    }
}
