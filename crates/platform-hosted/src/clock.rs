//! The node's time: Linux's monotonic clock, counted from the start of the node. Every process of
//! the node reads the same clock from the same start, so their times agree.

use std::time::Duration;

use nile_abi::Instant;
use rustix::thread::futex::Timespec;
use rustix::time::{ClockId, clock_gettime};

/// Reads node time. Costs no system call where Linux has a vDSO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    /// The start of the node on the monotonic clock.
    start: Duration,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { start: monotonic() }
    }

    /// The clock of a node that started `nanos` nanoseconds into the monotonic clock.
    pub fn started_at(nanos: u64) -> Clock {
        Clock { start: Duration::from_nanos(nanos) }
    }

    /// When the node started, in nanoseconds of the monotonic clock.
    pub fn start_nanos(self) -> u64 {
        nanos(self.start)
    }

    /// Nanoseconds since the start.
    pub fn now(self) -> Instant {
        Instant::from_nanos(nanos(monotonic().saturating_sub(self.start)))
    }

    /// `moment` on the monotonic clock.
    pub fn deadline(self, moment: Instant) -> Timespec {
        timespec(self.start.saturating_add(Duration::from_nanos(moment.as_nanos())))
    }
}

/// `span` as Linux takes it.
fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from the machine's start: it is never negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn nanos(span: Duration) -> u64 {
    // 2^64 nanoseconds are 584 years.
    span.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_handed_to_another_process_tells_the_same_time() {
        let clock = Clock::start();
        let before = clock.now();
        let other = Clock::started_at(clock.start_nanos());
        assert_eq!(other, clock);
        assert!(other.now() >= before);
    }

    #[test]
    fn a_deadline_lies_its_moment_after_the_start() {
        let clock = Clock::started_at(1_999_999_999);
        let deadline = clock.deadline(Instant::from_nanos(3_000_000_001));
        assert_eq!((deadline.tv_sec, deadline.tv_nsec), (5, 0));
        let never = clock.deadline(Instant::from_nanos(u64::MAX));
        assert!(never.tv_sec > 18_446_744_000);
    }
}
