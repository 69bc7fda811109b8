//! Faults of a cable as people write them: `delay 10ms`, `rate 1G`, `loss 0.1%`.

use std::fmt;
use std::time::Duration;

use nile_switch::{Link, Probability, Rate};
use serde::{Deserialize, Serialize};

use crate::nearest::suggestion;

/// One setting of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fault")]
pub enum Fault {
    /// How long a frame takes through the cable.
    Delay { nanoseconds: u64 },
    /// How many bits enter it in a second; none is no limit.
    Rate { bits_per_second: Option<u64> },
    /// How many bytes may wait for the rate.
    Queue { bytes: usize },
    /// How many frames in a million are lost.
    Loss { per_million: u32 },
    /// How many frames in a million come twice.
    Duplicate { per_million: u32 },
    /// How many frames in a million are overtaken.
    Reorder { per_million: u32 },
    /// How many frames in a million are damaged.
    Corrupt { per_million: u32 },
}

/// What a cable can be made to do.
pub const FAULTS: [&str; 7] = ["delay", "rate", "queue", "loss", "duplicate", "reorder", "corrupt"];

const TIMES: &[(&str, u64)] =
    &[("ns", 1), ("µs", 1_000), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const RATES: &[(&str, u64)] = &[
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
];
const SIZES: &[(&str, u64)] = &[("", 1), ("K", 1 << 10), ("M", 1 << 20)];
const CHANCES: &[(&str, u64)] = &[("%", 10_000)];

impl Fault {
    /// Reads the fault `name` with the value `value`. `0` takes any of them away, and so does
    /// `none`. Says what is wrong and what would be right.
    pub fn parse(name: &str, value: &str) -> Result<Fault, String> {
        let none = value == "0" || value == "none";
        let read = |units, example: &str| match none {
            true => Ok(0),
            false => scaled(value, units)
                .ok_or_else(|| format!("`{value}` is no {name}; write it as {example}, or 0")),
        };
        let chance = || match read(CHANCES, "0.1%")? {
            parts @ 0..=1_000_000 => Ok(parts as u32),
            _ => Err(format!("`{value}` is no {name}; it is at most 100%")),
        };
        Ok(match name {
            "delay" => Fault::Delay { nanoseconds: read(TIMES, "10ms")? },
            "rate" => {
                let bits = read(RATES, "1G (bits per second)")?;
                Fault::Rate { bits_per_second: (bits > 0).then_some(bits) }
            }
            "queue" => match none {
                true => Fault::Queue { bytes: Link::QUEUE },
                false => Fault::Queue { bytes: read(SIZES, "256K")? as usize },
            },
            "loss" => Fault::Loss { per_million: chance()? },
            "duplicate" => Fault::Duplicate { per_million: chance()? },
            "reorder" => Fault::Reorder { per_million: chance()? },
            "corrupt" => Fault::Corrupt { per_million: chance()? },
            _ => return Err(format!("no fault `{name}`; {}", suggestion(name, FAULTS))),
        })
    }

    /// Makes the setting in `link`.
    pub fn apply(self, link: &mut Link) {
        match self {
            Fault::Delay { nanoseconds } => link.delay = Duration::from_nanos(nanoseconds),
            Fault::Rate { bits_per_second } => {
                link.rate = bits_per_second.and_then(Rate::bits_per_second);
            }
            Fault::Queue { bytes } => link.queue = bytes,
            Fault::Loss { per_million } => link.loss = Probability::per_million(per_million),
            Fault::Duplicate { per_million } => {
                link.duplicate = Probability::per_million(per_million);
            }
            Fault::Reorder { per_million } => {
                link.reorder = Probability::per_million(per_million);
            }
            Fault::Corrupt { per_million } => {
                link.corrupt = Probability::per_million(per_million);
            }
        }
    }

    /// The settings that make `link` out of a perfect cable.
    pub fn of(link: &Link) -> Vec<Fault> {
        let nanoseconds = u64::try_from(link.delay.as_nanos()).unwrap_or(u64::MAX);
        let per_million = |chance: Probability| chance.as_per_million();
        let all = [
            Fault::Delay { nanoseconds },
            Fault::Rate { bits_per_second: link.rate.map(Rate::as_bits_per_second) },
            Fault::Queue { bytes: link.queue },
            Fault::Loss { per_million: per_million(link.loss) },
            Fault::Duplicate { per_million: per_million(link.duplicate) },
            Fault::Reorder { per_million: per_million(link.reorder) },
            Fault::Corrupt { per_million: per_million(link.corrupt) },
        ];
        let changes = |fault: &Fault| {
            let mut changed = Link::PERFECT;
            fault.apply(&mut changed);
            changed != Link::PERFECT
        };
        all.into_iter().filter(changes).collect()
    }
}

/// Writes the setting as [`Fault::parse`] reads it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chance = |per_million: u32| format!("{}%", f64::from(per_million) / 10_000.0);
        match *self {
            Fault::Delay { nanoseconds } => {
                write!(f, "delay {}", shortest(nanoseconds, TIMES))
            }
            Fault::Rate { bits_per_second: None } => f.write_str("rate none"),
            Fault::Rate { bits_per_second: Some(bits) } => {
                write!(f, "rate {}", shortest(bits, &RATES[1..4]))
            }
            Fault::Queue { bytes } => write!(f, "queue {}", shortest(bytes as u64, SIZES)),
            Fault::Loss { per_million } => write!(f, "loss {}", chance(per_million)),
            Fault::Duplicate { per_million } => write!(f, "duplicate {}", chance(per_million)),
            Fault::Reorder { per_million } => write!(f, "reorder {}", chance(per_million)),
            Fault::Corrupt { per_million } => write!(f, "corrupt {}", chance(per_million)),
        }
    }
}

