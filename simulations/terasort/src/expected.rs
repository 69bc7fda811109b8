//! What a job's output ought to be, by a model of the job that knows nothing of tasks and pieces.

use std::collections::BTreeMap;

use nile_sort::{Checksum, Summary, Tera, Validator};

use crate::plot::Work;

/// Of each key how many values it has, their bytes, and the sum of their checksums.
type Tallies = BTreeMap<Vec<u8>, [u64; 3]>;

/// What is expected.
#[derive(Debug)]
pub enum Expected {
    /// These records, in order.
    Sorted(Summary),
    /// A line for each of these keys.
    Tallies(Tallies),
}

impl Expected {
    /// Of work over an input, given by its parts.
    pub fn of(work: &Work, input: &[Vec<u8>]) -> Result<Expected, String> {
        match work {
            Work::Sort => Ok(Expected::Sorted(summary(input)?)),
            Work::Pairs { keys, .. } => Ok(Expected::Tallies(tallies(input, *keys))),
        }
    }

    /// How many records the job says it has written.
    pub fn records(&self) -> u64 {
        match self {
            Expected::Sorted(made) => made.records,
            Expected::Tallies(tallies) => tallies.len() as u64,
        }
    }

    /// What is wrong with an output, given by its parts.
    pub fn check(&self, output: &[Vec<u8>]) -> Result<(), String> {
        match self {
            Expected::Sorted(made) => {
                let read = summary(output)?;
                if !read.in_order() {
                    return Err(format!("{} records are out of order", read.unordered));
                }
                match (read.records, read.checksum) == (made.records, made.checksum) {
                    true => Ok(()),
                    false => Err(format!("the output has other records than the input: {read:?}")),
                }
            }
            Expected::Tallies(tallies) => check_tallies(tallies, output),
        }
    }
}

fn summary(parts: &[Vec<u8>]) -> Result<Summary, String> {
    parts.iter().try_fold(Summary::default(), |all, part| {
        let mut validator = Validator::<Tera>::new();
        validator.push(part);
        let part = validator.finish().map_err(|cut| format!("a part is cut: {cut}"))?;
        Ok(all.then(part))
    })
}

/// What the package `pairs` makes of lines, which it has under so many keys.
fn tallies(input: &[Vec<u8>], keys: u64) -> Tallies {
    let mut tallies = Tallies::new();
    for part in input {
        let lines = part.strip_suffix(b"\n").unwrap_or(part).split(|byte| *byte == b'\n');
        for line in lines.filter(|_| !part.is_empty()) {
            let checksum = Checksum::of(line).0 as u64;
            let tally = tallies.entry((checksum % keys).to_string().into_bytes()).or_default();
            let more = [1, line.len() as u64, checksum];
            tally.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }
    tallies
}

fn check_tallies(expected: &Tallies, output: &[Vec<u8>]) -> Result<(), String> {
    let mut left = expected.clone();
    for part in output {
        let mut last = None;
        for line in part.split_inclusive(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            let other = || format!("the output has other records than the model: {text:?}");
            let mut words = text.strip_suffix('\n').ok_or_else(other)?.split('\t');
            let key = words.next().unwrap_or_default().as_bytes().to_vec();
            let found: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            if left.remove(&key).is_none_or(|expected| expected[..] != found[..]) {
                return Err(other());
            }
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(format!("keys are out of order: {text:?}"));
            }
            last = Some(key);
        }
    }
    match left.first_key_value() {
        None => Ok(()),
        Some((key, _)) => Err(format!("key {:?} is missing", String::from_utf8_lossy(key))),
    }
}
