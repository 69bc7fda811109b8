//! Amounts of memory, as people write them.

use std::fmt;
use std::str::FromStr;

const UNITS: [(char, u32); 6] = [('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50), ('E', 60)];

/// An amount of memory in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `count` MiB.
    pub const fn mebi(count: u64) -> Bytes {
        Bytes(count << 20)
    }
}

/// Reads `512M`, `4G`, `4GiB`: a whole number and a binary unit, which may not be left out, since
/// tools disagree on what a bare number means.
impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let wrong = || format!("`{text}` is not a size; write a number and K, M, G or T, as 512M");
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let mut unit = text[digits.len()..].chars();
        let letter = unit.next().ok_or_else(wrong)?.to_ascii_uppercase();
        let (_, shift) = UNITS.into_iter().find(|(name, _)| *name == letter).ok_or_else(wrong)?;
        if !["", "B", "iB"].contains(&unit.as_str()) {
            return Err(wrong());
        }
        match number.checked_shl(shift).filter(|bytes| bytes >> shift == number) {
            Some(bytes) => Ok(Bytes(bytes)),
            None => Err(format!("`{text}` is more than a 64-bit machine can address")),
        }
    }
}

/// Writes the amount with the largest unit that leaves at least one, to a tenth.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.into_iter().rev().find(|(_, shift)| self.0 >> shift > 0) {
            None => write!(f, "{} B", self.0),
            Some((unit, shift)) if self.0.trailing_zeros() >= shift => {
                write!(f, "{} {unit}iB", self.0 >> shift)
            }
            Some((unit, shift)) => {
                write!(f, "{:.1} {unit}iB", self.0 as f64 / (1u64 << shift) as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes, shown) in [
            ("512M", 512 << 20, "512 MiB"),
            ("4g", 4 << 30, "4 GiB"),
            ("1536MiB", 1536 << 20, "1.5 GiB"),
            ("64KB", 64 << 10, "64 KiB"),
            ("2T", 2 << 40, "2 TiB"),
            ("1E", 1 << 60, "1 EiB"),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
        assert_eq!(Bytes(513).to_string(), "513 B");
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "M", "512", "-1M", "1.5G", "12Q", "4Gigs", "0x10M", "é", "4é"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
        assert!("16777216T".parse::<Bytes>().unwrap_err().contains("64-bit"));
    }
}
