//! The scenario on a few seeds, and its checks on runs that do wrong.

use super::*;

#[test]
fn no_promise_is_broken() {
    let options = Options { runs: 24, ..Options::default() };
    let report = run(&options);
    assert_eq!(report.failed, []);
    let figure = |name: &str| report.figures.iter().find(|it| it.name == name).map(|it| it.value);
    assert!(figure("answered calls").is_some_and(|count| count > 20.0), "{:?}", report.figures);
    let again = run(&options);
    assert_eq!(report.trace_hash, again.trace_hash);
    assert_ne!(report.trace_hash, run(&Options { seed: 2, ..options }).trace_hash);
}

/// What is broken in the first of a few runs that breaks anything.
fn broken(sabotage: Sabotage) -> Option<String> {
    (1..20).find_map(|seed| simulate(seed, 6, Some(sabotage)).broken)
}

#[test]
fn every_check_finds_what_it_is_for() {
    let cases = [
        (Sabotage::Amnesia, ["twice", "ended as", "that it is"]),
        (Sabotage::LeakedKey, ["accepted a forged frame", "-", "-"]),
        (Sabotage::MixedReplies, ["got another call's reply", "-", "-"]),
        (Sabotage::LateTimers, ["ended after its deadline", "-", "-"]),
        (Sabotage::Greed, ["remembers too much", "-", "-"]),
    ];
    for (sabotage, expected) in cases {
        let broken = broken(sabotage).unwrap_or_else(|| panic!("{sabotage:?} was not found"));
        assert!(expected.iter().any(|it| broken.contains(it)), "{sabotage:?}: {broken}");
    }
}
