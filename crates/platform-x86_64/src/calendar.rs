//! What day it is: the clock that every PC keeps while it is off (the MC146818 and its heirs).
//! It is read once, on the boot path; its two ports are an index and a window, which two cores
//! must not use at once.
//!
//! The clock is taken to show universal time, in a year from 2000 to 2099.

use core::time::Duration;

use crate::privileged;

const INDEX: u16 = 0x70;
const WINDOW: u16 = 0x71;

/// Seconds, minutes, hours, day, month, year.
const FIELDS: [u8; 6] = [0x00, 0x02, 0x04, 0x07, 0x08, 0x09];
const HOURS: usize = 2;
const STATUS_A: u8 = 0x0a;
const STATUS_B: u8 = 0x0b;
const UPDATING: u8 = 1 << 7;
const BINARY: u8 = 1 << 2;
const HOURS_TO_24: u8 = 1 << 1;
const AFTERNOON: u8 = 1 << 7;

/// Looks at a clock that updates itself; that takes 2 ms at most, and a look about 1 µs.
const MAX_LOOKS: usize = 10_000;

/// Readings before a clock that never says the same twice is taken for broken.
const MAX_READINGS: usize = 8;

/// The time since 1970, to the second; `None` without a clock that can be right. Waits for as
/// long as the clock updates itself, 2 ms at most.
pub fn read() -> Option<Duration> {
    // SAFETY: these are the clock's ports on every PC, and only the boot core uses them. Reading
    // its time changes nothing; bit 7 of the index, which masks NMIs, stays clear.
    read_from(|register| unsafe {
        privileged::out8(INDEX, register);
        privileged::in8(WINDOW)
    })
}

/// The same from any registers.
fn read_from(mut register: impl FnMut(u8) -> u8) -> Option<Duration> {
    let mut last = None;
    for _ in 0..MAX_READINGS {
        // An update may begin between this look and the end of the reading: so the clock must
        // say the same twice.
        (0..MAX_LOOKS).find(|_| register(STATUS_A) & UPDATING == 0)?;
        let fields = FIELDS.map(&mut register);
        let read = (fields, register(STATUS_B));
        if last == Some(read) {
            return time_of(fields, read.1);
        }
        last = Some(read);
    }
    None
}

/// The time that the registers say, if there is such a time.
fn time_of(mut fields: [u8; 6], status: u8) -> Option<Duration> {
    let afternoon = status & HOURS_TO_24 == 0 && fields[HOURS] & AFTERNOON != 0;
    if status & HOURS_TO_24 == 0 {
        fields[HOURS] &= !AFTERNOON;
    }
    if status & BINARY == 0 {
        for field in &mut fields {
            let (tens, ones) = (*field >> 4, *field & 0xf);
            *field = (tens <= 9 && ones <= 9).then_some(tens * 10 + ones)?;
        }
    }
    let [seconds, minutes, mut hours, day, month, year] = fields;
    if status & HOURS_TO_24 == 0 {
        // Midnight and noon are 12.
        hours = (1..=12).contains(&hours).then_some(hours % 12 + if afternoon { 12 } else { 0 })?;
    }
    let possible = seconds < 60 && minutes < 60 && hours < 24 && year < 100;
    let days = days_since_1970(2000 + u64::from(year), month, day).filter(|_| possible)?;
    let hours = days * 24 + u64::from(hours);
    Some(Duration::from_secs((hours * 60 + u64::from(minutes)) * 60 + u64::from(seconds)))
}

