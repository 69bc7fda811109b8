//! The simulation itself: it passes, it repeats, and what it checks can fail.

use super::*;

fn setup(seed: u64, nodes: u32) -> Setup {
    Setup { seed, nodes, fan_out: FAN_OUT }
}

#[test]
fn small_clusters_keep_their_promises() {
    let options = Options { seed: 1, runs: 6, nodes: Some(20), ..Options::default() };
    let report = run(&options);
    assert_eq!(report.failed, []);
}

#[test]
fn a_seed_repeats_its_run() {
    let hash = |seed| simulate(setup(seed, 20)).trace_hash;
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}

#[test]
fn without_rumours_a_change_is_too_slow() {
    let outcome = simulate(Setup { fan_out: 0, ..setup(1, 100) });
    let misses = outcome.figures.iter().any(|figure| !figure.holds());
    assert!(outcome.broken.is_some() || misses, "{outcome:?}");
}
