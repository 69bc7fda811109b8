//! Whole jobs in memory: generated, sorted, validated.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use nile_abi::call::System;
use nile_sort::random::Random;
use nile_sort::{Format, Generator, Groups, Position, Tera};
use nile_tasks::local::{Local, Made};
use nile_tasks::{Bounds, Done, Far, Halt, Outcome, Range, Stages, Task, run};

use crate::main;
use crate::records::LENGTH;
use crate::sort::{bounds, reduce};

/// Bytes of a buffer, and of the whole records that fit one: 40 of them.
const BUFFER: usize = 4096;
const BLOCK: usize = BUFFER / LENGTH * LENGTH;

fn job(arguments: &[&str]) -> Local {
    Local::new(main).arguments(arguments).buffers(3000, BUFFER)
}

fn records(format: Format, count: usize) -> Vec<u8> {
    let mut records = alloc::vec![0; count * LENGTH];
    Generator::new(format, 0).fill(&mut records);
    records
}

/// The same records in order, equal keys in the order of the input.
fn in_order(records: &[u8]) -> Vec<u8> {
    let mut records: Vec<&[u8]> = records.chunks_exact(LENGTH).collect();
    records.sort_by_key(|record| &record[..10]);
    records.concat()
}

fn sort(inputs: &[&[u8]], block: usize, blocks: usize) -> Local {
    let job = inputs.iter().fold(job(&["sort"]), |job, input| job.input(input));
    job.splits(block, blocks).sampled()
}

/// Checks what a sort has made, and that nothing was lost on the way.
fn check(made: &Made, input: &[u8], what: &str) {
    assert!(made.bytes() == in_order(input), "{what}");
    assert_eq!(made.mapped, made.reduced, "{what}");
    assert_eq!(made.mapped.records, (input.len() / LENGTH) as u64, "{what}");
    let blocks = made.parts.iter().flatten();
    assert!(blocks.clone().all(|block| !block.is_empty() && block.len() <= BLOCK), "{what}");
}

/// The report on an output, after its name.
fn validate(parts: &[Vec<u8>], block: usize) -> (Made, String) {
    let job = parts.iter().fold(job(&["validate"]), |job, part| job.input(part));
    let made = job.splits(block, 3).run().unwrap();
    let report = made.text();
    (made, report)
}

#[test]
fn what_is_generated_is_sorted_and_found_valid() {
    for (words, format) in [
        (&["gen", "3000"][..], Format::Binary),
        (&["gen", "3000", "ascii"], Format::Ascii),
        (&["gen", "3000", "hadoop"], Format::Hadoop),
    ] {
        let generated = job(words).partitions(3).run().unwrap();
        let all = records(format, 3000);
        assert_eq!(generated.bytes(), all);
        assert_eq!(generated.reduced.records, 3000);
        // Blocks as a sort likes them.
        assert!(generated.parts.iter().flatten().all(|block| block.len() <= BLOCK));

        let parts: Vec<_> = generated.parts.iter().map(|part| part.concat()).collect();
        let inputs: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let sorted = sort(&inputs, BLOCK, 4).partitions(4).run().unwrap();
        check(&sorted, &all, words[0]);
        assert!(sorted.parts.iter().all(|part| part.concat().len() > all.len() / 8));

        let parts: Vec<_> = sorted.parts.iter().map(|part| part.concat()).collect();
        for block in [BLOCK, 4096, 777] {
            let (validated, report) = validate(&parts, block);
            assert_eq!(validated.reduced, generated.reduced);
            let checksum = format!("checksum {:x}\n", checksum(&all));
            let expected = format!("records 3000\n{checksum}duplicates 0\nunordered 0\n");
            assert_eq!(report, expected);
        }
    }
}

fn checksum(records: &[u8]) -> u128 {
    records.chunks_exact(LENGTH).map(|record| nile_sort::Checksum::of(record).0).sum()
}

#[test]
fn what_is_out_of_order_is_reported() {
    let mut sorted = in_order(&records(Format::Binary, 500));
    // A record that is less than the one before, one that is equal, and two parts in disorder.
    sorted[200 * LENGTH..202 * LENGTH].fill(0);
    let (first, second) = sorted.split_at(400 * LENGTH);
    for block in [BLOCK, 123] {
        let (_, report) = validate(&[second.into(), first.into()], block);
        let says = "duplicates 1\nunordered 2\nfirst_unordered 100\n";
        assert!(report.ends_with(says), "{report}");
    }
}

#[test]
fn many_blocks_are_grouped_a_few_at_a_time() {
    // Some cut records, and splits end within a group.
    let input = records(Format::Binary, 2600 * BLOCK / LENGTH);
    assert_eq!([1, 320, 321, 960, 2600].map(|all| bounds::grouped(all, 1)), [1, 1, 2, 3, 8]);
    for block in [BLOCK, BLOCK - 30] {
        for blocks in [23, 1300] {
            let whole = sort(&[&input], block, blocks).partitions(2);
            check(&whole.run().unwrap(), &input, "in memory");
        }
    }
}

