//! Cuts between parts that are nearly of one size, from the keys of a few records.
//!
//! Which records these are follows from a seed alone. A cut is an entry, a key with a position, so
//! that also many records with one key are shared among parts: of those, the ones that come first
//! in the input go to the earlier part. TeraSort asks that each output follows the one before it
//! and is in order, in which equal keys may stand on both sides of a cut; that they also keep the
//! order of the input is more than it asks.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::entry::{Entry, Position};

/// The positions of about `samples` of `records` records, ascending: one at a random place in each
/// of as many stretches. All of them if there are fewer.
pub fn positions(records: u64, samples: u32, seed: u64) -> impl Iterator<Item = Position> {
    let stretches = records.min(samples.into());
    // Where a stretch starts is its part of the records, rounded down; neither product can wrap.
    let (whole, rest) = (records / stretches.max(1), records % stretches.max(1));
    let start = move |stretch: u64| stretch * whole + stretch * rest / stretches;
    (0..stretches).map(move |stretch| {
        let (from, length) = (start(stretch), start(stretch + 1) - start(stretch));
        let random = u128::from(mixed(seed ^ mixed(stretch)));
        Position(from + ((random * u128::from(length)) >> 64) as u64)
    })
}

/// A number in which every bit of `number` counts for every bit (the finalizer of splitmix64).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The entries of some records.
#[derive(Clone, Default, Debug)]
pub struct Sample(Vec<Entry>);

impl Sample {
    /// Nothing looked at yet.
    pub fn new() -> Sample {
        Sample::default()
    }

    /// Adds the entry of a record.
    pub fn add(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Cuts that make `parts` parts of this sample, the first and last parts' ends being the least
    /// and the greatest entry of it. With fewer entries than parts, some parts stay empty.
    pub fn cuts(mut self, parts: NonZeroU32) -> Cuts {
        let (entries, parts) = (&mut self.0, parts.get() as usize);
        let least = entries.iter().min().copied().unwrap_or(Entry::LEAST);
        let greatest = entries.iter().max().copied().unwrap_or(Entry::GREATEST);
        let rank = |cut: usize| (cut as u128 * entries.len() as u128 / parts as u128) as usize;
        let ranks: Vec<usize> = (1..parts).map(rank).collect();
        let mut once = ranks.clone();
        once.dedup();
        // Without entries there is one rank, and nothing of it.
        if !entries.is_empty() {
            select(entries, &once, 0);
        }
        let cuts = ranks.iter().map(|rank| entries.get(*rank).copied().unwrap_or(greatest));
        Cuts { cuts: cuts.collect(), least, greatest }
    }
}

/// Puts the entries of these ranks, which ascend, where they would be if all were in order; `first`
/// is the rank of the first. A few cuts take less time so than to sort what is between them.
fn select(entries: &mut [Entry], ranks: &[usize], first: usize) {
    let (lower, upper) = ranks.split_at(ranks.len() / 2);
    let Some((rank, upper)) = upper.split_first() else { return };
    let (left, _, right) = entries.select_nth_unstable(rank - first);
    select(left, lower, first);
    select(right, upper, rank + 1);
}

impl Extend<Entry> for Sample {
    fn extend<I: IntoIterator<Item = Entry>>(&mut self, entries: I) {
        self.0.extend(entries);
    }
}

/// Where one part ends and the next begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cuts {
    /// The first entry of each part but the first; ascending.
    cuts: Vec<Entry>,
    /// About the least and the greatest entry of the input: entries outside belong to the first
    /// and the last part.
    least: Entry,
    greatest: Entry,
}

impl Cuts {
    /// Cuts that were made elsewhere, and about the least and greatest entry of the input. `None`
    /// if they do not ascend.
    pub fn new(cuts: Vec<Entry>, least: Entry, greatest: Entry) -> Option<Cuts> {
        (cuts.is_sorted() && least <= greatest).then_some(Cuts { cuts, least, greatest })
    }

    /// The cuts as they travel: whole entries.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries = [self.least, self.greatest].into_iter().chain(self.cuts.iter().copied());
        entries.flat_map(Entry::to_bytes).collect()
    }

    /// The cuts that [`Cuts::to_bytes`] gave; `None` if these are no such bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Cuts> {
        let (entries, rest) = bytes.as_chunks();
        let [least, greatest, cuts @ ..] = entries else { return None };
        let cuts = cuts.iter().map(|bytes| Entry::from_bytes(*bytes)).collect();
        let [least, greatest] = [least, greatest].map(|bytes| Entry::from_bytes(*bytes));
        rest.is_empty().then(|| Cuts::new(cuts, least, greatest))?
    }

    /// The first entry of each part but the first.
    pub fn cuts(&self) -> &[Entry] {
        &self.cuts
    }

    /// About the least and the greatest entry of the input.
    pub fn range(&self) -> (Entry, Entry) {
        (self.least, self.greatest)
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.cuts.len() + 1
    }

    /// The part that `entry` belongs to.
    pub fn part(&self, entry: Entry) -> usize {
        self.cuts.partition_point(|cut| *cut <= entry)
    }
}

/// The largest part beside the mean of all, one at the least: what balanced parts would gain. One
/// if all are empty.
pub fn imbalance(records: &[u64]) -> f64 {
    let total: u128 = records.iter().map(|count| u128::from(*count)).sum();
    match records.iter().max() {
        Some(most) if total > 0 => *most as f64 * records.len() as f64 / total as f64,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cuts_are_where_sorting_would_put_them(keys in vec(0u8..40, 0..300), parts in 1u32..60) {
            let entry = |(at, key): (usize, &u8)| {
                let mut bytes = [0; Entry::BYTES];
                (bytes[0], bytes[15]) = (*key, at as u8);
                Entry::from_bytes(bytes)
            };
            let mut entries: Vec<Entry> = keys.iter().enumerate().map(entry).collect();
            let mut sample = Sample::new();
            sample.extend(entries.iter().copied());
            let cuts = sample.cuts(NonZeroU32::new(parts).unwrap());
            entries.sort_unstable();
            let at = |cut: usize| entries.get(cut * entries.len() / parts as usize).copied();
            let greatest = entries.last().copied().unwrap_or(Entry::GREATEST);
            let sorted: Vec<Entry> =
                (1..parts as usize).map(|cut| at(cut).unwrap_or(greatest)).collect();
            prop_assert_eq!(cuts.cuts(), &sorted[..]);
            let least = entries.first().copied().unwrap_or(Entry::LEAST);
            prop_assert_eq!(cuts.range(), (least, greatest));
        }
    }
}
