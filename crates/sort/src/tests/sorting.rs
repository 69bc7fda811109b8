//! From records through cuts, entries and buckets to records in order.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use proptest::prelude::*;

use super::{LENGTH, generated, model, with_keys};
use crate::entry::{Entry, Position};
use crate::gather::{InBlocks, InRow, Missing, Records, gather};
use crate::generator::Format;
use crate::layout::Tera;
use crate::plan::Plan;
use crate::sample::{Cuts, Sample, imbalance, positions};
use crate::scatter::{Damaged, Full, Part, Scatter};
use crate::sorted::{Failure, Sorted};

/// Not a power of two: two blocks are used.
const PIECE: usize = 3000;

fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn entry(records: &[u8], position: Position) -> Entry {
    Entry::new::<Tera>(&records[position.0 as usize * LENGTH..], position)
}

/// Cuts from at most `samples` of the records.
fn cuts(records: &[u8], samples: u32, parts: u32) -> Cuts {
    let mut sample = Sample::new();
    let count = (records.len() / LENGTH) as u64;
    sample.extend(positions(count, samples, 5).map(|position| entry(records, position)));
    sample.cuts(some(parts))
}

/// Map tasks over stretches of the records: the parts that each leaves.
fn mapped(records: &[u8], plan: &Plan, tasks: usize) -> Vec<Vec<Part<Vec<u8>>>> {
    let stretch = (records.len() / LENGTH).div_ceil(tasks).max(1);
    let mut first = 0;
    let tasks = records.chunks(stretch * LENGTH).map(|records| {
        let mut scatter = Scatter::new(plan.clone(), PIECE);
        // Each task sees its records in two buffers.
        let half = records.len() / LENGTH / 2;
        for records in [&records[..half * LENGTH], &records[half * LENGTH..]] {
            let more = |_| Some(alloc::vec![0xee; PIECE]);
            scatter.scan::<Tera>(records, Position(first), more).unwrap();
            first += (records.len() / LENGTH) as u64;
        }
        scatter.finish()
    });
    tasks.collect()
}

/// The whole sort; gives the output of each part.
fn sort(records: &[u8], cuts: &Cuts, buckets: u32, tasks: usize, most: usize) -> Vec<Vec<u8>> {
    let plan = Plan::new(cuts, some(buckets));
    let mut mapped = mapped(records, &plan, tasks);
    let source = InRow::<Tera>::new(records, Position(0));
    (0..plan.parts())
        .rev()
        .map(|_| {
            let parts = mapped.iter_mut().map(|parts| parts.pop().unwrap()).collect();
            let mut sorted = Sorted::new(parts, most);
            let (mut all, mut out) = (Vec::new(), [0; 7 * LENGTH + 50]);
            loop {
                let filled = sorted.fill::<Tera>(&source, &mut out).unwrap();
                all.extend_from_slice(&out[..filled * LENGTH]);
                if filled == 0 {
                    break all;
                }
            }
        })
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect()
}

fn sorts(records: &[u8], parts: u32, buckets: u32, tasks: usize, most: usize) -> Vec<u64> {
    let cuts = cuts(records, 1000, parts);
    let outputs = sort(records, &cuts, buckets, tasks, most);
    assert!(outputs.concat() == model(records), "{parts} {buckets} {tasks} {most}");
    outputs.iter().map(|output| (output.len() / LENGTH) as u64).collect()
}

#[test]
fn records_are_sorted_and_parts_are_balanced() {
    for format in [Format::Binary, Format::Ascii, Format::Hadoop] {
        let records = generated(format, 20_000);
        for (parts, buckets, tasks) in [(1, 1, 1), (2, 64, 2), (7, 16, 3), (2, 1000, 1)] {
            let counts = sorts(&records, parts, buckets, tasks, 1000);
            assert!(imbalance(&counts) < 1.25, "{format:?} {counts:?}");
        }
    }
}

#[test]
fn equal_keys_are_shared_in_the_order_of_the_input() {
    let records = with_keys(&[5; 9000]);
    for (parts, tasks) in [(1, 1), (2, 2), (5, 3)] {
        let counts = sorts(&records, parts, 32, tasks, 500);
        assert!(imbalance(&counts) < 1.1, "{counts:?}");
    }
}

