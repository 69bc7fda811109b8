//! Measures the time-stamp counter, and the local APIC's timer, against a reference.
//!
//! A reading of the reference takes time itself, so the counter is read before and after it, and
//! of several such readings the narrowest is taken: the true value lies somewhere in its width.
//! The widths at both ends and the reference's own grain bound the error.

use super::reference::{Hpet, Pit, PmClock, Reference, ReferenceKind};
use crate::acpi::PmTimer;
use crate::apic::LocalApic;
use crate::mmio::Mmio;
use crate::privileged::read_tsc;

/// Microseconds between the two ends of the measurement.
pub const WINDOW_MICROS: u64 = 4_000;

/// Readings at each end, of which the narrowest counts.
const READINGS: usize = 8;

/// Counter ticks after which a reference that has not reached the window's end is given up:
/// more than the window at any rate there is, and less than a fifth of a second.
const PATIENCE: u64 = 100_000_000;

/// What a calibration found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The reference.
    pub reference: ReferenceKind,
    /// Counts of the time-stamp counter in a second.
    pub tsc_hertz: u64,
    /// Counts of the local APIC's timer in a second, where that timer is used.
    pub timer_hertz: Option<u64>,
    /// How far the rates can be off, beside the reference's own error.
    pub error_ppm: u64,
}

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CalibrateError {
    /// The reference does not count, or far too slowly.
    ReferenceStands,
    /// The counters did not count while the reference did.
    CounterStands,
}

/// Measures against the best reference that the machine has and that counts: the HPET whose
/// registers these are, the power management timer, the PIT. Waits as [`measure`] does.
pub fn measure_by_best(
    hpet: Option<Mmio>,
    pm_timer: Option<PmTimer>,
    timer: Option<&LocalApic>,
) -> Result<Measured, CalibrateError> {
    let by_hpet = hpet.and_then(Hpet::start).and_then(|hpet| measure(&hpet, timer).ok());
    by_hpet
        .or_else(|| measure(&PmClock(pm_timer?), timer).ok())
        .map_or_else(|| measure(&Pit::start(), timer), Ok)
}

/// Measures for [`WINDOW_MICROS`]. The local APIC's timer is measured where `timer` is given and
/// counts by itself; it must be enabled, and is stopped afterwards. Waits, interrupts masked.
pub fn measure(
    reference: &dyn Reference,
    timer: Option<&LocalApic>,
) -> Result<Measured, CalibrateError> {
    let timer = timer.filter(|timer| !timer.has_tsc_deadline());
    if let Some(timer) = timer {
        timer.timer_start(u32::MAX);
    }
    let read_reference = || reference.read();
    let read_timer = || timer.map_or(0, |timer| timer.timer_left());
    let first = (Reading::narrowest(&read_reference), Reading::narrowest(&read_timer));
    wait(reference, first.0.value)?;
    let last = (Reading::narrowest(&read_reference), Reading::narrowest(&read_timer));
    if let Some(timer) = timer {
        timer.timer_stop();
    }

    let counts = last.0.value.wrapping_sub(first.0.value) & reference.last_count();
    let tsc_hertz = rate(last.0.tsc.wrapping_sub(first.0.tsc), nanos_of(reference, counts))?;
    let mut error_ppm = blur_ppm(&first.0, &last.0, counts);
    let mut timer_hertz = None;
    if timer.is_some() {
        // It counts down, and is compared with the time-stamp counter at its own two readings.
        let counts = first.1.value.wrapping_sub(last.1.value);
        let span = last.1.tsc.wrapping_sub(first.1.tsc);
        timer_hertz = Some(scaled(counts.into(), tsc_hertz, span)?);
        error_ppm = error_ppm.max(blur_ppm(&first.1, &last.1, counts));
    }
    Ok(Measured { reference: reference.kind(), tsc_hertz, timer_hertz, error_ppm })
}

