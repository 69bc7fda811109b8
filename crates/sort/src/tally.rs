//! Whether the same records are there before and after, in any order, for about two nanoseconds a
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

/// What is added to words before they are multiplied, each other words: digits of pi.
const KEYS: [u64; 6] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
];

impl Tally {
    /// Counts a record, by its first 32 and its last 16 bytes: the cache lines that a sort touches
    /// anyway. Words of two records cannot be exchanged unnoticed.
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
        // Sums of products of sums (the hash NH): no multiplication waits for another.
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]).wrapping_add(KEYS[at]);
        let product = |at: usize| {
            let product = u128::from(word(at)) * u128::from(word(at + 1));
            (product >> 64) as u64 ^ product as u64
        };
        let hash = product(0).wrapping_add(product(2)).wrapping_add(product(4));
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
        // Two records that have exchanged their last words, and short ones.
        let mut mixed = [records[0], records[1]];
        mixed[0][92..].fill(2);
        mixed[1][92..].fill(1);
        assert_ne!(tally(&[&mixed[0], &mixed[1]]).sum, tally(&[a, b]).sum);
        assert_ne!(tally(&[b"ab"]).sum, tally(&[b"ba"]).sum);
    }
}