#[test]
fn skewed_keys_are_balanced_nevertheless() {
    // Zipf: the key k is about 1/k of all.
    let mut keys: Vec<u64> =
        (1..2000u64).flat_map(|key| (0..2000 / key).map(move |_| key)).collect();
    let mut random = crate::random::Random::after(3);
    for at in (1..keys.len()).rev() {
        keys.swap(at, (random.draw() >> 64) as usize % (at + 1));
    }
    let records = with_keys(&keys);
    for (parts, buckets) in [(2, 64), (8, 8), (3, 1)] {
        let counts = sorts(&records, parts, buckets, 2, 300);
        assert!(imbalance(&counts) < 1.2, "{counts:?}");
    }
}

#[test]
fn keys_at_the_ends_of_their_range() {
    let mut records = with_keys(&[0, u64::MAX, 1, u64::MAX - 1, 0, u64::MAX]);
    records[LENGTH..LENGTH + 10].fill(0xff);
    records[5 * LENGTH..5 * LENGTH + 10].fill(0xff);
    for parts in [1, 2, 3, 6, 20] {
        sorts(&records, parts, 4, 2, 64);
    }
    sorts(&[], 3, 4, 2, 64);
}

#[test]
fn keys_outside_of_the_sample_belong_to_the_outer_parts() {
    let records = with_keys(&[50, 51, 1, 99, 0, 1 << 60, 52]);
    let mut sample = Sample::new();
    sample.extend([0, 1].map(|at| entry(&records, Position(at))));
    let outputs = sort(&records, &sample.cuts(some(2)), 8, 1, 64);
    assert_eq!(outputs.concat(), model(&records));
    assert_eq!(outputs[0].len(), 3 * LENGTH);
}

#[test]
fn cuts_that_descend_are_refused() {
    let [a, b] = [Position(1), Position(2)].map(|at| entry(&with_keys(&[3, 3, 3]), at));
    assert!(Cuts::new(alloc::vec![b, a], a, b).is_none());
    assert!(Cuts::new(alloc::vec![a], b, a).is_none());
    let cuts = Cuts::new(alloc::vec![a, b], a, b).unwrap();
    assert_eq!((cuts.part(a), cuts.part(b), cuts.parts()), (1, 2, 3));
}

#[test]
fn samples_are_spread_and_follow_from_their_seed() {
    let chosen: Vec<_> = positions(1_000_003, 1000, 7).collect();
    assert_eq!(chosen.len(), 1000);
    for (stretch, position) in (0..).zip(&chosen) {
        assert!(position.0.abs_diff(stretch * 1000 + 500) <= 504, "{stretch}: {position:?}");
    }
    assert!(positions(1_000_003, 1000, 7).eq(chosen.iter().copied()));
    assert!(!positions(1_000_003, 1000, 8).eq(chosen.iter().copied()));
    assert!(positions(3, 1000, 7).map(|position| position.0).eq(0..3));
    assert_eq!(positions(0, 1000, 7).count(), 0);
}

#[test]
fn imbalance_is_the_largest_beside_the_mean() {
    assert_eq!(imbalance(&[1, 1, 4]), 2.0);
    assert_eq!(imbalance(&[0, 0]), 1.0);
    assert_eq!(imbalance(&[]), 1.0);
}

#[test]
fn without_memory_the_records_before_are_taken() {
    let records = generated(Format::Binary, 500);
    let plan = Plan::new(&cuts(&records, 100, 1), some(1));
    let mut scatter = Scatter::new(plan, PIECE);
    let mut pieces = alloc::vec![alloc::vec![0; PIECE], alloc::vec![0; PIECE]];
    // A piece that is too short is none.
    pieces.insert(0, alloc::vec![0; 2047]);
    let full = scatter.scan::<Tera>(&records, Position(0), |_| pieces.pop()).unwrap_err();
    // Two pieces of two blocks of 63 entries each.
    assert_eq!(full, Full { part: 0, taken: 252 });
    let rest = &records[full.taken * LENGTH..];
    let more = |_| Some(alloc::vec![0; PIECE]);
    scatter.scan::<Tera>(rest, Position(full.taken as u64), more).unwrap();
    let [part] = scatter.finish().try_into().unwrap();
    assert_eq!(part.count(0), Ok(500));
}

