//! What is measured of cores, and what it says of the demand for each role.

use core::time::Duration;

use nile_abi::{Role, RoleSet};

use crate::PerRole;
use crate::problem::speed_of;

/// What one core did in the time since it was last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// How long it had something to do.
    pub busy: Duration,
    /// How much of that was a package's: the work of a worker.
    pub user: Duration,
    /// How long it slept.
    pub idle: Duration,
    /// How many requests for each role waited or were served, in thousandths, on the average.
    pub queues: PerRole<u32>,
}

impl Load {
    /// How much of the time went to each role of a core that has `roles`, in millionths.
    ///
    /// What is a package's is the worker's. The rest is divided by the queues: who takes turns has
    /// the core in proportion to what each has in line.
    pub fn shares(&self, roles: RoleSet) -> PerRole<u64> {
        let mut shares = [0; Role::ALL.len()];
        let span = (self.busy + self.idle).as_nanos().max(1);
        let part = |time: Duration| (time.as_nanos() * 1_000_000 / span) as u64;
        let is_worker = roles.contains(Role::Worker);
        let user = if is_worker { self.user.min(self.busy) } else { Duration::ZERO };
        let rest = part(self.busy - user);
        let in_line = |role: Role| u64::from(self.queues[role as usize]);
        let all: u64 = roles.iter().map(in_line).sum();
        let count = roles.iter().count() as u64;
        for role in roles.iter() {
            shares[role as usize] = match all {
                0 => rest / count,
                _ => (u128::from(rest) * u128::from(in_line(role)) / u128::from(all)) as u64,
            };
        }
        if is_worker {
            shares[Role::Worker as usize] += part(user);
        }
        shares
    }
}

/// What is asked of each role, in millionths of a core of speed 1000, by what cores with their
/// roles and speeds did.
pub fn demand<'a>(
    cores: impl Iterator<Item = (RoleSet, &'a PerRole<u32>, &'a Load)>,
) -> PerRole<u64> {
    let mut demand = [0; Role::ALL.len()];
    for (roles, speed, load) in cores {
        for (index, share) in load.shares(roles).into_iter().enumerate() {
            demand[index] += share * speed_of(speed[index], roles) / 1000;
        }
    }
    demand
}