fn days_since_1970(year: u64, month: u8, day: u8) -> Option<u64> {
    // In these years every fourth is a leap year, with no exception.
    let leap = u8::from(year.is_multiple_of(4));
    let months = [31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = months.get(..usize::from(month).checked_sub(1)?)?;
    let length = months.get(before.len())?;
    if !(1..=*length).contains(&day) {
        return None;
    }
    let leap_days = (year - 1).div_euclid(4) - 1969 / 4;
    let whole_years = (year - 1970) * 365 + leap_days;
    let whole_months = before.iter().map(|days| u64::from(*days)).sum::<u64>();
    Some(whole_years + whole_months + u64::from(day) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `date -u -d "2026-11-21 17:59:01" +%s`
    const SOME_DAY: Duration = Duration::from_secs(1_795_283_941);
    const BCD: [u8; 6] = [0x01, 0x59, 0x17, 0x21, 0x11, 0x26];

    #[test]
    fn every_form_says_the_same_time() {
        assert_eq!(time_of(BCD, HOURS_TO_24), Some(SOME_DAY));
        assert_eq!(time_of([1, 59, 17, 21, 11, 26], HOURS_TO_24 | BINARY), Some(SOME_DAY));
        let mut by_twelve = BCD;
        by_twelve[HOURS] = 0x05 | AFTERNOON;
        assert_eq!(time_of(by_twelve, 0), Some(SOME_DAY));
        assert_eq!(time_of([1, 59, 5 | AFTERNOON, 21, 11, 26], BINARY), Some(SOME_DAY));
    }

    #[test]
    fn midnight_and_noon_are_twelve() {
        let hour = |hours| {
            let time = time_of([0, 0, hours, 1, 1, 0], BINARY)?;
            Some(time.as_secs() - 946_684_800)
        };
        assert_eq!(hour(12), Some(0));
        assert_eq!(hour(12 | AFTERNOON), Some(12 * 3600));
        assert_eq!(hour(11 | AFTERNOON), Some(23 * 3600));
        assert_eq!(hour(0), None);
    }

    #[test]
    fn leap_days_are_days() {
        let day = |year, month, day| days_since_1970(year, month, day);
        assert_eq!(day(2000, 1, 1), Some(10_957));
        assert_eq!(day(2024, 2, 29).zip(day(2024, 3, 1)), Some((19_782, 19_783)));
        assert_eq!(day(2099, 12, 31), Some(47_481));
        for impossible in [(2023, 2, 29), (2024, 4, 31), (2024, 13, 1), (2024, 0, 1), (2024, 1, 0)]
        {
            assert_eq!(day(impossible.0, impossible.1, impossible.2), None, "{impossible:?}");
        }
    }

    #[test]
    fn nothing_where_there_is_no_clock() {
        assert_eq!(read_from(|_| 0xff), None, "it never ends its update");
        let absent_but_for_status = |at| if at == STATUS_A { 0 } else { 0xff };
        assert_eq!(read_from(absent_but_for_status), None);
        assert_eq!(time_of([0x1a, 0, 0, 1, 1, 0], HOURS_TO_24), None, "no decimal digit");
    }

    /// The clock's registers, by the index that the ports take.
    fn at(fields: [u8; 6], register: u8) -> u8 {
        let field = FIELDS.iter().position(|field| *field == register);
        field.map_or(if register == STATUS_B { HOURS_TO_24 } else { 0 }, |field| fields[field])
    }

    #[test]
    fn an_update_in_the_middle_of_a_reading_is_noticed() {
        // 23:59:59 on the last day of the year; after the minutes were read once, it is over.
        let (old, new) = ([0x59, 0x59, 0x23, 0x31, 0x12, 0x25], [0, 0, 0, 1, 1, 0x26]);
        let mut reads = 0;
        let time = read_from(|register| {
            reads += 1;
            at(if reads <= 3 { old } else { new }, register)
        });
        assert_eq!(time, time_of(new, HOURS_TO_24));
    }

    #[test]
    fn a_clock_is_not_read_while_it_updates_itself() {
        let mut looks = 0;
        let time = read_from(|register| {
            looks += u32::from(register == STATUS_A);
            match register {
                STATUS_A if looks < 50 => UPDATING,
                STATUS_A => 0,
                _ if looks < 50 => panic!("read too early"),
                other => at(BCD, other),
            }
        });
        assert_eq!(time, Some(SOME_DAY));
    }

    #[test]
    fn a_clock_that_never_stands_is_given_up() {
        let mut seconds = 0;
        let time = read_from(|register| {
            seconds = (seconds + 1) % 9;
            at([seconds, 0, 0, 1, 1, 0], register)
        });
        assert_eq!(time, None);
    }
}
