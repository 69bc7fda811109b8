//! The scenario on some seeds, and its checks on runs that do wrong.

use super::*;

#[test]
fn no_promise_is_broken() {
    let options = Options { runs: 300, ..Options::default() };
    let report = run(&options);
    assert_eq!(report.failed, []);
    assert_eq!(report.trace_hash, run(&options).trace_hash);
    assert_ne!(report.trace_hash, run(&Options { seed: 2, ..options }).trace_hash);
}

/// Whether some run breaks what it should.
fn is_broken(conduct: Conduct, expected: &str) -> bool {
    let broken = |seed| simulate(seed, 4, conduct).broken;
    (1..30_000).filter_map(broken).any(|broken| broken.contains(expected))
}

#[test]
fn every_check_finds_what_it_is_for() {
    let honest = Conduct::default();
    let cases = [
        (Conduct { takes_twice: true, ..honest }, "records with checksum"),
        (Conduct { forgets_promises: true, ..honest }, "ended twice"),
        (Conduct { forgets_promises: true, ..honest }, "began on"),
        (Conduct { mixes_plans: true, ..honest }, "records with checksum"),
        (Conduct { hoards: true, ..honest }, "still on"),
        (Conduct { is_hasty: true, ..honest }, "while"),
        (Conduct { repeats_machines: true, ..honest }, "starts a second time"),
    ];
    for (conduct, expected) in cases {
        assert!(is_broken(conduct, expected), "{conduct:?} never led to {expected:?}");
    }
}
