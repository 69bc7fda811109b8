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
        self.0.sort_unstable();
        let (entries, parts) = (self.0, parts.get() as usize);
        let least = entries.first().copied().unwrap_or(Entry::LEAST);
        let greatest = entries.last().copied().unwrap_or(Entry::GREATEST);
        let at = |cut: usize| (cut as u128 * entries.len() as u128 / parts as u128) as usize;
        let cuts = (1..parts).map(|cut| entries.get(at(cut)).copied().unwrap_or(greatest));
        Cuts { cuts: cuts.collect(), least, greatest }
    }
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
