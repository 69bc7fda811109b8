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

/// What is broken in the first of some runs that breaks anything.
fn broken(conduct: Conduct) -> Option<String> {
    (1..3000).find_map(|seed| simulate(seed, 4, conduct).broken)
}

#[test]
fn every_check_finds_what_it_is_for() {
    let honest = Conduct::default();
    let cases = [
        (Conduct { takes_twice: true, ..honest }, "records with checksum"),
        (Conduct { is_unfenced: true, ..honest }, "ended twice"),
        (Conduct { mixes_plans: true, ..honest }, "records with checksum"),
        (Conduct { hoards: true, ..honest }, "still on"),
        (Conduct { is_hasty: true, ..honest }, "while"),
        (Conduct { repeats_machines: true, ..honest }, "starts a second time"),
    ];
    for (conduct, expected) in cases {
        let broken = broken(conduct).unwrap_or_else(|| panic!("{conduct:?} was not found"));
        assert!(broken.contains(expected), "{conduct:?}: {broken}");
    }
}
