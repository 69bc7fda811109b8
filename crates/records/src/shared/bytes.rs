//! Bytes in the words of objects.

use alloc::vec::Vec;

use nile_sync::mvrlu::{Draft, Refused, Section, Snapshot};

use crate::operation::Record;

/// Words of an object: with what precedes them in a log, four lines.
pub const WORDS: usize = 30;

const BEFORE: usize = 3;

/// Bytes of a part.
pub const PART_BYTES: usize = (WORDS - BEFORE) * 8;

/// A key and a value, each padded to whole words.
pub fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + value.len() + 16);
    for part in [key, value] {
        bytes.extend_from_slice(part);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Puts bytes behind the first words of a part.
pub fn put(words: &mut Draft<'_>, bytes: &[u8]) {
    for (at, word) in bytes.chunks(8).enumerate() {
        let mut whole = [0; 8];
        whole[..word.len()].copy_from_slice(word);
        words.set(BEFORE + at, u64::from_le_bytes(whole));
    }
}

/// The bytes of a key and a value of these sizes.
fn sizes(word: u64) -> (usize, usize) {
    ((word >> 32) as usize, word as u32 as usize)
}

/// How many parts a record has whose second word this is.
pub fn parts_of(word: u64) -> usize {
    let (key, value) = sizes(word);
    (key.next_multiple_of(8) + value.next_multiple_of(8)).div_ceil(PART_BYTES)
}

/// Whoever reads objects.
pub trait Object {
    /// One word of an object.
    fn word(&self, object: u32, index: usize) -> Result<u64, Refused>;

    /// The key and the record whose first part this is.
    fn record(&self, first: u32) -> Result<(Vec<u8>, Record), Refused> {
        let version = self.word(first, 0)?;
        let sizes_word = self.word(first, 1)?;
        let (key, value) = sizes(sizes_word);
        let padded = key.next_multiple_of(8);
        let mut bytes = Vec::with_capacity(padded + value + 8);
        let mut part = first;
        for left in (0..parts_of(sizes_word)).rev() {
            for at in BEFORE..WORDS {
                bytes.extend_from_slice(&self.word(part, at)?.to_le_bytes());
                if bytes.len() >= padded + value {
                    break;
                }
            }
            if left > 0 {
                part = self.word(part, 2)? as u32;
            }
        }
        let whole = bytes.get(padded..padded + value).ok_or(Refused::Corrupt)?;
        let record = Record { version, value: whole.into() };
        bytes.truncate(key);
        Ok((bytes, record))
    }
}

impl Object for Section<'_> {
    fn word(&self, object: u32, index: usize) -> Result<u64, Refused> {
        Section::word(self, object, index)
    }
}

impl Object for Snapshot {
    fn word(&self, object: u32, index: usize) -> Result<u64, Refused> {
        Snapshot::word(self, object, index)
    }
}