#[test]
fn all_ways_of_a_record_lead_to_the_same_order() {
    let input = records(Format::Binary, 4000);
    let (one, other) = input.split_at(1500 * LENGTH);
    for blocks in [1, 7] {
        for partitions in [1, 5] {
            let whole = sort(&[one, other], BLOCK, blocks).partitions(partitions);
            check(&whole.run().unwrap(), &input, "in memory");
            let far = whole.clone().far().run().unwrap();
            check(&far, &input, "between nodes");
            assert!(far.far > 0);
            let spilled = whole.clone().spilling().run().unwrap();
            check(&spilled, &input, "with runs");
            assert!(spilled.spilled > 0);
            let stopped = whole.clone().stopping().run().unwrap();
            check(&stopped, &input, "with stops");
            assert!(stopped.stopped > 0);
            let all = whole.clone().far().spilling().stopping().run().unwrap();
            check(&all, &input, "with everything");
        }
    }
}

#[test]
fn pieces_go_to_other_nodes_as_they_are() {
    let mut input = records(Format::Binary, 3000);
    for few in [false, true] {
        if few {
            // The cuts fall among records with equal keys.
            let keys = input.chunks_exact_mut(LENGTH).enumerate();
            keys.for_each(|(at, record)| record[..10].fill((at % 3) as u8));
        }
        for block in [BLOCK, BUFFER, 777, 30] {
            for partitions in [1, 3] {
                let blocks = (300 * LENGTH / block).max(4 * partitions as usize);
                let two = [&input[..1100 * LENGTH], &input[1100 * LENGTH..]];
                let job = sort(&two, block, blocks).partitions(partitions).far();
                let made = job.run().unwrap();
                let what = format!("blocks of {block}, {partitions} partitions, few keys: {few}");
                check(&made, &input, &what);
                check(&job.clone().stopping().run().unwrap(), &input, &what);
                check(&job.arguments(&["sort", "9"]).run().unwrap(), &input, &what);
            }
        }
    }
}

#[test]
fn outputs_that_are_too_large_to_be_told_of_are_several() {
    let input = records(Format::Binary, 7000);
    let job = sort(&[&input], BLOCK, 100).partitions(200);
    check(&job.run().unwrap(), &input, "in memory");
    let far = job.far().run().unwrap();
    check(&far, &input, "between nodes");
    assert!(far.kept > 2, "{} of two map tasks", far.kept);
    assert_eq!(far.far, 200, "they go to another node as one");
}

#[test]
fn a_sort_takes_no_memory_but_that_of_its_records() {
    let input = records(Format::Binary, 3600);
    let made = sort(&[&input], BLOCK, 10).partitions(2).run().unwrap();
    // One more to read the input from, or to write the output to.
    assert_eq!(made.most_buffers, 3600 / 40 + 1);
}

#[test]
fn blocks_and_splits_cut_records() {
    let input = records(Format::Hadoop, 700);
    for (block, blocks) in [(4096, 3), (BUFFER - 1, 1), (99, 1), (30, 2), (150, 5), (4000, 2)] {
        let made = sort(&[&input[..50_000], &input[50_000..]], block, blocks).partitions(2).run();
        check(&made.unwrap(), &input, &format!("{block} {blocks}"));
    }
}

#[test]
fn equal_and_few_keys() {
    let mut input = records(Format::Hadoop, 2000);
    for (at, record) in input.chunks_exact_mut(LENGTH).enumerate() {
        record[..10].fill((at % 2) as u8);
    }
    let job = sort(&[&input], BLOCK, 8).partitions(4);
    check(&job.run().unwrap(), &input, "two keys");
    input.chunks_exact_mut(LENGTH).for_each(|record| record[..10].fill(0xff));
    let job = sort(&[&input], BLOCK, 8).partitions(4);
    let made = job.run().unwrap();
    check(&made, &input, "one key");
    // Records with one key are shared among the parts.
    assert!(made.parts.iter().all(|part| part.concat().len() > input.len() / 8));
    // With others to be merged, their order is not promised; all are there.
    let made = job.clone().far().spilling().run().unwrap();
    assert_eq!(made.mapped, made.reduced);
    assert_eq!(validate(&[made.bytes()], BLOCK).1, {
        let sum = checksum(&input);
        format!("records 2000\nchecksum {sum:x}\nduplicates 1999\nunordered 0\n")
    });
}

