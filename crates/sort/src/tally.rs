//! Whether the same records are there before and after, in any order, for about a nanosecond a
//! record: what a job compares by itself, to find out if records were lost, doubled or mixed up.
//! The benchmark's [`Checksum`](crate::Checksum) takes every byte, costs ten times as much, and is
//! for those who make and validate records.

use core::ops::AddAssign;

/// The number of some records and the sum of their hashes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// How many records.
    pub records: u64,
    /// The sum, modulo 2^64.
    pub sum: u64,
}

/// Bytes of a record that count: so many at its beginning, and at its end.
const HEAD: usize = 32;
const TAIL: usize = 16;

/// What is added to the first two words: digits of pi.
const KEYS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

impl Tally {
    /// Counts a record, by its first 32 and its last 16 bytes: the cache lines that a sort touches
    /// anyway. Words that two records exchange change the sum, but for a chance of one in 2^64 or
    /// so. Two changes of one record may cancel out, as those of the uppermost bits of its fourth
    /// and its last word do: damage is found by the checksums of blocks, not by this.
    #[inline(always)]
    pub fn add(&mut self, record: &[u8]) {
        let mut bytes = [0; HEAD + TAIL];
        match (record.first_chunk::<HEAD>(), record.last_chunk::<TAIL>()) {
            (Some(head), Some(tail)) => {
                bytes[..HEAD].copy_from_slice(head);
                bytes[HEAD..].copy_from_slice(tail);
            }
            _ => bytes[..record.len()].copy_from_slice(record),
        }
        // One product, in which each word has a part: a sum of several would not notice that two
        // records have exchanged all the words of one of them.
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        let left = (word(0).wrapping_add(KEYS[0]) ^ word(3)).wrapping_add(word(5));
        let right = (word(1).wrapping_add(KEYS[1]) ^ word(2)).wrapping_add(word(4));
        let product = u128::from(left) * u128::from(right);
        let hash = (product >> 64) as u64 ^ product as u64;
        self.records = self.records.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.records = self.records.wrapping_add(other.records);
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Tally;

    fn tally(records: &[&[u8]]) -> Tally {
        let mut tally = Tally::default();
        records.iter().for_each(|record| tally.add(record));
        tally
    }

    #[test]
    fn what_is_lost_doubled_or_mixed_up_is_found_and_order_is_not() {
        let records: Vec<[u8; 100]> = (1..=3u8).map(|seed| [seed; 100]).collect();
        let [a, b, c] = [&records[0][..], &records[1], &records[2]];
        let all = tally(&[a, b, c]);
        assert_eq!(tally(&[c, a, b]), all);
        let mut parts = tally(&[b]);
        parts += tally(&[a, c]);
        assert_eq!(parts, all);
        for other in [&[a, b][..], &[a, b, c, c], &[a, b, b]] {
            assert_ne!(tally(other), all);
        }
        // Two records that have exchanged some of their bytes.
        for part in [0..10, 0..16, 0..32, 16..32, 84..92, 84..100, 92..100] {
            let mut mixed = [records[0], records[1]];
            mixed[0][part.clone()].fill(2);
            mixed[1][part.clone()].fill(1);
            assert_ne!(tally(&[&mixed[0], &mixed[1]]).sum, tally(&[a, b]).sum, "{part:?}");
        }
        assert_ne!(tally(&[b"ab"]).sum, tally(&[b"ba"]).sum);
    }
}
