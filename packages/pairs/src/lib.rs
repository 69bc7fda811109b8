//! A job over lines of which every pair counts: a pair that is lost, or comes twice, or has other
//! bytes, shows in the output. Tests compare that with what a model makes of the same lines.
//!
//! A line is `KEY VALUE`, parted by its first space; without one all of it is the key, and the
//! value is empty. The output has a line for each key: the key, how many values it has, their
//! bytes, and the sum of their CRC-32s, with tabs between them.
//!
//! A job's arguments may be `keys=N` (a line is a value as it is, under the key that its CRC-32 is
//! modulo N), `combine` (values are added up where they are emitted), `collect=N` (so many bytes of
//! pairs are collected at a time) and `wrong` (one value of some keys is left out: who compares has
//! to notice).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str::FromStr;

use nile_abi::call::System;
use nile_sort::Checksum;
use nile_tasks::{Emitter, Lines, MapReduce, Outcome, Values, map_reduce};

struct Pairs;

/// What an emitted value begins with: whether it is one as it was read, or says of several what
/// a [`Tally`] says.
const PLAIN: u8 = 0;
const ADDED: u8 = 1;

/// What is known of values: how many, their bytes, the sum of their checksums.
#[derive(Default)]
struct Tally([u64; 3]);

impl Tally {
    /// What is known of an emitted value.
    fn of(value: &[u8]) -> Tally {
        match value.split_first() {
            Some((&ADDED, rest)) => {
                let words = rest.as_chunks().0;
                let word = |at: usize| words.get(at).map_or(0, |it| u64::from_le_bytes(*it));
                Tally([0, 1, 2].map(word))
            }
            Some((_, value)) => Tally([1, value.len() as u64, Checksum::of(value).0 as u64]),
            None => Tally::default(),
        }
    }

    fn add(&mut self, other: &Tally) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(more);
        }
    }

    /// As a value to emit.
    fn encode(&self) -> Vec<u8> {
        [&[ADDED][..], &self.0.map(u64::to_le_bytes).concat()].concat()
    }
}

impl MapReduce for Pairs {
    fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
        let number;
        let (key, value) = match given(out.arguments(), "keys=") {
            Some(keys) => {
                number = (Checksum::of(line).0 as usize % keys.max(1)).to_string();
                (number.as_bytes(), line)
            }
            None => {
                let mut words = line.splitn(2, |byte| *byte == b' ');
                let key = words.next().unwrap_or_default();
                (key, words.next().unwrap_or_default())
            }
        };
        let value = [&[PLAIN][..], value].concat();
        match has(out.arguments(), "combine") {
            true => out.emit(key, &Tally::of(&value).encode()),
            false => out.emit(key, &value),
        }
    }

    fn combine(&self, _: &[u8], total: &mut Vec<u8>, value: &[u8]) -> bool {
        let are_added = [&total[..], value].iter().all(|it| it.first() == Some(&ADDED));
        if are_added {
            let mut sum = Tally::of(total);
            sum.add(&Tally::of(value));
            *total = sum.encode();
        }
        are_added
    }

    fn collects(&self, arguments: &[String]) -> usize {
        given(arguments, "collect=").unwrap_or(16 << 20)
    }

    fn reduce(&self, key: &[u8], values: &mut Values<'_, '_>, out: &mut Lines<'_, '_>) -> Outcome {
        let is_wrong = has(out.arguments(), "wrong") && Checksum::of(key).0.is_multiple_of(16);
        let mut total = Tally::default();
        let mut left_out = is_wrong;
        while let Some(value) = values.next()? {
            if !core::mem::take(&mut left_out) {
                total.add(&Tally::of(value));
            }
        }
        let [count, bytes, sum] = total.0.map(|it| it.to_string());
        out.line(&[key, count.as_bytes(), bytes.as_bytes(), sum.as_bytes()])
    }
}

/// The number behind this beginning of an argument.
fn given(arguments: &[String], name: &str) -> Option<usize> {
    arguments.iter().find_map(|it| usize::from_str(it.strip_prefix(name)?).ok())
}

fn has(arguments: &[String], word: &str) -> bool {
    arguments.iter().any(|it| it == word)
}

/// Does what there is to do until the job is over.
pub fn main(system: &dyn System, _: &[u8]) -> u64 {
    map_reduce(system, &Pairs)
}