#[test]
fn nothing_is_sorted_to_nothing() {
    let made = sort(&[&[]], BLOCK, 1).partitions(3).run().unwrap();
    assert_eq!((made.bytes().len(), made.mapped, made.parts.len()), (0, made.reduced, 3));
    let one = records(Format::Ascii, 1);
    check(&sort(&[&one, &[]], BLOCK, 1).partitions(3).run().unwrap(), &one, "one record");
    let report = "records 0\nchecksum 0\nduplicates 0\nunordered 0\n";
    assert_eq!(validate(&[Vec::new()], BLOCK).1, report);
    assert_eq!(job(&["gen", "0"]).partitions(2).run().unwrap().bytes(), []);
    assert_eq!(job(&["gen", "2"]).partitions(5).run().unwrap().bytes().len(), 2 * LENGTH);
}

#[test]
fn wrong_requests_and_inputs_say_what_is_wrong() {
    let input = records(Format::Binary, 100);
    let cut = &input[..9950];
    let failed = |job: Local| job.run().unwrap_err();
    for (what, says) in [
        (failed(sort(&[cut], BLOCK, 2)), "ends with 50 bytes of a record"),
        (failed(job(&["validate"]).input(cut)), "ends with 50 bytes of a record"),
        (failed(job(&["sort"]).input(&input)), "without samples"),
        (failed(job(&["sort"]).input(&input).partitions(2)), "without samples"),
        (failed(sort(&[&input], BLOCK, 1).arguments(&["sort", "0"])), "from 1 to 64"),
        (failed(job(&["gen"])), "no number of records"),
        (failed(job(&["gen", "-3"])), "`gen` -3"),
        (failed(job(&["gen", "3", "text"])), "format `text`"),
        (failed(job(&["gen", "3"]).input(&input)), "reads nothing"),
        (failed(job(&["sing"])), "first argument"),
        (failed(job(&["gen", "9"]).buffers(10, 64)), "no room for a record"),
        (failed(sort(&[&input], 50, 1).buffers(2, BUFFER)), "no buffer"),
    ] {
        assert!(what.contains(says), "{what:?} should say {says:?}");
    }
}

/// Keeps blocks of a sort of which some bytes were changed, or that are described wrongly.
struct Damaged;

impl Stages for Damaged {
    fn sample(&self, task: &Task<'_>) -> Outcome<Vec<u8>> {
        bounds::sample(task)
    }

    fn cut(&self, task: &Task<'_>) -> Outcome<Bounds> {
        // What it keeps is of whole partitions.
        Ok(Bounds { slices: NonZeroU32::MIN, ..bounds::cut(task)? })
    }

    fn map(&self, task: &Task<'_>) -> Outcome<Done> {
        let mut random = Random::after(task.arguments()[0].parse().unwrap_or_default());
        let mut draw = |below: usize| (random.draw() >> 64) as usize % below;
        let mut groups = Groups::new(bounds::plan(task)?, NonZeroU32::MIN);
        let (block, mut buffer) = (task.block(0)?, task.buffer()?);
        let records = &block.buffer[..block.bytes];
        let made = groups.make::<Tera>(&[records], Position(0), &mut [&mut buffer[..]]);
        made.map_err(|error| Halt::code(format!("{error}")))?;
        for _ in 0..draw(4) {
            let at = draw(records.len());
            buffer[at] = draw(256) as u8;
        }
        let range = |part: u32| {
            let (_, range) = groups.class(part as usize).next().unwrap_or_default();
            let (start, bytes) = (range.start as u32, range.len() as u32);
            Range { partition: part, buffer: 0, start, bytes }
        };
        let mut pieces: Vec<Range> = (0..2).map(range).collect();
        if draw(3) == 0 {
            let piece = draw(2);
            pieces[piece].start = draw(BUFFER - pieces[piece].bytes as usize) as u32;
        }
        task.keep([(buffer, BUFFER)].into(), pieces, Vec::new(), Far::Ranges)?;
        Ok(Done::default())
    }

    fn reduce(&self, task: &Task<'_>) -> Outcome<Done> {
        reduce::reduce(task)
    }
}

#[test]
fn damaged_outputs_are_an_error_or_other_records() {
    let input = records(Format::Binary, 40);
    let main: fn(&dyn System, &[u8]) -> u64 = |system, _| run(system, &Damaged);
    let (mut sorted, mut refused) = (0, 0);
    for seed in 0..400 {
        let job = Local::new(main).arguments(&[&format!("{seed}")]).buffers(20, BUFFER);
        let job = job.input(&input).partitions(2).sampled();
        for job in [job.clone(), job.far()] {
            match job.run() {
                Ok(_) => sorted += 1,
                Err(said) => {
                    assert!(said.contains("damaged"), "{said}");
                    refused += 1;
                }
            }
        }
    }
    assert!(sorted > 50 && refused > 50, "{sorted} {refused}");
}
