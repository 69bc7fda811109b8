//! How those that want the same thing share it: a rate for each, and turns for all that wait.
//! Without IO or clock: sizes and moments go in, decisions come out.
//!
//! * [`Bucket`]: a token bucket, which keeps one to a rate with bursts.
//! * [`Rounds`]: deficit round robin, which gives each that waits as much as its weight says,
//!   however much others want.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;
use nile_domain::Limit;

/// A token bucket: it fills at a rate until it holds a burst, and is full at first. All that it
/// keeps is when it will be full again (the *generic cell rate algorithm*), so a rate or a burst
/// that changes holds at once.
#[derive(Clone, Copy, Default, Debug)]
pub struct Bucket {
    full: Option<Instant>,
}

impl Bucket {
    /// Takes so many bytes out at a moment, if they are there; whether they were.
    pub fn take(&mut self, limit: Limit, now: Instant, bytes: u64) -> bool {
        let Some(rate) = limit.rate else {
            self.full = None;
            return true;
        };
        let span = |bytes: u64| {
            let nanos = bytes.saturating_mul(1_000_000_000).div_ceil(rate.get());
            Duration::from_nanos(nanos)
        };
        let missing = self.full.map_or(Duration::ZERO, |full| full.since(now));
        let (most, after) = (span(limit.burst), missing + span(bytes));
        let is_there = after <= most;
        // What a larger burst had left missing is nobody's debt for ever.
        self.full = Some(now + if is_there { after } else { missing.min(most) });
        is_there
    }
}

/// What came of somebody's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// This much of what is shared was used.
    Used(u64),
    /// There was nothing to do.
    Nothing,
    /// Others have to wait, as there is no more to share now. The turn goes on next time.
    Enough,
}

/// Deficit round robin: everybody's turn gives [`Rounds::QUANTUM`] times its weight to use, and
/// what one has used too much is missing in its next turn.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// What each may still use.
    credits: Vec<i64>,
    turn: usize,
    /// Whether the one whose turn it is has got what that gives.
    is_begun: bool,
}

impl Rounds {
    /// What a turn gives for each unit of weight.
    pub const QUANTUM: u64 = 4096;

    /// Rounds of so many.
    pub fn new(count: usize) -> Rounds {
        Rounds { credits: vec![0; count], turn: 0, is_begun: false }
    }

    /// Goes on with the rounds, until nobody has anything to do, or there is no more to share.
    pub fn run(&mut self, weight: impl Fn(usize) -> u64, mut serve: impl FnMut(usize) -> Served) {
        let mut idle = 0;
        while idle < self.credits.len() {
            let credit = &mut self.credits[self.turn];
            if !self.is_begun {
                *credit += (weight(self.turn) * Rounds::QUANTUM) as i64;
                self.is_begun = true;
            }
            if *credit <= 0 {
                idle = 0;
            } else {
                match serve(self.turn) {
                    Served::Enough => return,
                    Served::Used(much) => {
                        *credit -= much as i64;
                        idle = 0;
                        continue;
                    }
                    // Who does not wait saves nothing.
                    Served::Nothing => {
                        *credit = 0;
                        idle += 1;
                    }
                }
            }
            self.turn = (self.turn + 1) % self.credits.len();
            self.is_begun = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU64;

    use proptest::prelude::*;

    use super::*;

    fn limit(rate: u64, burst: u64) -> Limit {
        Limit { rate: NonZeroU64::new(rate), burst, weight: 1 }
    }

    proptest! {
        /// In any span, no more than a burst and what the rate gives; and what a naive bucket has.
        #[test]
        fn a_bucket_gives_what_a_naive_one_does(
            rate in 1_000..100_000_000_u64,
            burst in 2_048..100_000_u64,
            wanted in prop::collection::vec((0..20_000_000_u64, 1..2_048_u64), 1..200),
        ) {
            let limit = limit(rate, burst);
            let mut bucket = Bucket::default();
            let (mut now, mut level) = (Instant::START, burst as f64);
            let mut given: Vec<(Instant, u64)> = Vec::new();
            for (nanos, bytes) in wanted {
                now = now + Duration::from_nanos(nanos);
                level = (level + rate as f64 * nanos as f64 / 1e9).min(burst as f64);
                let is_given = bucket.take(limit, now, bytes);
                // A nanosecond is a rounding apart for each that was taken.
                let slack = (given.len() + 2) as f64 * rate as f64 / 1e9 + 1.0;
                if is_given {
                    prop_assert!(level + slack >= bytes as f64, "{level} {bytes}");
                    level -= bytes as f64;
                    given.push((now, bytes));
                } else {
                    prop_assert!(level - slack < bytes as f64, "{level} {bytes}");
                }
                let mut sum = 0;
                for (at, bytes) in given.iter().rev() {
                    sum += bytes;
                    let most = burst as f64 + rate as f64 * now.since(*at).as_secs_f64();
                    prop_assert!(sum as f64 <= most + 1.0, "{sum} since {at:?}, at most {most}");
                }
            }
        }

        /// Whoever always waits gets as much as its weight says beside each other, however large
        /// what it wants is, and however little there is to share at a time.
        #[test]
        fn rounds_are_fair_to_all_that_wait(
            all in prop::collection::vec((1..=100_u64, 1..=Rounds::QUANTUM), 2..8),
            budgets in prop::collection::vec(1..50_u32, 50..100),
        ) {
            let mut rounds = Rounds::new(all.len());
            let mut used = vec![0_u64; all.len()];
            for mut budget in budgets {
                rounds.run(|who| all[who].0, |who| {
                    if budget == 0 {
                        return Served::Enough;
                    }
                    budget -= 1;
                    used[who] += all[who].1;
                    Served::Used(all[who].1)
                });
                let turns = |who: usize| used[who] as f64 / all[who].0 as f64;
                let turns: Vec<f64> = (0..all.len()).map(turns).collect();
                let most = turns.iter().copied().fold(0.0, f64::max);
                let least = turns.iter().copied().fold(f64::MAX, f64::min);
                // A turn, and what one may use too much in it.
                prop_assert!(most - least <= 2.0 * Rounds::QUANTUM as f64, "{turns:?}");
            }
        }

        /// All that there is gets done, each by who has it.
        #[test]
        fn rounds_end_when_nobody_has_anything(
            mut left in prop::collection::vec(0..200_u64, 0..6),
        ) {
            let wanted = left.clone();
            let mut done = vec![0; left.len()];
            Rounds::new(left.len()).run(|_| 1, |who| match left[who] {
                0 => Served::Nothing,
                _ => {
                    left[who] -= 1;
                    done[who] += 1;
                    Served::Used(1 << 20)
                }
            });
            prop_assert_eq!(done, wanted);
        }
    }

    #[test]
    fn a_bucket_follows_its_limit() {
        let mut bucket = Bucket::default();
        let second = |seconds| Instant::START + Duration::from_secs(seconds);
        assert!(bucket.take(limit(1, 1 << 30), second(0), 1 << 30));
        assert!(!bucket.take(limit(1, 1 << 30), second(0), 1));
        // What was taken of a large burst is missing no longer than a small one takes.
        assert!(!bucket.take(limit(1000, 4000), second(0), 1));
        assert!(!bucket.take(limit(1000, 4000), second(3), 4000));
        assert!(bucket.take(limit(1000, 4000), second(4), 4000));
        // Without a rate there is nothing to be missing.
        assert!(bucket.take(limit(0, 4000), second(4), u64::MAX));
        assert!(bucket.take(limit(1000, 4000), second(4), 4000));
    }
}
