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
fn broken(conduct: Conduct) -> Option<String> {
    (1..20).find_map(|seed| simulate(seed, 6, conduct).broken)
}

#[test]
fn every_check_finds_what_it_is_for() {
    let honest = Conduct::default();
    let late = Duration::from_millis(30);
    let cases = [
        (Conduct { has_amnesia: true, ..honest }, "twice"),
        (Conduct { leaks_key: true, ..honest }, "accepted a forged frame"),
        (Conduct { mixes_replies: true, ..honest }, "got another call's reply"),
        (Conduct { lateness: late, ..honest }, "ended after its deadline"),
        (Conduct { is_greedy: true, ..honest }, "remembers too much"),
    ];
    for (conduct, expected) in cases {
        let broken = broken(conduct).unwrap_or_else(|| panic!("{conduct:?} was not found"));
        assert!(broken.contains(expected), "{conduct:?}: {broken}");
    }
}
