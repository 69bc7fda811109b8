//! Numbers in as few bytes as they need: seven bits in each, the lowest first.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Bytes of a log or a generation are not what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged(pub &'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The result of reading.
pub type Read<T> = Result<T, Damaged>;

/// Adds a number.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Adds how far a number is from the one before; few bytes if they are close.
pub fn put_step(bytes: &mut Vec<u8>, before: u64, number: u64) {
    let step = number.wrapping_sub(before) as i64;
    put(bytes, ((step << 1) ^ (step >> 63)) as u64);
}

/// Adds a text.
pub fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes what was put, in the same order.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Whether nothing is left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// A number.
    pub fn number(&mut self) -> Read<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Damaged("a number has more than 64 bits"))
    }

    /// A number, by how far it is from the one before.
    pub fn step(&mut self, before: u64) -> Read<u64> {
        let step = self.number()?;
        Ok(before.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg()))
    }

    /// A number of things that have at least a byte each, so that no more than are there.
    pub fn count(&mut self) -> Read<usize> {
        let count = self.number()?;
        usize::try_from(count)
            .ok()
            .filter(|count| *count <= self.0.len())
            .ok_or(Damaged("more is announced than there is"))
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Damaged("it ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A text.
    pub fn text(&mut self) -> Read<String> {
        let count = self.count()?;
        let text = core::str::from_utf8(self.bytes(count)?);
        text.map(String::from).map_err(|_| Damaged("a text is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_what_is_no_number_is_told() {
        let numbers = [0, 1, 127, 128, 300, u64::MAX - 1, u64::MAX, 1 << 63, 5];
        let mut bytes = Vec::new();
        let mut before = 7;
        for number in numbers {
            put(&mut bytes, number);
            put_step(&mut bytes, before, number);
            before = number;
        }
        put_text(&mut bytes, "é");
        let mut reader = Reader(&bytes);
        let mut before = 7;
        for number in numbers {
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.step(before), Ok(number));
            before = number;
        }
        assert_eq!(reader.text().as_deref(), Ok("é"));
        assert!(reader.is_over() && reader.number().is_err());
        assert!(Reader(&[0xff; 10]).number().is_err());
        assert!(Reader(&[3, 1, 2]).count().is_err());
        assert!(Reader(&[1, 0xff]).text().is_err());
    }
}
