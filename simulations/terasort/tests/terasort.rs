//! The simulation of whole jobs: it repeats itself, and finds what does wrong on purpose.

use nile_terasort_simulation::{Conduct, simulate};

/// The first seeds: what one of them has no occasion for, another has.
const SEEDS: std::ops::Range<u64> = 0..6;

/// Runs seeds until one finds something wrong, which has to be this.
fn finds(conduct: Conduct, expected: &str) {
    let mut found = SEEDS.filter_map(|seed| simulate(seed, 3, conduct).end.err());
    let broken = found.next().unwrap_or_else(|| panic!("nothing was found of {conduct:?}"));
    assert!(broken.why.contains(expected), "{conduct:?}: {}", broken.why);
}

#[test]
fn a_seed_of_whole_jobs_is_one_run() {
    let [first, second] = [1, 1].map(|seed| simulate(seed, 3, Conduct::default()));
    assert!(first.end.is_ok(), "{:?}", first.end);
    assert_eq!((first.trace_hash, first.counts), (second.trace_hash, second.counts));
}

#[test]
fn what_does_wrong_in_whole_jobs_is_found() {
    let right = Conduct::default();
    finds(Conduct { wants_too_much: true, ..right }, "it failed: no living node has a copy");
    finds(Conduct { flips_a_bit: true, ..right }, "the output has other records");
    finds(Conduct { leaves_a_draft: true, ..right }, "bytes are taken");
    finds(Conduct { removes_a_copy: true, ..right }, "a minute after the end output");
    finds(Conduct { removes_all: true, ..right }, "it has ended, and 0 parts");
    finds(Conduct { leaves_values_out: true, ..right }, "the output has other records");
}
