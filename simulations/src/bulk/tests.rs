//! The figures, and that each check can fail.

use super::faults::{self, Sabotage};
use super::goodput::{Case, cases, measure};
use crate::trace::Trace;

fn goodput(seed: u64, case: &Case) -> super::goodput::Measured {
    let measured = measure(seed, case, &mut Trace::default());
    for figure in &measured.figures {
        println!("{}: {:.4} {}", figure.name, figure.value, figure.unit);
    }
    measured
}

#[test]
fn links_are_used_well() {
    for case in cases(20) {
        let measured = goodput(1, &case);
        assert_eq!(measured.broken, None);
        assert!(measured.figures.iter().all(|figure| figure.holds()), "{:?}", measured.figures);
    }
}

#[test]
fn senders_that_ignore_credit_overflow_the_network() {
    for case in cases(20).into_iter().filter(|case| case.nodes == 21) {
        let measured = goodput(1, &Case { obedient: false, ..case });
        assert!(measured.goodput < 0.9 && measured.overflowed > 10_000, "{:?}", measured.figures);
    }
}

#[test]
fn transfers_survive_failing_networks() {
    for seed in 0..20 {
        let story = faults::run(seed, 6, Sabotage::Nothing, &mut Trace::default());
        let story = story.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        // Most arrive, and enough happens.
        assert!(story.sent > 300 && story.delivered * 2 > story.sent, "seed {seed}: {story:?}");
        assert!(story.restarts > 5, "seed {seed}: {story:?}");
    }
}

/// What must be noticed of each sabotage, in the words of one of the checks.
#[test]
fn what_must_not_happen_is_noticed() {
    let noticed = |sabotage| {
        let wrong = |seed| faults::run(seed, 6, sabotage, &mut Trace::default()).err();
        let wrong: Vec<String> = (0..10).filter_map(wrong).collect();
        assert!(!wrong.is_empty(), "{sabotage:?} goes unnoticed");
        wrong
    };
    let any = |wrong: Vec<String>, part| wrong.iter().any(|it| it.contains(part));
    assert!(any(noticed(Sabotage::Data), "are wrong"));
    assert!(any(noticed(Sabotage::Place), "are wrong"));
    assert!(any(noticed(Sabotage::Complete), "make no sense"));
    assert!(any(noticed(Sabotage::Incarnation), "lives"));
    assert!(any(noticed(Sabotage::Silence), "by itself"));
}

#[test]
fn a_seed_is_a_run() {
    let hash = |seed| {
        let mut trace = Trace::default();
        faults::run(seed, 4, Sabotage::Nothing, &mut trace).expect("nothing is broken");
        (trace.events(), trace.hash())
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}
