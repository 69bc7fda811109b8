//! Time: the time-stamp counter as nanoseconds since the node's first instruction.
//!
//! The counter's rate is measured once, on the boot core, against a timer whose rate is known,
//! over [`calibrate::WINDOW`], and the local APIC timer's rate with it. The error that the
//! measurement can have is part of the result. The [`Clock`] is plain numbers; each core has a
//! copy.
//!
//! * [`scale`]: one rate as a multiple of another, in fixed point.
//! * [`reference`]: the timers of known rate: HPET, power management timer, PIT.
//! * [`calibrate`]: the measurement.

pub mod calibrate;
pub mod reference;
mod scale;

use core::fmt;
use core::time::Duration;

use nile_abi::Instant;

pub use crate::privileged::read_tsc;
pub use calibrate::{CalibrateError, Measured};
pub use reference::{Hpet, Pit, PmClock, Reference, ReferenceKind};
use scale::Scale;

/// Counter values as time and back. What it says holds within the measurement's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    start: u64,
    nanos_per_tick: Scale,
    ticks_per_nano: Scale,
    timer_per_tick: Scale,
    measured: Measured,
}

impl Clock {
    /// The clock of a node whose first instruction read `start` from the counter.
    pub fn new(start: u64, measured: Measured) -> Clock {
        const NANOS: u64 = 1_000_000_000;
        // Slower by the possible error, so that the timer never comes early: a core that it woke
        // early would only have to arm it again.
        let timer = measured.timer_hertz.unwrap_or(0);
        let timer = timer + Scale::ratio(measured.error_ppm, 1_000_000).of(timer);
        Clock {
            start,
            nanos_per_tick: Scale::ratio(NANOS, measured.tsc_hertz),
            ticks_per_nano: Scale::ratio(measured.tsc_hertz, NANOS),
            timer_per_tick: Scale::ratio(timer, measured.tsc_hertz),
            measured,
        }
    }

    /// The moment when the counter read `tsc`; the start, if that was before it.
    pub fn at(&self, tsc: u64) -> Instant {
        Instant::from_nanos(self.nanos_per_tick.of(tsc.saturating_sub(self.start)))
    }

    /// The present moment.
    pub fn now(&self) -> Instant {
        self.at(read_tsc())
    }

    /// What the counter reads at `moment`, rounded up: by then the moment has come.
    pub fn tsc_at(&self, moment: Instant) -> u64 {
        let ticks = self.ticks_per_nano.of(moment.as_nanos()).saturating_add(1);
        self.start.saturating_add(ticks)
    }

    /// Counter ticks in `span`.
    pub fn ticks_for(&self, span: Duration) -> u64 {
        self.ticks_per_nano.of(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds that `ticks` of the counter take.
    pub fn nanos_for(&self, ticks: u64) -> u64 {
        self.nanos_per_tick.of(ticks)
    }

    /// The core's own timer: what one count takes, and all that it can count.
    pub fn timer_grain(&self) -> (Duration, Duration) {
        let nanos = Duration::from_nanos;
        match self.measured.timer_hertz {
            Some(hertz) => {
                let count = 1_000_000_000_u64.div_ceil(hertz.max(1));
                (nanos(count), nanos(count * u64::from(u32::MAX)))
            }
            None => (nanos(1), Duration::MAX),
        }
    }

    /// Whether the HPET was what it was measured by: then that counts.
    pub fn is_by_hpet(&self) -> bool {
        self.measured.reference == ReferenceKind::Hpet
    }

    /// Local APIC timer ticks that take at least as long as `ticks` of the counter, or what the
    /// timer can count if that is less.
    pub fn timer_ticks(&self, ticks: u64) -> u32 {
        let timer = self.timer_per_tick.of(ticks).saturating_add(1);
        u32::try_from(timer).unwrap_or(u32::MAX)
    }
}

/// One line for the boot report.
impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { reference, tsc_hertz, timer_hertz, error_ppm } = self.measured;
        write!(f, "clock: tsc {}.{:06} MHz", tsc_hertz / 1_000_000, tsc_hertz % 1_000_000)?;
        match timer_hertz {
            Some(hertz) => {
                write!(f, ", apic timer {}.{:06} MHz", hertz / 1_000_000, hertz % 1_000_000)?;
            }
            None => f.write_str(", tsc-deadline timer")?,
        }
        write!(f, ", measured by {} within {error_ppm} ppm", reference.name())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    fn clock(tsc_hertz: u64) -> Clock {
        let measured = Measured {
            reference: ReferenceKind::Hpet,
            tsc_hertz,
            timer_hertz: Some(62_500_000),
            error_ppm: 120,
        };
        Clock::new(1_000, measured)
    }

    #[test]
    fn the_start_is_moment_zero_and_nothing_is_before_it() {
        let clock = clock(2_000_000_000);
        assert_eq!(clock.at(1_000), Instant::START);
        assert_eq!(clock.at(0), Instant::START);
        assert_eq!(clock.at(3_000).as_nanos(), 1_000);
    }

    #[test]
    fn a_day_is_off_by_less_than_50_microseconds_at_any_rate() {
        let day = Duration::from_secs(86_400);
        for hertz in [800_000_000, 2_694_123_457, 5_700_000_001] {
            let clock = clock(hertz);
            let there = clock.at(1_000 + clock.ticks_for(day));
            let off = there.as_nanos().abs_diff(day.as_nanos() as u64);
            assert!(off < 50_000, "{hertz} Hz: {off} ns");
        }
    }

    #[test]
    fn a_deadline_has_come_when_its_tick_has() {
        let clock = clock(2_694_123_457);
        for nanos in [0, 1, 999, 1_000_000, 123_456_789_012] {
            let moment = Instant::from_nanos(nanos);
            assert!(clock.at(clock.tsc_at(moment)) >= moment, "{nanos}");
        }
    }

    #[test]
    fn the_timer_takes_its_possible_error_longer() {
        let second = clock(2_000_000_000).timer_ticks(2_000_000_000);
        assert_eq!(second.saturating_sub(62_500_000) / 100, 75);
    }

    #[test]
    fn the_ends_of_time_saturate() {
        let clock = clock(5_000_000_000);
        assert_eq!(clock.tsc_at(Instant::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(clock.ticks_for(Duration::MAX), u64::MAX);
        assert_eq!(clock.timer_ticks(u64::MAX), u32::MAX);
        assert_eq!(clock.timer_ticks(0), 1);
    }

    #[test]
    fn the_report_states_rate_reference_and_error() {
        let line = clock(2_694_123_457).to_string();
        assert!(line.starts_with("clock: tsc 2694.123457 MHz"), "{line}");
        assert!(line.ends_with("measured by hpet within 120 ppm"), "{line}");
    }
}
