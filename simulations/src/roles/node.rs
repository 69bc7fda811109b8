//! A node that does a day's work while an optimiser and the mechanism's hysteresis assign its cores
//! by what is measured four times a second.

use std::time::Duration;

use nile_abi::{Instant, Role, RoleSet};
use nile_roles::{Damped, Load, Optimiser, PerRole, demand};
use rand_chacha::ChaCha8Rng;

use super::day::{Counts, Stretch, node};
use super::{AWAY, BUDGET, price};
use crate::draw::below;

/// What a day was like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lived {
    /// Seconds until all was done.
    pub seconds: f64,
    /// How often a core changed.
    pub changes: u64,
    /// How many assignments were judged.
    pub evaluations: u64,
}

/// How often a node looks what its cores did, in seconds.
const LOOK: f64 = 0.25;

/// Measures are wrong by up to so many thousandths.
const NOISE: u64 = 50;

struct Node {
    roles: Vec<RoleSet>,
    /// When each core serves, again, in seconds.
    serves_at: Vec<f64>,
    now: f64,
}

impl Node {
    /// How many cores serve as what.
    fn serving(&self) -> Counts {
        let mut counts = [0; 16];
        for (roles, at) in self.roles.iter().zip(&self.serves_at) {
            counts[usize::from(roles.bits())] += u16::from(*at <= self.now);
        }
        counts
    }

    /// Does work at `rate` for `span`: how long each core was busy with each role is added up.
    /// What only one role can have goes to that first.
    fn serve(&self, work: &PerRole<u64>, rate: f64, span: f64, busy: &mut [PerRole<f64>]) {
        for role in Role::ALL {
            let mut left = work[role as usize] as f64 / 1e6 * rate * span;
            for alone in [true, false] {
                let holds = |core: &usize| {
                    let roles = self.roles[*core];
                    let is_alone = roles.bits().is_power_of_two();
                    roles.contains(role) && is_alone == alone && self.serves_at[*core] <= self.now
                };
                let cores: Vec<usize> = (0..self.roles.len()).filter(holds).collect();
                let speed = if alone { 1.0 } else { 0.9 };
                let each = (left / speed / cores.len().max(1) as f64).min(span);
                cores.iter().for_each(|core| busy[*core][role as usize] += each);
                left -= each * speed * cores.len() as f64;
            }
        }
    }
}

/// Lives a day. The node's roles at its beginning are those of a configuration without any.
pub fn live(day: &[Stretch], cores: usize, optimiser: &dyn Optimiser, seed: u64) -> Lived {
    let mut random: ChaCha8Rng = super::random(seed);
    let start = node(cores, price(cores));
    let mut it = Node {
        roles: start.iter().map(|core| core.now).collect(),
        serves_at: vec![0.0; cores],
        now: 0.0,
    };
    let mut damped = Damped::default();
    let mut lived = Lived::default();
    let mut busy = vec![[0.0; 4]; cores];
    let mut look = LOOK;
    for stretch in day {
        let mut left = stretch.length;
        while left > 1e-9 {
            let rate = 1.0 / stretch.time(&it.serving());
            let returns = it.serves_at.iter().filter(|at| **at > it.now);
            let next = returns.fold(look, |next: f64, at| next.min(*at));
            let span = (next - it.now).min(if rate > 0.0 { left / rate } else { f64::MAX });
            it.serve(&stretch.work, rate, span, &mut busy);
            left -= rate * span;
            // A sum of spans need not be the moment that it leads to.
            it.now = if it.now + span + 1e-9 > next { next } else { it.now + span };
            if it.now < look {
                continue;
            }
            look += LOOK;
            let asked = measure(&it.roles, &mut busy, &mut random);
            damped.observe(&asked, Duration::from_secs_f64(LOOK));
            let now = Instant::START + Duration::from_secs_f64(it.now);
            let mut known = start.clone();
            known.iter_mut().zip(&it.roles).for_each(|(core, roles)| core.now = *roles);
            known[0] = known[0].pinned();
            let answer = damped.decide(optimiser, known, now, BUDGET, seed ^ now.as_nanos());
            let Ok(Some(answer)) = answer else { continue };
            lived.evaluations += u64::from(answer.evaluations);
            damped.changed(&it.roles, &answer.roles, now);
            for (core, roles) in answer.roles.iter().enumerate() {
                if it.roles[core] != *roles {
                    it.roles[core] = *roles;
                    it.serves_at[core] = it.now + AWAY;
                    lived.changes += 1;
                }
            }
        }
    }
    lived.seconds = it.now;
    lived
}

/// What a node measures between two looks, and what it makes of that.
fn measure(roles: &[RoleSet], busy: &mut [PerRole<f64>], random: &mut ChaCha8Rng) -> PerRole<u64> {
    let noise: PerRole<f64> =
        std::array::from_fn(|_| (1000 - NOISE + below(random, 2 * NOISE)) as f64 / 1000.0);
    let loads: Vec<Load> = busy
        .iter_mut()
        .map(|busy| {
            let times: PerRole<f64> = std::array::from_fn(|role| busy[role] * noise[role]);
            *busy = [0.0; 4];
            let all = times.iter().sum::<f64>();
            let span = |seconds: f64| Duration::from_micros((seconds * 1e6) as u64);
            Load {
                busy: span(all),
                user: span(times[Role::Worker as usize]),
                idle: span((LOOK - all).max(0.0)),
                queues: times.map(|time| (time / LOOK * 1e3) as u32),
            }
        })
        .collect();
    demand(roles.iter().zip(&loads).map(|(roles, load)| (*roles, &[1000; 4], load)))
}
