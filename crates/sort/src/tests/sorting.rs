//! From records through cuts, entries and buckets to records in order.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ops::Range;

use proptest::prelude::*;

use super::{LENGTH, generated, model, with_keys};
use crate::entry::{Entry, Position};
use crate::gather::{MOST, Place};
use crate::generator::Format;
use crate::group::{Groups, NoRoom};
use crate::layout::Tera;
use crate::plan::Plan;
use crate::sample::{Cuts, Sample, imbalance, positions};
use crate::sorted::{Failure, Sorted};
use crate::tally::Tally;

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

/// The records of a few blocks, moved, and where each class lies among them.
#[derive(Clone)]
struct Grouped {
    buffers: Vec<Vec<u8>>,
    classes: Vec<Vec<(usize, Range<usize>)>>,
}

/// How many records a block has, of how many blocks records are grouped together, and how many
/// records of each are in a stretch of their own.
#[derive(Clone, Copy)]
struct Shape {
    per_block: usize,
    together: usize,
    odd: usize,
}

impl Shape {
    fn of(per_block: usize) -> Shape {
        Shape { per_block, together: 1, odd: 0 }
    }
}

/// The records in blocks, grouped; and what all of them are.
fn grouped(records: &[u8], plan: &Plan, slices: NonZeroU32, shape: Shape) -> (Vec<Grouped>, Tally) {
    let Shape { per_block, together, odd } = shape;
    let (mut groups, mut tally) = (Groups::new(plan.clone(), slices), Tally::default());
    let each = records.chunks(per_block * together * LENGTH);
    let each = each.zip((0..).step_by(per_block * together)).map(|(records, first)| {
        // A few bytes more than it takes.
        let bytes = records.len().min(per_block * LENGTH) + 17;
        let mut buffers = alloc::vec![alloc::vec![0xee; bytes]; together];
        let blocks = records.chunks(per_block * LENGTH);
        let stretches =
            blocks.flat_map(|it| <[_; 2]>::from(it.split_at(it.len().min(odd * LENGTH))));
        let stretches: Vec<&[u8]> = stretches.collect();
        let mut out: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        tally += groups.make::<Tera>(&stretches, Position(first), &mut out).unwrap();
        let classes = (0..groups.classes()).map(|class| groups.class(class).collect()).collect();
        Grouped { buffers, classes }
    });
    (each.collect(), tally)
}

/// What all buffers have of a class: nothing, in some.
fn class(all: &[Grouped], class: usize) -> Vec<&[u8]> {
    let mut bytes: Vec<&[u8]> = Vec::new();
    for it in all {
        let buffer = |number: usize| it.buffers.get(number).map_or(&[][..], Vec::as_slice);
        bytes.extend(
            it.classes[class].iter().map(|(number, range)| &buffer(*number)[range.clone()]),
        );
    }
    bytes
}

/// Puts a part out through a small buffer.
fn put_out(mut sorted: Sorted<'_>) -> Vec<u8> {
    let (mut all, mut out) = (Vec::new(), [0; 7 * LENGTH + 50]);
    loop {
        match sorted.fill::<Tera>(&mut out).unwrap() {
            0 => return all,
            filled => all.extend_from_slice(&out[..filled * LENGTH]),
        }
    }
}

/// The whole sort; gives the output of each part.
fn sort(records: &[u8], cuts: &Cuts, buckets: u32, shape: Shape, most: usize) -> Vec<Vec<u8>> {
    let plan = Plan::new(cuts, some(buckets));
    let (blocks, before) = grouped(records, &plan, NonZeroU32::MIN, shape);
    let part = |part: usize| {
        put_out(Sorted::new::<Tera>(class(&blocks, part), plan.starts(part), most).unwrap())
    };
    let outputs: Vec<_> = (0..plan.parts()).map(part).collect();
    let mut after = Tally::default();
    let records = outputs.iter().flat_map(|output| output.chunks_exact(LENGTH));
    records.for_each(|record| after.add(record));
    assert_eq!(before, after);
    outputs
}

fn sorts(records: &[u8], parts: u32, buckets: u32, per_block: usize, most: usize) -> Vec<u64> {
    let cuts = cuts(records, 1000, parts);
    let sorted = |together| {
        let shape = Shape { together, ..Shape::of(per_block) };
        let outputs = sort(records, &cuts, buckets, shape, most);
        assert!(outputs.concat() == model(records), "{parts} {buckets} {per_block} {most}");
        outputs.iter().map(|output| (output.len() / LENGTH) as u64).collect()
    };
    let counts: Vec<u64> = sorted(1);
    assert_eq!(counts, sorted(3), "{parts} {buckets} {per_block} {most}");
    counts
}

