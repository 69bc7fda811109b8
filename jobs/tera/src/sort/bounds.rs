//! Samples of the input, and the plan of partitions and buckets that is cut from them.

use alloc::format;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ops::RangeInclusive;

use nile_sort::sample::positions;
use nile_sort::{Cuts, Entry, Plan, Position, Sample, Tera};
use nile_tasks::{Bounds, Halt, Outcome, Task};

use crate::records::{LENGTH, skipped};

/// Of how many records of a split the keys are looked at. They are of one block, if that has as
/// many: to read one takes as long as to sort a few thousand records.
const RECORDS: u32 = 1000;

/// Records of a bucket, on average: about as many as the second level of a processor's cache holds.
const OF_BUCKET: u64 = 5000;

/// Records that a bucket has of those that are grouped together, on average: fewer make it slow to
/// collect, and more gain nothing.
const OF_GROUP: RangeInclusive<u64> = 4..=8;
const MOST_BUCKETS: u32 = 1 << 13;

/// So many groups a bucket has at most, as long as they need not be larger than the next constant
/// allows: each has a row of the bucket in another page.
const GROUPS: u64 = 320;

/// Blocks that are grouped together at most: more would lie in no cache, before and after. What a
/// worker needs to go on (`WORKING` of the job engine) has room for them.
const MOST_GROUPED: u64 = 8;

/// Slices of a partition, at most.
const MOST_SLICES: u64 = 40;

/// How much of a buffer a split's records of a slice take on average, of 100: as much as leaves
/// few of them more than a buffer.
const FULL: u64 = 85;

/// The position of the record that begins at or behind a byte of a dataset: positions compare like
/// the records' places in the input.
pub fn position(dataset: u32, at: u64) -> Position {
    const RECORD_BITS: u32 = 36;
    Position(u64::from(dataset) << RECORD_BITS | at.div_ceil(LENGTH as u64))
}

/// What a split is like: its records, about, and those of its largest block; then entries.
pub fn sample(task: &Task<'_>) -> Outcome<Vec<u8>> {
    let (mut look, mut looks) = (0, 1);
    let (mut most, mut entries) = (0, Vec::new());
    while look < looks {
        let block = task.block((look * u64::from(task.blocks()) / looks) as u32)?;
        let skipped = skipped(block.at).min(block.bytes);
        let records = &block.buffer[skipped..block.bytes];
        let count = (records.len() / LENGTH) as u64;
        if look == 0 {
            let enough = u64::from(RECORDS).div_ceil(count.max(1));
            looks = enough.min(task.blocks().into());
        }
        most = most.max(count);
        let first = position(task.dataset(), block.at);
        let seed = u64::from(task.index()) << 32 | look;
        for chosen in positions(count, RECORDS / looks as u32, seed) {
            let record = &records[chosen.0 as usize * LENGTH..];
            entries.push(Entry::new::<Tera>(record, Position(first.0 + chosen.0)).to_bytes());
        }
        look += 1;
        task.breathe()?;
    }
    let sizes = [u64::from(task.blocks()) * most, most];
    Ok([sizes.map(u64::to_le_bytes).concat(), entries.concat()].concat())
}

/// Cuts from all samples, and how many buckets each partition has.
pub fn cut(task: &Task<'_>) -> Outcome<Bounds> {
    let mut samples = Vec::new();
    for index in 0..task.blocks() {
        let sample = task.sample(index)?;
        let no_sample = || Halt::input("a sample that was taken by other code");
        let (sizes, entries) = sample.split_first_chunk::<16>().ok_or_else(no_sample)?;
        let (sizes, _) = sizes.as_chunks();
        let [records, block] = [0, 1].map(|at| u64::from_le_bytes(sizes[at]));
        samples.push((records, block, entries.as_chunks().0.to_vec()));
        task.breathe()?;
    }
    let all = samples.iter().map(|(records, ..)| *records).fold(0, u64::saturating_add);
    let largest = samples.iter().map(|(records, ..)| *records).max().unwrap_or(0).max(1);
    let block = samples.iter().map(|(_, block, _)| *block).max().unwrap_or(0);
    let mut sample = Sample::new();
    for (records, _, entries) in samples {
        // Of a split that is smaller, fewer count.
        let count = (u128::from(records) * u128::from(RECORDS)).div_ceil(largest.into()) as usize;
        let count = count.min(entries.len());
        let chosen = (0..count).map(|at| entries[at * entries.len() / count]);
        sample.extend(chosen.map(Entry::from_bytes));
    }
    let partitions = NonZeroU32::new(task.partitions()).unwrap_or(NonZeroU32::MIN);
    let cuts = sample.cuts(partitions);
    // Pieces for other nodes fill buffers, and runs are made of few blocks: nothing to gain there.
    let fits = task.memory().is_none_or(|most| all.saturating_mul(LENGTH as u64) <= most);
    let grouped = if task.is_shared() || !fits { 1 } else { grouped(all, block) };
    let buckets = buckets(all, block * grouped, cuts.parts());
    let sizes = [buckets, grouped as u32].map(u32::to_le_bytes).concat();
    let bytes = [sizes, cuts.to_bytes()].concat();
    Ok(Bounds { bytes, slices: slices(task, largest, block, buckets)? })
}