/// A number with one of `units` behind it, in the smallest unit; `None` if it is not one, or not
/// a whole number of the smallest unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let (_, scale) = units.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value = whole.parse::<u64>().ok()?.checked_mul(*scale)?;
    let mut place = *scale;
    for digit in fraction.chars() {
        let digit = u64::from(digit.to_digit(10)?);
        if digit > 0 && !place.is_multiple_of(10) {
            return None;
        }
        place /= 10;
        value = value.checked_add(digit * place)?;
    }
    // `parse` takes a sign.
    (!text.starts_with('+')).then_some(value)
}

/// `value` in the largest of `units` in which it is a whole number.
fn shortest(value: u64, units: &[(&str, u64)]) -> String {
    let whole = |scale: u64| value > 0 && value.is_multiple_of(scale);
    match units.iter().rev().find(|(_, scale)| whole(*scale)) {
        Some((unit, scale)) => format!("{}{unit}", value / scale),
        // A rate below a thousand; its smallest unit has no name here.
        None if value > 0 => format!("{}{}", value as f64 / units[0].1 as f64, units[0].0),
        None => "0".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_people_write_them() {
        let delay = |nanoseconds| Fault::Delay { nanoseconds };
        let rate = |bits| Fault::Rate { bits_per_second: Some(bits) };
        for (name, value, fault) in [
            ("delay", "10ms", delay(10_000_000)),
            ("delay", "2.5us", delay(2_500)),
            ("delay", "1s", delay(1_000_000_000)),
            ("delay", "0", delay(0)),
            ("rate", "1G", rate(1_000_000_000)),
            ("rate", "2.5M", rate(2_500_000)),
            ("rate", "64kbit", rate(64_000)),
            ("rate", "none", Fault::Rate { bits_per_second: None }),
            ("queue", "64K", Fault::Queue { bytes: 65_536 }),
            ("loss", "0.1%", Fault::Loss { per_million: 1_000 }),
            ("corrupt", "0.0001%", Fault::Corrupt { per_million: 1 }),
            ("duplicate", "100%", Fault::Duplicate { per_million: 1_000_000 }),
            ("reorder", "0", Fault::Reorder { per_million: 0 }),
        ] {
            assert_eq!(Fault::parse(name, value), Ok(fault), "{name} {value}");
        }
    }

    #[test]
    fn wrong_values_are_refused_with_an_example() {
        for (name, value, said) in [
            ("delay", "10", "`10` is no delay; write it as 10ms, or 0"),
            ("delay", "-1ms", "`-1ms` is no delay; write it as 10ms, or 0"),
            ("delay", "0.5ns", "`0.5ns` is no delay; write it as 10ms, or 0"),
            ("delay", "99999999999999s", "write it as 10ms"),
            ("rate", "fast", "`fast` is no rate; write it as 1G (bits per second), or 0"),
            ("loss", "0.001", "`0.001` is no loss; write it as 0.1%, or 0"),
            ("loss", "101%", "`101%` is no loss; it is at most 100%"),
            ("loss", "0.00001%", "write it as 0.1%"),
            ("loss", "+1%", "write it as 0.1%"),
            ("loss", "1.2.3%", "write it as 0.1%"),
            ("los", "1%", "no fault `los`; did you mean `loss`?"),
        ] {
            let error = Fault::parse(name, value).unwrap_err();
            assert!(error.contains(said), "{name} {value}: {error}");
        }
    }

    #[test]
    fn settings_are_said_as_they_are_read() {
        let mut link = Link::PERFECT;
        assert_eq!(Fault::of(&link), []);
        let lines = ["delay 1500us", "rate 10G", "queue 3K", "loss 0.1%", "corrupt 0.0001%"];
        for line in lines {
            let (name, value) = line.split_once(' ').unwrap();
            Fault::parse(name, value).unwrap().apply(&mut link);
        }
        let said: Vec<String> = Fault::of(&link).iter().map(Fault::to_string).collect();
        assert_eq!(said, lines);
        let slow = Fault::Rate { bits_per_second: Some(500) };
        assert_eq!(Fault::parse("rate", "0.5K"), Ok(slow));
        assert_eq!(slow.to_string(), "rate 0.5K");
    }
}