#[test]
fn records_are_sorted_and_parts_are_balanced() {
    for format in [Format::Binary, Format::Ascii, Format::Hadoop] {
        let records = generated(format, 20_000);
        let cases = [(1, 1, 20_000), (2, 64, 1500), (7, 16, 777), (2, 1000, 10_000)];
        for (parts, buckets, per_block) in cases {
            let counts = sorts(&records, parts, buckets, per_block, 1000);
            assert!(imbalance(&counts) < 1.25, "{format:?} {counts:?}");
        }
    }
}

#[test]
fn equal_keys_are_shared_in_the_order_of_the_input() {
    let records = with_keys(&[5; 9000]);
    for (parts, per_block) in [(1, 9000), (2, 100), (5, 3500)] {
        let counts = sorts(&records, parts, 32, per_block, 500);
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
        let counts = sorts(&records, parts, buckets, 1000, 300);
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
    let outputs = sort(&records, &sample.cuts(some(2)), 8, Shape::of(100), 64);
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
fn cuts_travel() {
    let cuts = cuts(&generated(Format::Binary, 100), 100, 5);
    let mut bytes = cuts.to_bytes();
    assert_eq!(bytes.len(), 6 * Entry::BYTES);
    assert_eq!(Cuts::from_bytes(&bytes), Some(cuts));
    bytes.swap(2 * Entry::BYTES + 15, 5 * Entry::BYTES + 15);
    assert_eq!(Cuts::from_bytes(&bytes), None, "they descend");
    for length in [0, 16, 31, 33] {
        assert_eq!(Cuts::from_bytes(&bytes[..length]), None);
    }
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
    assert_eq!(positions(0, 1000, 7).count() + positions(5, 0, 7).count(), 0);
    // One in each stretch, of stretches whose products need more than 64 bits.
    let (records, samples) = (1 << 50, 1 << 20);
    let start = |it: u64| ((u128::from(it) * u128::from(records)) >> 20) as u64;
    for (stretch, position) in (0..).zip(positions(records, samples, 7)).step_by(99_991) {
        assert!((start(stretch)..start(stretch + 1)).contains(&position.0), "{position:?}");
    }
}

#[test]
fn imbalance_is_the_largest_beside_the_mean() {
    assert_eq!(imbalance(&[1, 1, 4]), 2.0);
    assert_eq!(imbalance(&[0, 0]), 1.0);
    assert_eq!(imbalance(&[]), 1.0);
}

#[test]
fn a_block_without_room_is_refused() {
    let records = generated(Format::Binary, 10);
    let mut groups = Groups::new(Plan::new(&cuts(&records, 10, 1), some(1)), some(1));
    let (mut short, mut long) = ([0; 499], [0; 600]);
    let made = groups.make::<Tera>(&[&records], Position(0), &mut [&mut long, &mut short]);
    assert_eq!(made, Err(NoRoom { records: 10, buffers: 2, bytes: 499 }));
    let made = groups.make::<Tera>(&[&records], Position(0), &mut []);
    assert_eq!(made, Err(NoRoom { records: 10, buffers: 0, bytes: 0 }));
    // What is no whole record needs none.
    let some = [&records[..790], &records[..50]];
    let made = groups.make::<Tera>(&some, Position(0), &mut [&mut long, &mut short]);
    assert_eq!(made.unwrap().records, 7);
    assert!(groups.class(0).eq([(0, 0..400), (1, 0..300)]));
    for none in [1, 9, usize::MAX] {
        assert!(groups.class(none).all(|(_, range)| range.is_empty()), "{none}");
    }
    assert_eq!(groups.make::<Tera>(&[], Position(0), &mut []).unwrap(), Tally::default());
    assert!(groups.class(0).eq([(0, 0..0)]));
}

#[test]
fn records_of_a_bucket_keep_their_order() {
    // Two buckets, in turns; the position of each record is in its value.
    let keys: Vec<u64> = (0..300).map(|at| at % 2 * u64::MAX).collect();
    let records = with_keys(&keys);
    let plan = Plan::new(&cuts(&records, 300, 1), some(2));
    let (blocks, _) = grouped(&records, &plan, NonZeroU32::MIN, Shape::of(300));
    let ordered = |bucket| records.chunks_exact(LENGTH).skip(bucket).step_by(2);
    let all: Vec<&[u8]> = ordered(0).chain(ordered(1)).collect();
    assert!(class(&blocks, 0).concat() == all.concat());
}

#[test]
fn keys_in_buckets_that_none_reaches_are_in_order() {
    // So narrow a part that buckets have less than one key, at the end of all keys.
    let keys: Vec<u64> = (0..200).map(|key| u64::MAX - key * key % 7).collect();
    let mut records = with_keys(&keys);
    for record in records.chunks_exact_mut(LENGTH) {
        record.copy_within(2..10, 0);
    }
    for buckets in [1, 2, 5, 7, 64] {
        sorts(&records, 1, buckets, 30, 64);
        sorts(&records, 3, buckets, 30, 64);
    }
}

#[test]
fn places_are_positions() {
    for (block, record) in [(0, 16), (6, 4), (MOST - 1, 0), (0, MOST - 1)] {
        let place = Place { block, record };
        assert_eq!(Place::of(place.position()), place);
    }
}

#[test]
fn records_that_are_not_grouped_are_damaged() {
    let records = with_keys(&(0..100).map(|key| key << 40).collect::<Vec<_>>());
    let plan = Plan::new(&cuts(&records, 100, 1), some(10));
    let (mut blocks, _) = grouped(&records, &plan, NonZeroU32::MIN, Shape::of(100));
    let (first, second) = blocks[0].buffers[0][..records.len()].split_at_mut(50 * LENGTH);
    first.swap_with_slice(second);
    let mut sorted = Sorted::new::<Tera>(class(&blocks, 0), plan.starts(0), 64).unwrap();
    let mut out = alloc::vec![0; records.len()];
    assert_eq!(sorted.fill::<Tera>(&mut out), Err(Failure::Damaged));
}

proptest! {
    /// Memory that another core has written over is found out, or gives some records; it never
    /// panics or goes on for ever.
    #[test]
    fn damaged_blocks_do_no_harm(
        changes in prop::collection::vec((0usize..100 * 200, any::<u8>()), 1..40),
        cut in prop::collection::vec((0usize..3, 0usize..100 * 200), 0..3),
        most in 64usize..300,
    ) {
        let records = generated(Format::Binary, 600);
        let plan = Plan::new(&cuts(&records, 100, 1), some(4));
        let (mut all, _) = grouped(&records, &plan, NonZeroU32::MIN, Shape::of(200));
        for (at, byte) in changes {
            all[at % 3].buffers[0][at] = byte;
        }
        let mut blocks = class(&all, 0);
        for (block, bytes) in cut {
            blocks[block] = &blocks[block][..bytes.min(blocks[block].len())];
        }
        let mut sorted = Sorted::new::<Tera>(blocks, plan.starts(0), most).unwrap();
        let mut out = alloc::vec![0; 2 * records.len()];
        match sorted.fill::<Tera>(&mut out) {
            Ok(filled) => prop_assert!(filled <= 600),
            Err(Failure::Damaged) => {}
            Err(Failure::TooMany) => prop_assert!(false),
        }
    }

    /// As a map task leaves them for other nodes: slice by slice, from blocks of which some begin
    /// with records from elsewhere.
    #[test]
    fn slices_of_grouped_blocks_are_all_records_in_order(
        keys in prop::collection::vec(prop_oneof![0u64..10, any::<u64>(), Just(u64::MAX)], 0..400),
        parts in 1u32..4,
        slices in 1u32..6,
        buckets in 1u32..40,
        per_block in 1usize..300,
        together in 1usize..5,
        odd in 0usize..3,
    ) {
        let records = with_keys(&keys);
        let plan = Plan::new(&cuts(&records, 1000, parts), some(buckets));
        let slices = some(slices);
        let (blocks, before) = grouped(&records, &plan, slices, Shape { per_block, together, odd });
        let (mut sorted, mut after) = (Vec::new(), Tally::default());
        for number in 0..(parts * slices.get()) as usize {
            let (part, slice) = (number / slices.get() as usize, number as u32 % slices.get());
            let starts = plan.starts_of(part, slice, slices);
            let sliced = Sorted::new::<Tera>(class(&blocks, number), starts, 64);
            sorted.extend(put_out(sliced.unwrap()));
        }
        prop_assert!(sorted == model(&records));
        sorted.chunks_exact(LENGTH).for_each(|record| after.add(record));
        prop_assert_eq!(before, after);
    }

    #[test]
    fn any_records_are_sorted(
        keys in prop::collection::vec(prop_oneof![0u64..10, any::<u64>(), Just(u64::MAX)], 0..400),
        parts in 1u32..6,
        buckets in 1u32..40,
        per_block in 1usize..500,
    ) {
        sorts(&with_keys(&keys), parts, buckets, per_block, 64);
    }
}