/// Of how many blocks records are grouped together, if there are so many in all, in blocks of so
/// many.
pub fn grouped(all: u64, block: u64) -> u64 {
    all.div_ceil(block.max(1).saturating_mul(GROUPS)).clamp(1, MOST_GROUPED)
}

/// How many buckets each of so many partitions has, if there are so many records in all, of which
/// so many are grouped together.
pub fn buckets(all: u64, grouped: u64, partitions: usize) -> u32 {
    let groups = all.div_ceil(grouped.max(1)).max(1);
    let of_group = (OF_BUCKET / groups).clamp(*OF_GROUP.start(), *OF_GROUP.end());
    let buckets = (grouped / partitions.max(1) as u64).div_ceil(of_group);
    buckets.clamp(1, MOST_BUCKETS.into()) as u32
}

/// How many slices each partition is taken in, of splits with so many records in blocks of so many:
/// if pieces come from other nodes, as many as were asked for, or as still fill a buffer with what
/// each has of a split.
fn slices(task: &Task<'_>, split: u64, block: u64, buckets: u32) -> Outcome<NonZeroU32> {
    const MOST_ASKED: u64 = 64;
    let blocks = split.saturating_mul(100) / block.max(1);
    let filled = blocks / FULL / u64::from(task.partitions());
    let wanted = match task.arguments().get(1) {
        None => filled.clamp(1, MOST_SLICES),
        Some(asked) => match asked.parse() {
            Ok(slices @ 1..=MOST_ASKED) => slices,
            _ => {
                let text = format!("`sort` {asked}: slices are a number from 1 to {MOST_ASKED}");
                return Err(Halt::code(text));
            }
        },
    };
    let most = if task.is_shared() { wanted.min(buckets.into()) } else { 1 };
    Ok(NonZeroU32::new(most as u32).unwrap_or(NonZeroU32::MIN))
}

/// The plan that the task's bounds tell.
pub fn plan(task: &Task<'_>) -> Outcome<Plan> {
    let plan = parsed(task.bounds()).and_then(|([buckets, _], cuts)| {
        let buckets = NonZeroU32::new(buckets)?;
        // Memory for buckets is not taken on the word of others.
        let cuts = Cuts::from_bytes(cuts).filter(|_| buckets.get() <= MOST_BUCKETS)?;
        Some(Plan::new(&cuts, buckets))
    });
    match plan {
        Some(plan) if plan.parts() == task.partitions() as usize => Ok(plan),
        _ => Err(Halt::code("`sort` was begun without samples, or with others' bounds")),
    }
}

/// Of how many blocks of its split a map task groups the records together.
pub fn blocks_grouped(task: &Task<'_>) -> usize {
    let grouped = parsed(task.bounds()).map_or(1, |([_, grouped], _)| u64::from(grouped));
    grouped.clamp(1, MOST_GROUPED) as usize
}

/// The two sizes that bounds begin with, and the cuts.
fn parsed(bounds: &[u8]) -> Option<([u32; 2], &[u8])> {
    let (sizes, cuts) = bounds.split_first_chunk::<8>()?;
    let (sizes, _) = sizes.as_chunks();
    Some(([0, 1].map(|at| u32::from_le_bytes(sizes[at])), cuts))
}
