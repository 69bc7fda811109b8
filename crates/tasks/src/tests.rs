//! Jobs in memory: what they are promised, and what they may not do. The package code of the
//! project's jobs is tested beside it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_abi::call::System;

use crate::local::Local;
use crate::{
    Done, Emitter, Far, Halt, Lines, MapReduce, Outcome, Range, Stages, Task, Values, map_reduce,
    run,
};

/// Of each line `KEY VALUE`, the values of each key: how many, their bytes, and the least.
struct Collect;

impl MapReduce for Collect {
    fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
        let mut words = line.splitn(2, |byte| *byte == b' ');
        let key = words.next().unwrap_or_default();
        out.emit(key, words.next().unwrap_or_default())
    }

    fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        // By the first letter, so that parts follow each other.
        key.first().map_or(0, |first| u32::from(*first) * partitions / 256)
    }

    fn reduce(&self, key: &[u8], values: &mut Values<'_, '_>, out: &mut Lines<'_, '_>) -> Outcome {
        let (mut count, mut bytes, mut least) = (0, 0, None);
        while let Some(value) = values.next()? {
            (count, bytes) = (count + 1, bytes + value.len());
            if least.as_ref().is_none_or(|least: &Vec<u8>| *value < **least) {
                least = Some(value.to_vec());
            }
        }
        let least = least.unwrap_or_default();
        let least = least.get(..20).unwrap_or(&least);
        out.line(&[key, count.to_string().as_bytes(), bytes.to_string().as_bytes(), least])
    }
}

fn collect(system: &dyn System, _: &[u8]) -> u64 {
    map_reduce(system, &Collect)
}

fn model(text: &str) -> String {
    let mut all = BTreeMap::<&str, Vec<&str>>::new();
    for line in text.lines() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        all.entry(key).or_default().push(value);
    }
    let line = |(key, values): (&&str, &Vec<&str>)| {
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        let least = values.iter().min().map_or("", |least| &least[..least.len().min(20)]);
        format!("{key}\t{}\t{bytes}\t{least}\n", values.len())
    };
    all.iter().map(line).collect()
}

#[test]
fn all_values_of_a_key_come_together_in_the_order_of_keys() {
    // Values from nothing to several buffers, keys of one letter and of many.
    let line = |at: usize| {
        let value = "v".repeat(at * at % 9000);
        format!("{} {:04}{value}\n", "k".repeat(1 + at % 40), at * 7919 % 5000)
    };
    let text: String = (0..300).map(line).collect();
    let text = text + " no key\nno-value\nz";
    let job = Local::new(collect).input(text.as_bytes()).buffers(2000, 4096).splits(4096, 20);
    for partitions in [1, 3] {
        let job = job.clone().partitions(partitions);
        let jobs = [job.clone(), job.clone().far(), job.clone().spilling(), job.far().stopping()];
        for job in jobs {
            let made = job.run().unwrap();
            assert!(made.text() == model(&text), "{partitions}");
        }
    }
}

#[test]
fn more_pairs_than_are_collected_at_once_are_kept_in_turns() {
    // A pair counts for a hundred bytes in the table. Each key is in all outputs, and those are in
    // the second partition, which is another node's.
    let text: String = (0..360_000u32).map(|at| format!("k{} {at:06}\n", at % 1000)).collect();
    let job = Local::new(collect).input(text.as_bytes()).splits(64 << 10, 1000).partitions(3);
    let far = job.clone().far();
    for (job, outputs) in [(job, 0), (far, 3)] {
        let made = job.run().unwrap();
        assert!(made.text() == model(&text));
        assert_eq!(made.far, outputs, "outputs that are read as one are in no order");
    }
}

#[test]
fn pairs_in_small_buffers_are_kept_in_as_many_outputs_as_can_be_told_of() {
    let text: String = (0..1000).map(|at| format!("{at} {}\n", "v".repeat(2000))).collect();
    let job = Local::new(collect).input(text.as_bytes()).buffers(5000, 1024).splits(1024, 5000);
    let made = job.partitions(5).far().run().unwrap();
    assert!(made.text() == model(&text));
    assert_eq!((made.kept, made.far), (2, 2));
}

#[test]
fn what_may_not_be_kept_goes_to_runs() {
    struct Small;
    impl MapReduce for Small {
        fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
            Collect.map(line, out)
        }
        fn collects(&self, _: &[String]) -> usize {
            20_000
        }
        fn partition(&self, key: &[u8], partitions: u32) -> u32 {
            Collect.partition(key, partitions)
        }
        fn reduce(&self, key: &[u8], of: &mut Values<'_, '_>, out: &mut Lines<'_, '_>) -> Outcome {
            Collect.reduce(key, of, out)
        }
    }
    let main: fn(&dyn System, &[u8]) -> u64 = |system, _| map_reduce(system, &Small);
    let text: String = (0..5000u32).map(|at| format!("k{} {at:06}\n", at * at % 311)).collect();
    let job = Local::new(main).input(text.as_bytes()).buffers(300, 4096).splits(4096, 10);
    for keeps in [0, 1, 5, 1000] {
        for job in [job.clone(), job.clone().partitions(3).far()] {
            let made = job.clone().keeping(keeps).run().unwrap();
            assert!(made.text() == model(&text), "{keeps}");
            assert_eq!((made.kept == 0, made.spilled == 0), (keeps == 0, keeps == 1000));
            let spilled = job.spilling().keeping(keeps).run().unwrap();
            assert!(spilled.text() == model(&text) && spilled.spilled > 0, "{keeps}");
        }
    }
}

