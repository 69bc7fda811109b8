//! How a job shares the workers of a cluster with other jobs: by which policy, and with what.

use core::fmt;
use core::time::Duration;

use nile_stl_macros::Record;

/// The weight of a job of which nothing is said.
pub const USUAL_WEIGHT: u32 = 100;

/// The most that a job weighs.
pub const MOST_WEIGHT: u32 = 10_000;

/// The longest time until a job's deadline.
pub const MOST_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// A job's claim to workers: by which policy one that is free is given to one of several jobs.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Share {
    /// Who has had the least time of it for its weight.
    Fair {
        /// What it weighs, from 1 to [`MOST_WEIGHT`].
        weight: u32,
    },
    /// Who is to be done first; before all jobs without a deadline.
    EarliestDeadline {
        /// How long after its master has begun it is to be done, in milliseconds.
        deadline_ms: u64,
    },
    /// Who came first, and only it, of those that say so; behind all others.
    Fifo,
}

impl Default for Share {
    fn default() -> Share {
        Share::Fair { weight: USUAL_WEIGHT }
    }
}

/// Why a claim is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoShare {
    /// The weight is out of bounds.
    Weight(u32),
    /// The deadline is at once, or too far away.
    Deadline(u64),
}

impl Share {
    /// Itself, if it can be claimed.
    pub fn checked(self) -> Result<Share, NoShare> {
        let most = MOST_DEADLINE.as_millis() as u64;
        match self {
            Share::Fair { weight } if !(1..=MOST_WEIGHT).contains(&weight) => {
                Err(NoShare::Weight(weight))
            }
            Share::EarliestDeadline { deadline_ms } if !(1..=most).contains(&deadline_ms) => {
                Err(NoShare::Deadline(deadline_ms))
            }
            _ => Ok(self),
        }
    }
}

impl fmt::Display for NoShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoShare::Weight(weight) => {
                write!(f, "a weight of {weight}, but it is from 1 to {MOST_WEIGHT}")
            }
            NoShare::Deadline(0) => f.write_str("the policy earliest_deadline needs a deadline"),
            NoShare::Deadline(ms) => {
                let most = MOST_DEADLINE.as_secs();
                write!(f, "a deadline in {} s, but it is in at most {most} s", ms / 1000)
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
        for good in [Share::default(), Share::Fair { weight: MOST_WEIGHT }, Share::Fifo] {
            assert_eq!(good.checked(), Ok(good));
        }
        for weight in [0, 10_001] {
            assert_eq!(Share::Fair { weight }.checked(), Err(NoShare::Weight(weight)));
        }
        let dated = |deadline_ms| Share::EarliestDeadline { deadline_ms };
        assert_eq!(dated(86_400_000).checked(), Ok(dated(86_400_000)));
        for deadline in [0, 86_400_001] {
            assert_eq!(dated(deadline).checked(), Err(NoShare::Deadline(deadline)));
        }
        let text = NoShare::Deadline(0).to_string();
        assert!(text.contains("needs a deadline"), "{text}");
    }
}
