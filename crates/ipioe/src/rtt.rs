//! How long a round trip takes, and so how long to wait for an answer (RFC 6298, in nanoseconds).

use core::time::Duration;

use crate::settings::{FIRST_RETRY, LEAST_RETRY, MOST_RETRY};

/// An estimate for one peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    /// The smoothed round trip and its deviation, once there is a sample.
    estimate: Option<(u64, u64)>,
}

impl Rtt {
    /// A request that was sent once was answered after so long.
    pub fn sample(&mut self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(1 << 40);
        self.estimate = Some(match self.estimate {
            None => (took, took / 2),
            Some((mean, deviation)) => {
                ((7 * mean + took) / 8, (3 * deviation + mean.abs_diff(took)) / 4)
            }
        });
    }

    /// The smoothed round trip, if there was one.
    pub fn mean(&self) -> Option<Duration> {
        self.estimate.map(|(mean, _)| Duration::from_nanos(mean))
    }

    /// How long to wait before the first retransmission.
    pub fn patience(&self) -> Duration {
        match self.estimate {
            None => FIRST_RETRY,
            Some((mean, deviation)) => {
                Duration::from_nanos(mean + 4 * deviation).clamp(LEAST_RETRY, MOST_RETRY)
            }
        }
    }
}

/// The wait after so many tries: twice as long each time, up to `most`, a quarter more or less by
/// chance so that those who wait together do not return together.
pub fn back_off(first: Duration, tries: u32, most: Duration, random: u64) -> Duration {
    let wait = first.saturating_mul(1 << tries.min(16)).min(most);
    let percent = 75 + (random % 51) as u32;
    wait / 100 * percent
}

/// Numbers that spread retransmissions; predicting them harms nobody (splitmix64).
#[derive(Clone, Debug)]
pub struct Jitter(pub u64);

impl Jitter {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_than_round_trips_take() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.patience(), FIRST_RETRY);
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(10));
        }
        let patience = rtt.patience();
        assert!(patience >= Duration::from_millis(10) && patience < Duration::from_millis(12));
        rtt.sample(Duration::from_millis(30));
        assert!(rtt.patience() > Duration::from_millis(25), "{:?}", rtt.patience());
        rtt.sample(Duration::MAX);
        assert_eq!(rtt.patience(), MOST_RETRY);
    }

    #[test]
    fn backs_off_and_spreads() {
        let wait = |tries, random| back_off(FIRST_RETRY, tries, MOST_RETRY, random);
        assert_eq!(wait(0, 0), FIRST_RETRY * 3 / 4);
        assert_eq!(wait(1, 50), FIRST_RETRY * 5 / 2);
        assert_eq!(wait(100, 25), MOST_RETRY);
    }
}
