//! Merging runs whose buffers come piece by piece.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{LENGTH, model, with_keys};
use crate::layout::Tera;
use crate::merge::{Merge, Step};

/// Merges the runs through buffers and outputs of these numbers of records, and gives what comes
/// out, with how often an output was full.
fn merged(runs: &[Vec<u8>], buffer: usize, output: usize) -> (Vec<u8>, usize) {
    let mut rest: Vec<_> = runs.iter().map(|run| run.chunks(buffer * LENGTH)).collect();
    let mut buffers: Vec<&[u8]> = alloc::vec![&[]; runs.len()];
    let mut merge = Merge::new(runs.len());
    let mut out = alloc::vec![0; output * LENGTH + 17];
    let (mut all, mut fulls) = (Vec::new(), 0);
    loop {
        let (filled, wants) = match merge.fill::<Tera>(&buffers, &mut out) {
            Step::Full(filled) => (filled, None),
            Step::Wants { run, filled } => (filled, Some(run)),
            Step::Done(filled) => {
                all.extend_from_slice(&out[..filled]);
                return (all, fulls);
            }
        };
        all.extend_from_slice(&out[..filled]);
        match wants {
            None => fulls += 1,
            Some(run) => match rest[run].next() {
                Some(next) => {
                    buffers[run] = next;
                    merge.supply(run);
                }
                None => merge.end(run),
            },
        }
    }
}

#[test]
fn no_runs_and_empty_runs() {
    assert_eq!(merged(&[], 1, 1).0, []);
    assert_eq!(merged(&[Vec::new(), Vec::new(), Vec::new()], 1, 1).0, []);
    let one = with_keys(&[1, 2]);
    assert_eq!(merged(&[Vec::new(), one.clone(), Vec::new()], 1, 1).0, one);
}

#[test]
fn keys_of_all_ones_come_before_the_end() {
    let mut last = with_keys(&[1, 2]);
    last[LENGTH..LENGTH + 10].fill(0xff);
    let runs = [last.clone(), last.clone(), with_keys(&[3])];
    let (out, _) = merged(&runs, 1, 2);
    assert_eq!(out, model(&runs.concat()));
}

#[test]
fn an_output_without_room_is_full_at_once() {
    let mut merge = Merge::new(1);
    let run = with_keys(&[1]);
    merge.supply(0);
    assert_eq!(merge.fill::<Tera>(&[&run], &mut [0; 99]), Step::Full(0));
    assert_eq!(merge.fill::<Tera>(&[&run], &mut [0; 100]), Step::Wants { run: 0, filled: 100 });
    // A buffer that nobody asked for changes nothing, nor does one that is empty or was lost.
    merge.supply(1);
    merge.supply(0);
    assert_eq!(merge.fill::<Tera>(&[&[0u8; 0]], &mut [0; 100]), Step::Wants { run: 0, filled: 0 });
    let none: [&[u8]; 0] = [];
    assert_eq!(merge.fill::<Tera>(&none, &mut [0; 100]), Step::Wants { run: 0, filled: 0 });
    merge.end(0);
    assert_eq!(merge.fill::<Tera>(&none, &mut [0; 100]), Step::Done(0));
}

proptest! {
    #[test]
    fn a_merge_is_a_stable_sort(
        runs in prop::collection::vec(prop::collection::vec(0u64..20, 0..30), 0..9),
        buffer in 1usize..5,
        output in 1usize..7,
    ) {
        let runs: Vec<_> = runs.iter().map(|keys| model(&with_keys(keys))).collect();
        let (out, _) = merged(&runs, buffer, output);
        prop_assert_eq!(out, model(&runs.concat()));
    }
}