#[test]
fn a_line_that_never_ends_is_refused() {
    let text = alloc::vec![b'x'; 17 << 20];
    let said = Local::new(collect).input(&text).splits(64 << 10, 1000).run().unwrap_err();
    assert!(said.contains("a line of more than 16777216 bytes"), "{said}");
}

#[test]
fn a_partition_that_there_is_not_is_refused() {
    struct Wrong;
    impl MapReduce for Wrong {
        fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
            assert_eq!(out.arguments(), ["an argument"]);
            out.emit(line, b"")
        }
        fn partition(&self, _: &[u8], partitions: u32) -> u32 {
            partitions
        }
        fn reduce(&self, _: &[u8], _: &mut Values<'_, '_>, _: &mut Lines<'_, '_>) -> Outcome {
            Ok(())
        }
    }
    let main: fn(&dyn System, &[u8]) -> u64 = |system, _| map_reduce(system, &Wrong);
    let job = Local::new(main).arguments(&["an argument"]).input(b"a\n").partitions(3);
    assert!(job.run().unwrap_err().contains("a key's partition is 3, of 3"));
}

/// Keeps or spills the bytes of the input as if they were pairs, and reduces them.
struct Garbage;

impl Stages for Garbage {
    fn map(&self, task: &Task<'_>) -> Outcome<Done> {
        let block = task.block(0)?;
        let bytes = block.bytes as u32;
        // In two ranges, so that a pair may lie in both.
        let range = |start, bytes| Range { partition: 0, buffer: 0, start, bytes };
        let half = bytes / 2;
        if task.spills() {
            task.spill(0, block.buffer, block.bytes)?;
        } else {
            let pieces = [range(0, half), range(half, bytes - half)].into();
            task.keep([(block.buffer, block.bytes)].into(), pieces, Vec::new(), Far::Ranges)?;
        }
        Ok(Done::default())
    }

    fn reduce(&self, task: &Task<'_>) -> Outcome<Done> {
        crate::map_reduce::Pairs(&Collect).reduce(task)
    }
}

#[test]
fn damaged_pairs_are_an_error_or_other_pairs() {
    let main: fn(&dyn System, &[u8]) -> u64 = |system, _| run(system, &Garbage);
    let (mut damaged, mut random) = (0, 7u64);
    let mut draw = || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) as u8
    };
    for round in 0..300 {
        // Pairs, of which some bytes are others.
        let mut bytes = Vec::new();
        for _ in 0..20 {
            let value = alloc::vec![b'v'; draw().into()];
            crate::pairs::write(&mut bytes, &[draw()], &value);
        }
        for _ in 0..round % 5 {
            let at = usize::from(draw()) * bytes.len() / 256;
            bytes[at] = draw();
        }
        let job = Local::new(main).input(&bytes);
        for job in [job.clone(), job.clone().far(), job.spilling()] {
            match job.run() {
                Ok(_) => {}
                Err(said) => {
                    assert!(round % 5 > 0 && said.contains("are damaged"), "{said}");
                    damaged += 1;
                }
            }
        }
    }
    assert!(damaged > 20, "{damaged}");
}

#[test]
fn a_stage_that_fails_says_why_and_nothing_is_left() {
    struct Fails;
    impl Stages for Fails {
        fn map(&self, task: &Task<'_>) -> Outcome<Done> {
            let _buffer = task.buffer()?;
            match task.block(0) {
                Ok(_) => Err(Halt::code("out of order")),
                Err(halt) => Err(halt),
            }
        }
        fn reduce(&self, _: &Task<'_>) -> Outcome<Done> {
            Ok(Done::default())
        }
    }
    let main: fn(&dyn System, &[u8]) -> u64 = |system, _| run(system, &Fails);
    let job = Local::new(main).input(b"a").input(b"b");
    assert_eq!(job.run().unwrap_err(), "Map(0): out of order");
    let none = job.clone().buffers(1, 64).run().unwrap_err();
    assert!(none.contains("a block of the input") && none.contains("no buffer"), "{none}");
    // Without input there are no map tasks.
    assert_eq!(Local::new(main).run().unwrap().parts.len(), 1);
}

#[test]
fn what_is_beyond_a_split_is_there_and_what_is_not_asked_for_is_not() {
    struct Asks;
    impl Stages for Asks {
        fn map(&self, task: &Task<'_>) -> Outcome<Done> {
            assert!(task.block(task.blocks()).is_err() && task.source().is_err());
            let expected: [&[u8]; 3] = match task.index() {
                0 => [b"cd", b"e", b""],
                1 => [b"e", b"", b""],
                _ => [b"", b"", b""],
            };
            let beyond = [task.beyond(0, 100)?, task.beyond(2, 1)?, task.beyond(3, 100)?];
            assert_eq!(beyond, expected);
            Ok(Done { records: 1, checksum: u64::MAX })
        }
        fn reduce(&self, task: &Task<'_>) -> Outcome<Done> {
            assert!(task.block(0).is_err());
            assert!(matches!(task.source(), Ok(None)) && matches!(task.source(), Ok(None)));
            Ok(Done::default())
        }
    }
    let main: fn(&dyn System, &[u8]) -> u64 = |system, _| run(system, &Asks);
    let made = Local::new(main).input(b"abcde").splits(2, 1).run().unwrap();
    // Sums wrap.
    assert_eq!(made.mapped, Done { records: 3, checksum: u64::MAX - 2 });
}
