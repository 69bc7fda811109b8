//! The scenario on some seeds, and its checks on runs that do wrong.

use super::*;

#[test]
fn what_is_acknowledged_is_in_once_and_for_ever() {
    let options = Options { runs: 300, ..Options::default() };
    let report = run(&options);
    assert_eq!(report.failed, []);
    let again = run(&options);
    assert_eq!(report.trace_hash, again.trace_hash);
    let of = |name: &str| report.figures.iter().find(|it| it.name == name).unwrap().value;
    let kinds = ["hosts and feeders killed", "times opened", "generations", "records put"];
    for name in kinds.into_iter().chain(["letters of parts"]) {
        assert!(of(name) > 300.0, "{name}: {}", of(name));
    }
    assert!(of("events acknowledged") > 300.0 * 60.0);
}

#[test]
fn every_wrong_is_found() {
    let honest = Conduct::default();
    let wrongs = [
        Conduct { is_hasty: true, ..honest },
        Conduct { overwrites: true, ..honest },
        Conduct { ignores_lives: true, ..honest },
    ];
    for conduct in wrongs {
        let is_lost = |seed| {
            let broken = simulate(seed, conduct).broken;
            broken.is_some_and(|why| why.contains("is lost"))
        };
        assert!((1..300).any(is_lost), "{conduct:?} was never found");
    }
}
