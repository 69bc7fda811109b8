//! How a job shares the workers of a cluster with other jobs: by which policy, and with what.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use nile_stl_macros::Record;

/// The weight of a job of which nothing is said.
pub const USUAL_WEIGHT: u32 = 100;

/// The most that a job weighs.
pub const MOST_WEIGHT: u32 = 10_000;

/// The longest time until a job's deadline.
pub const MOST_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// Who of several jobs gets a worker that is free.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[record(crate = nile_bosml)]
pub enum Policy {
    /// Who has had the least time of it for its weight.
    #[default]
    Fair,
    /// Who is to be done first; before all jobs without a deadline.
    EarliestDeadline,
    /// Who came first, and only it, of those that say so; behind all others.
    Fifo,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Fair, Policy::EarliestDeadline, Policy::Fifo];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fair => "fair",
            Policy::EarliestDeadline => "earliest_deadline",
            Policy::Fifo => "fifo",
        }
    }
}

/// A job's claim to workers.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Share {
    /// The policy.
    pub policy: Policy,
    /// What it weighs among fair jobs, from 1 to [`MOST_WEIGHT`].
    pub weight: u32,
    /// How long after its master has begun it is to be done, in milliseconds; 0 if that is not
    /// said.
    pub deadline_ms: u64,
}

impl Default for Share {
    fn default() -> Share {
        Share { policy: Policy::Fair, weight: USUAL_WEIGHT, deadline_ms: 0 }
    }
}

/// Why a claim is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoShare {
    /// There is no policy of this name.
    Unknown(String),
    /// The weight is out of bounds.
    Weight(u32),
    /// A weight was given to a policy that has none.
    NotWeighed(Policy),
    /// Earliest deadline without one, or with one that is too far away.
    Deadline(u64),
    /// A deadline was given to a policy that has none.
    NotTimed(Policy),
}

impl Share {
    /// The claim of this policy, weight and deadline in milliseconds. An empty name means `fair`,
    /// and 0 that nothing is said.
    pub fn new(policy: &str, weight: u32, deadline_ms: u64) -> Result<Share, NoShare> {
        let named = Policy::ALL.into_iter().find(|it| it.name() == policy);
        let default = policy.is_empty().then_some(Policy::Fair);
        let policy = named.or(default).ok_or_else(|| NoShare::Unknown(policy.into()))?;
        let most = MOST_DEADLINE.as_millis() as u64;
        match policy {
            _ if weight > MOST_WEIGHT => Err(NoShare::Weight(weight)),
            Policy::Fifo | Policy::EarliestDeadline if weight != 0 => {
                Err(NoShare::NotWeighed(policy))
            }
            Policy::EarliestDeadline if !(1..=most).contains(&deadline_ms) => {
                Err(NoShare::Deadline(deadline_ms))
            }
            Policy::Fifo | Policy::Fair if deadline_ms != 0 => Err(NoShare::NotTimed(policy)),
            _ => {
                let weight = if weight == 0 { USUAL_WEIGHT } else { weight };
                Ok(Share { policy, weight, deadline_ms })
            }
        }
    }
}

impl fmt::Display for NoShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoShare::Unknown(name) => {
                write!(f, "no policy is called {name}; there are fair, earliest_deadline and fifo")
            }
            NoShare::Weight(weight) => {
                write!(f, "a weight of {weight}, but it is from 1 to {MOST_WEIGHT}")
            }
            NoShare::NotWeighed(policy) => {
                write!(f, "the policy {} has no weights: only fair has", policy.name())
            }
            NoShare::Deadline(0) => f.write_str("the policy earliest_deadline needs a deadline"),
            NoShare::Deadline(ms) => {
                let most = MOST_DEADLINE.as_secs();
                write!(f, "a deadline in {} s, but it is in at most {most} s", ms / 1000)
            }
            NoShare::NotTimed(policy) => {
                let name = policy.name();
                write!(f, "the policy {name} has no deadlines: only earliest_deadline has")
            }
        }
    }
}

impl core::error::Error for NoShare {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_share_is_checked() {
        assert_eq!(Share::new("", 0, 0), Ok(Share::default()));
        assert_eq!(Share::new("fair", 10_000, 0).map(|it| it.weight), Ok(10_000));
        let dated = Share::new("earliest_deadline", 0, 5000);
        assert_eq!(dated.map(|it| it.deadline_ms), Ok(5000));
        let refused = |policy: &str, weight, deadline| Share::new(policy, weight, deadline).err();
        let unknown = refused("lifo", 0, 0).map(|it| it.to_string()).unwrap_or_default();
        assert!(
            unknown.contains("lifo") && Policy::ALL.iter().all(|it| unknown.contains(it.name()))
        );
        assert_eq!(refused("fair", 10_001, 0), Some(NoShare::Weight(10_001)));
        assert_eq!(refused("fifo", 3, 0), Some(NoShare::NotWeighed(Policy::Fifo)));
        assert_eq!(refused("earliest_deadline", 0, 0), Some(NoShare::Deadline(0)));
        assert_eq!(
            refused("earliest_deadline", 0, 86_400_001),
            Some(NoShare::Deadline(86_400_001))
        );
        assert_eq!(refused("fair", 0, 1), Some(NoShare::NotTimed(Policy::Fair)));
    }
}