/// How far a rate can be off that was taken from `counts` between these two readings.
fn blur_ppm(first: &Reading, last: &Reading, counts: u32) -> u64 {
    const MILLION: u64 = 1_000_000;
    let span = last.tsc.wrapping_sub(first.tsc).max(1);
    // The true moments lie in the readings' widths, half to either side, and one count is the
    // grain; rounded up.
    (first.width + last.width) / 2 * MILLION / span + MILLION / u64::from(counts.max(1)) + 1
}

/// Waits until the reference is the window away from `from`.
fn wait(reference: &dyn Reference, from: u32) -> Result<(), CalibrateError> {
    let begun = read_tsc();
    loop {
        // Looked at first: this core may be held up between the two.
        let waited = read_tsc().wrapping_sub(begun);
        let counts = reference.read().wrapping_sub(from) & reference.last_count();
        if nanos_of(reference, counts) >= WINDOW_MICROS * 1_000 {
            return Ok(());
        }
        if waited > PATIENCE {
            return Err(CalibrateError::ReferenceStands);
        }
    }
}

fn nanos_of(reference: &dyn Reference, counts: u32) -> u64 {
    const FEMTOS_PER_NANO: u128 = 1_000_000;
    (u128::from(counts) * u128::from(reference.femtos_per_count()) / FEMTOS_PER_NANO) as u64
}

/// `counts` in `nanos` as counts in a second.
fn rate(counts: u64, nanos: u64) -> Result<u64, CalibrateError> {
    scaled(counts, 1_000_000_000, nanos)
}

/// `counts` of something whose `unit` is `per`; an error if that is nothing or not a number.
fn scaled(counts: u64, unit: u64, per: u64) -> Result<u64, CalibrateError> {
    let product = u128::from(counts) * u128::from(unit);
    let result = product.checked_div(per.into()).unwrap_or(0);
    u64::try_from(result).ok().filter(|result| *result != 0).ok_or(CalibrateError::CounterStands)
}

/// A value, and when in terms of the time-stamp counter it was read.
struct Reading {
    value: u32,
    tsc: u64,
    width: u64,
}

impl Reading {
    // One piece of code for all readings: under an emulator, code is slow where it first runs.
    #[inline(never)]
    fn take(read: &dyn Fn() -> u32) -> Reading {
        let before = read_tsc();
        let value = read();
        let width = read_tsc().wrapping_sub(before);
        Reading { value, tsc: before.wrapping_add(width / 2), width }
    }

    fn narrowest(read: &dyn Fn() -> u32) -> Reading {
        let first = Reading::take(read);
        (1..READINGS)
            .map(|_| Reading::take(read))
            .fold(first, |best, next| if next.width < best.width { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::time::Instant;

    /// The test machine's own clock as a reference of 1 MHz.
    struct HostClock(Instant);

    impl Reference for HostClock {
        fn kind(&self) -> ReferenceKind {
            ReferenceKind::Pit
        }

        fn femtos_per_count(&self) -> u64 {
            1_000_000_000
        }

        fn last_count(&self) -> u32 {
            u32::MAX
        }

        fn read(&self) -> u32 {
            self.0.elapsed().as_micros() as u32
        }
    }

    struct Standing;

    impl Reference for Standing {
        fn kind(&self) -> ReferenceKind {
            ReferenceKind::Pit
        }

        fn femtos_per_count(&self) -> u64 {
            1
        }

        fn last_count(&self) -> u32 {
            u32::MAX
        }

        fn read(&self) -> u32 {
            7
        }
    }

    #[test]
    fn two_measurements_agree_within_what_they_state() {
        let reference = HostClock(Instant::now());
        let measured = [(); 2].map(|()| measure(&reference, None).expect("the clock counts"));
        let [a, b] = measured;
        let off = a.tsc_hertz.abs_diff(b.tsc_hertz) * 1_000_000 / a.tsc_hertz;
        assert!(off <= a.error_ppm + b.error_ppm, "{a:?} {b:?}");
        assert_eq!((a.reference, a.timer_hertz), (ReferenceKind::Pit, None));
    }

    #[test]
    fn a_reference_that_stands_is_given_up() {
        assert_eq!(measure(&Standing, None), Err(CalibrateError::ReferenceStands));
    }
}