#[test]
fn parts_travel_as_pieces_and_cursors() {
    let records = generated(Format::Binary, 3000);
    let cuts = cuts(&records, 100, 1);
    let [task] = mapped(&records, &Plan::new(&cuts, some(16)), 1).try_into().unwrap();
    let [part] = task.try_into().unwrap();
    let cursors = part.cursors().to_vec();
    let arrived = Part::new(part.into_pieces(), cursors);
    let mut sorted = Sorted::new(alloc::vec![arrived], 1000);
    let mut out = alloc::vec![0; records.len()];
    let source = InRow::<Tera>::new(&records, Position(0));
    assert_eq!(sorted.fill::<Tera>(&source, &mut out), Ok(3000));
    assert_eq!(out, model(&records));
    assert_eq!(sorted.fill::<Tera>(&source, &mut out), Ok(0));
}

#[test]
fn records_in_blocks_are_found() {
    let records = generated(Format::Binary, 100);
    let blocks: Vec<&[u8]> = records.chunks(16 * LENGTH).collect();
    let source = InBlocks::<Tera, _>::new(blocks, Position(1000), 4);
    for at in 0..100 {
        let found = source.record(Position(1000 + at as u64)).unwrap();
        assert_eq!(found[..LENGTH], records[at * LENGTH..][..LENGTH]);
    }
    let mut out = [0; LENGTH];
    for missing in [0, 999, 1100, 1112, Position::END.0] {
        let entries = [Entry::new::<Tera>(&records, Position(missing))];
        let missing = Missing(Position(missing));
        assert_eq!(gather::<Tera, _>(&entries, &source, &mut out), Err(missing));
    }
}

#[test]
fn a_bucket_that_leads_back_to_itself_is_damaged() {
    let records = generated(Format::Binary, 100);
    let plan = Plan::new(&cuts(&records, 100, 1), some(1));
    let part = mapped(&records, &plan, 1).pop().unwrap().pop().unwrap();
    let ends = part.cursors().to_vec();
    // Of its two blocks, the first says that one comes before it: itself, or the second.
    for before in [64u128, 128, 1 << 64, 1] {
        let mut pieces = part.clone().into_pieces();
        pieces[0][..16].copy_from_slice(&before.to_le_bytes());
        assert_eq!(Part::new(pieces, ends.clone()).count(0), Err(Damaged), "{before}");
    }
    assert_eq!(part.count(0), Ok(100));
}

proptest! {
    /// Memory that another core has written over is found out, or gives some entries; it never
    /// panics or goes on for ever.
    #[test]
    fn damaged_entries_do_no_harm(
        changes in prop::collection::vec((0usize..8 * PIECE, any::<u8>()), 1..40),
        cursors in prop::collection::vec((0usize..4, any::<u32>()), 0..3),
        lost in 0usize..3,
    ) {
        let records = generated(Format::Binary, 600);
        let plan = Plan::new(&cuts(&records, 100, 1), some(4));
        let part = mapped(&records, &plan, 1).pop().unwrap().pop().unwrap();
        let mut ends = part.cursors().to_vec();
        cursors.into_iter().for_each(|(bucket, cursor)| ends[bucket] = cursor);
        let mut pieces = part.into_pieces();
        for (at, byte) in changes {
            if let Some(piece) = pieces.get_mut(at / PIECE) {
                piece[at % PIECE] = byte;
            }
        }
        pieces.truncate(pieces.len() - lost);
        let mut sorted = Sorted::new(alloc::vec![Part::new(pieces, ends)], 64);
        let source = InRow::<Tera>::new(&records, Position(0));
        let mut out = alloc::vec![0; 4 * records.len()];
        match sorted.fill::<Tera>(&source, &mut out) {
            Ok(filled) => prop_assert!(filled <= 4 * 600),
            Err(Failure::Damaged(Damaged) | Failure::Missing(_)) => {}
        }
    }

    #[test]
    fn any_records_are_sorted(
        keys in prop::collection::vec(prop_oneof![0u64..10, any::<u64>(), Just(u64::MAX)], 0..400),
        parts in 1u32..6,
        buckets in 1u32..40,
        tasks in 1usize..4,
    ) {
        sorts(&with_keys(&keys), parts, buckets, tasks, 64);
    }
}
