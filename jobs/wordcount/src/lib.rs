//! How often each word is in a text: the job that everyone writes first. A word is what white space
//! parts; a line of the output is a word, a tab, and how often it is there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::ToString;
use alloc::vec::Vec;

use nile_abi::call::System;
use nile_tasks::{Emitter, Lines, MapReduce, Outcome, Values, map_reduce};

struct WordCount;

impl MapReduce for WordCount {
    fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
        let words = line.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
        for word in words.filter(|word| !word.is_empty()) {
            out.emit(word, &1u64.to_le_bytes())?;
        }
        Ok(())
    }

    fn combine(&self, _: &[u8], total: &mut Vec<u8>, value: &[u8]) -> bool {
        let sum = count(total) + count(value);
        total.copy_from_slice(&sum.to_le_bytes());
        true
    }

    fn reduce(&self, word: &[u8], values: &mut Values<'_, '_>, out: &mut Lines<'_, '_>) -> Outcome {
        let mut total = 0;
        while let Some(value) = values.next()? {
            total += count(value);
        }
        out.line(&[word, total.to_string().as_bytes()])
    }
}

/// The count that a value tells; every one was made here.
fn count(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Counts words until the job is over.
pub fn main(system: &dyn System, _: &[u8]) -> u64 {
    map_reduce(system, &WordCount)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::String;

    use nile_tasks::local::Local;

    use super::*;

    const TEXT: &str = "to be or not\tto be\n\nthat  is\r\nthe question \u{b}to\nbe";

    /// What the output's lines say, in the order of the words.
    fn counted(text: &str) -> String {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.iter().map(|line| format!("{line};")).collect()
    }

    /// The same, counted here.
    fn model(texts: &[&str]) -> String {
        let mut counts = BTreeMap::<&str, u64>::new();
        let words = texts.iter().flat_map(|text| text.split_ascii_whitespace());
        words
            .flat_map(|word| word.split('\u{b}'))
            .filter(|word| !word.is_empty())
            .for_each(|word| *counts.entry(word).or_default() += 1);
        counts.iter().map(|(word, count)| format!("{word}\t{count};")).collect()
    }

    #[test]
    fn words_are_counted_wherever_blocks_and_splits_end() {
        for (block, blocks) in [(1, 1), (3, 1), (4, 2), (7, 3), (100, 1)] {
            for partitions in [1, 3] {
                let job = Local::new(main).input(TEXT.as_bytes()).splits(block, blocks);
                let done = job.partitions(partitions).run().unwrap();
                assert_eq!(counted(&done.text()), model(&[TEXT]), "{block} {blocks}");
                assert_eq!(done.mapped.records, 5);
            }
        }
    }

    #[test]
    fn counts_are_the_same_with_runs_far_pieces_and_stops() {
        let long: String = (0..40_000u64).map(|at| format!("w{} ", at * at % 7919)).collect();
        let texts = [&long, "last line without end", "", "\n\n", &long];
        let whole = texts.iter().fold(Local::new(main), |job, text| job.input(text.as_bytes()));
        let whole = whole.buffers(64, 4096).splits(4096, 5).partitions(3);
        let expected = model(&texts);
        for job in [
            whole.clone(),
            whole.clone().far(),
            whole.clone().spilling(),
            whole.clone().stopping(),
            whole.clone().far().spilling().stopping(),
        ] {
            let done = job.run().unwrap();
            assert!(counted(&done.text()) == expected, "{job:?}");
        }
        let done = whole.clone().far().spilling().stopping().run().unwrap();
        assert!(done.spilled > 0 && done.stopped > 10, "{} {}", done.spilled, done.stopped);
    }

    #[test]
    fn no_words_make_empty_parts() {
        for text in ["", " \n \n"] {
            let done = Local::new(main).input(text.as_bytes()).partitions(2).run().unwrap();
            assert_eq!(done.parts, [Vec::<Vec<u8>>::new(), Vec::new()]);
        }
    }
}
