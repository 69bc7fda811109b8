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

/// The first seed whose run breaks what it should.
fn first_broken(conduct: Conduct) -> Option<u64> {
    let is_broken = |seed: &u64| {
        let broken = simulate(*seed, NODES, conduct).broken;
        broken.is_some_and(|broken| broken.contains("no one history"))
    };
    (1..3000).find(is_broken)
}

#[test]
fn every_wrong_is_found() {
    let honest = Conduct::default();
    let wrongs = [
        Conduct { forgets: true, ..honest },
        Conduct { trusts_one: true, ..honest },
        Conduct { fakes_disk: true, ..honest },
        Conduct { trusts_copies: true, ..honest },
        Conduct { mixes_views: true, ..honest },
        Conduct { is_hasty: true, ..honest },
        Conduct { denies: true, ..honest },
    ];
    for conduct in wrongs {
        let seed = first_broken(conduct);
        assert!(seed.is_some(), "{conduct:?} was never found");
    }
}
