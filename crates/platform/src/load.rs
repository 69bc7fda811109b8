//! How busy a core is: the share of its last second or so in which it had something to do.
//!
//! The core says when it begins to idle and when it is busy again; an average that forgets what is
//! long past is all that is kept, so whoever asks gets the same answer whoever else asks.

use nile_abi::Instant;

/// All of a core's time, in the unit of a share: small enough that what a division drops does not
/// add up over many short spans.
const WHOLE: u64 = 100_000_000;

/// Nanoseconds in one state after which half of the average is of it.
const HALF: u64 = 1_000_000_000;

/// Nanoseconds of a state that count; more would not fit, and change little.
const LONGEST: u64 = 60 * HALF;

/// The share of a core's time in which it was busy, as of a moment, and what it does since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    pub(crate) since: Instant,
    pub(crate) share: u64,
    pub(crate) is_idle: bool,
}

impl Load {
    /// A core that begins to work.
    pub fn starting(now: Instant) -> Load {
        Load { since: now, share: 0, is_idle: false }
    }

    /// The share as of `now`, in percent.
    pub fn percent(self, now: Instant) -> u64 {
        (self.share(now) + WHOLE / 200) * 100 / WHOLE
    }

    fn share(self, now: Instant) -> u64 {
        let target = if self.is_idle { 0 } else { WHOLE };
        let span = now.as_nanos().saturating_sub(self.since.as_nanos()).min(LONGEST);
        // For spans that are short this is what an exponential average gives.
        (self.share.min(WHOLE) * HALF + target * span) / (span + HALF)
    }

    /// The same core, which is idle or busy from `now` on.
    pub fn turned(self, is_idle: bool, now: Instant) -> Load {
        Load { since: now, share: self.share(now), is_idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// The percent of a core that is busy for `busy` tenths of each span, after ten seconds.
    fn steady(busy: u64, span: u64) -> u64 {
        let mut load = Load::starting(at(0));
        for begin in (0..10 * HALF).step_by(span as usize) {
            load = load.turned(true, at(begin + busy * span / 10)).turned(false, at(begin + span));
        }
        load.percent(at(10 * HALF))
    }

    #[test]
    fn a_steady_share_is_found() {
        for busy in [0, 1, 5, 9, 10] {
            for span in [10_000, 10_000_000] {
                let percent = steady(busy, span);
                assert!(percent.abs_diff(busy * 10) <= 1, "{busy} tenths of {span} ns: {percent}");
            }
        }
    }

    #[test]
    fn a_long_state_becomes_the_whole() {
        let busy = Load::starting(at(0));
        assert_eq!(busy.percent(at(1_000 * HALF)), 98);
        let idle = busy.turned(true, at(1_000 * HALF));
        assert_eq!(idle.percent(at(2_000 * HALF)), 2);
        assert_eq!(idle.percent(at(1)), 98, "a clock that is behind takes nothing away");
    }

    #[test]
    fn any_words_are_a_load() {
        for (since, share, is_idle) in [(u64::MAX, u64::MAX, true), (0, u64::MAX, false)] {
            let load = Load { since: at(since), share, is_idle };
            assert!(load.percent(at(u64::MAX)) <= 100);
            assert!(load.percent(at(0)) <= 100);
        }
    }
}
