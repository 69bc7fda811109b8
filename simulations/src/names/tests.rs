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
fn first_broken(conduct: Conduct, nodes: u32, plot: Plot) -> Option<u64> {
    let is_broken = |seed: &u64| {
        let broken = simulate(*seed, nodes, conduct, plot).broken;
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
        let seed = first_broken(conduct, NODES, Plot::Mixed);
        assert!(seed.is_some(), "{conduct:?} was never found");
    }
}

#[test]
fn beside_one_bad_disk_all_commands_are_answered() {
    let options = Options { runs: 300, ..Options::default() };
    let report = run_disks(&options);
    assert_eq!(report.failed, []);
    let of = |name: &str| report.figures.iter().find(|it| it.name == name).unwrap().value;
    for kind in [
        "disks lost",
        "disks in whose place an old copy came",
        "disks of others",
        "disks that were damaged",
        "disks that were full",
        "disks that were slow",
        "nodes that stood still",
    ] {
        assert!(of(kind) > 0.0, "{kind}");
    }
}

#[test]
fn a_bad_disk_that_is_taken_for_a_good_one_is_found() {
    let honest = Conduct::default();
    for conduct in
        [Conduct { fakes_disk: true, ..honest }, Conduct { trusts_foreign: true, ..honest }]
    {
        let seed = first_broken(conduct, 3, Plot::Disks);
        assert!(seed.is_some(), "{conduct:?} was never found");
    }
}
