//! The figures, and that each check can fail.

use nile_abi::Generation;
use nile_bulk::wire::{Body, Header};

use super::faults::{self, Saboteur};
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
        let [goodput, overflowed] = [0, 1].map(|at| measured.figures[at].value);
        assert!(goodput < 0.9 && overflowed > 10_000.0, "{:?}", measured.figures);
    }
}

#[test]
fn transfers_survive_failing_networks() {
    for seed in 0..20 {
        let story = faults::run(seed, 6, None, &mut Trace::default());
        let story = story.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        // Most arrive, and enough happens.
        assert!(story.sent > 300 && story.delivered * 2 > story.sent, "seed {seed}: {story:?}");
        assert!(story.restarts > 5, "seed {seed}: {story:?}");
    }
}

/// Whether what a saboteur does is noticed, by the check that has these words.
fn is_noticed(seldom: u64, words: &str, tamper: fn(&mut Header, &mut Vec<u8>) -> bool) -> bool {
    let saboteur = Saboteur { seldom, tamper };
    let wrong = |seed| faults::run(seed, 6, Some(&saboteur), &mut Trace::default()).err();
    (0..10).filter_map(wrong).any(|wrong| wrong.contains(words))
}

#[test]
fn what_must_not_happen_is_noticed() {
    assert!(is_noticed(50, "are wrong", |header, data| {
        data.first_mut().filter(|_| matches!(header.body, Body::Data(_))).is_some_and(|byte| {
            *byte ^= 1;
            true
        })
    }));
    assert!(is_noticed(50, "are wrong", |header, _| match &mut header.body {
        Body::Data(block) if block.index > 0 => {
            block.index -= 1;
            true
        }
        _ => false,
    }));
    assert!(is_noticed(50, "make no sense", |header, _| match &mut header.body {
        Body::Credit(credit) => {
            credit.complete = true;
            true
        }
        _ => false,
    }));
    assert!(is_noticed(50, "lives", |header, _| {
        header.source_generation = Generation(1000);
        true
    }));
    // No block ever passes: a frame of none is dropped.
    assert!(is_noticed(1, "by itself", |header, data| {
        data.clear();
        matches!(header.body, Body::Data(_))
    }));
}

#[test]
fn a_seed_is_a_run() {
    let hash = |seed| {
        let mut trace = Trace::default();
        faults::run(seed, 4, None, &mut trace).expect("nothing is broken");
        (trace.events(), trace.hash())
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}
