//! Who gets how much, and in what order.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;
use proptest::prelude::*;

use super::bench::{Bench, micros, scheduler};
use crate::{ClassId, Next, Parameters, Refusal, Scheduler, Subject};

fn seconds(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000_000_000)
}

fn order(scheduler: &mut Scheduler<u32>) -> Vec<u32> {
    let mut order = Vec::new();
    while let Next::Run(picked) = scheduler.next(Instant::START) {
        order.push(picked.task);
    }
    order
}

#[test]
fn policies_are_asked_by_their_global_priorities_and_the_default_is_in_between() {
    let (mut it, [fifo, fair, deadline, real_time]) = scheduler();
    let once = Parameters::none().with("deadline_us", 1_000);
    let bound = [(1, fifo, None), (2, fair, None), (3, deadline, Some(once)), (4, real_time, None)];
    for (subject, class, parameters) in bound {
        let parameters = parameters.unwrap_or_default();
        it.bind(Subject(subject), class, &parameters, Instant::START).unwrap();
    }
    for subject in 0..5 {
        it.enqueue(Subject(subject), subject, Instant::START);
    }
    assert_eq!(order(&mut it), [4, 3, 2, 0, 1]);
    let names: Vec<_> = it.statistics().map(|it| it.name).collect();
    assert_eq!(names, ["real_time", "earliest_deadline", "fair", "default", "fifo"]);
}

#[test]
fn real_time_goes_by_priority_and_then_by_age() {
    let (mut it, [.., real_time]) = scheduler();
    for (subject, priority) in [(0, 1), (1, 99), (2, 1), (3, 50)] {
        let local = Parameters::none().with("local_priority", priority);
        it.bind(Subject(subject), real_time, &local, Instant::START).unwrap();
        it.enqueue(Subject(subject), subject, Instant::START);
    }
    assert_eq!(order(&mut it), [1, 3, 0, 2]);
}

#[test]
fn what_is_bound_to_nothing_runs_in_the_order_of_age() {
    let (mut it, _) = scheduler();
    for task in 0..100 {
        it.enqueue(Subject(task % 7), task, Instant::START);
    }
    assert_eq!(order(&mut it), (0..100).collect::<Vec<_>>());
}

#[test]
fn parameters_are_checked_and_a_refused_bind_changes_nothing() {
    let (mut it, [fifo, fair, deadline, _]) = scheduler::<()>();
    let mut bind = |class, parameters: &Parameters| {
        it.bind(Subject(0), class, parameters, Instant::START).map_err(|it| it.to_string())
    };
    let none = Parameters::none;
    bind(fair, &none().with("weight", 10_000)).unwrap();
    for (class, parameters, why) in [
        (fair, none().with("weight", 0), "weight is 0; it must be from 1 to 10000"),
        (fair, none().with("nice", 1), "no parameter nice; it takes weight"),
        (fifo, none().with("weight", 1), "takes no parameter, and so no weight"),
        (deadline, none(), "give either deadline_us, or period_us and budget_us"),
        (deadline, none().with("period_us", 1_000), "give either"),
        (deadline, none().with("period_us", 1_000).with("budget_us", 1_001), "not be more"),
        (ClassId(99), none(), "no such policy"),
    ] {
        let refused = bind(class, &parameters).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(it.class_of(Subject(0)), fair);
}

#[test]
fn a_core_is_not_promised_twice() {
    let (mut it, [.., deadline, _]) = scheduler::<()>();
    let half = Parameters::none().with("period_us", 10_000).with("budget_us", 5_000);
    it.bind(Subject(0), deadline, &half, Instant::START).unwrap();
    // The same subject again is no second promise.
    it.bind(Subject(0), deadline, &half, Instant::START).unwrap();
    let refused = it.bind(Subject(1), deadline, &half, Instant::START);
    let (promised, asked, most) = (500_000, 500_000, 950_000);
    assert_eq!(refused, Err(Refusal::Overcommitted { promised, asked, most }));
    // What is given up can be promised again.
    assert!(it.unbind(Subject(0)));
    it.bind(Subject(1), deadline, &half, Instant::START).unwrap();
}

#[test]
fn the_real_time_ones_leave_everybody_their_reserve() {
    let (mut it, [fifo, fair, _, real_time]) = scheduler();
    for (subject, class) in [(0, real_time), (1, real_time), (2, fair), (3, fifo)] {
        it.bind(Subject(subject), class, &Parameters::none(), Instant::START).unwrap();
    }
    // The fourth is bound to nothing.
    let mut bench = Bench::new(it, 5);
    bench.run(micros(500), seconds(10));
    for subject in [2, 3, 4] {
        let (had, waited) = (bench.had[subject], bench.waited[subject]);
        let share = had.as_secs_f64() / 10.0;
        assert!((0.04..=0.06).contains(&share), "subject {subject} had {share} of the core");
        assert!(waited <= Duration::from_secs(1), "subject {subject} has waited for {waited:?}");
    }
    assert!(bench.scheduler.statistics().all(|it| it.expelled.is_none() && it.refused == 0));
}

#[test]
fn a_change_of_priority_is_for_what_is_ready_too() {
    let (mut it, [.., real_time]) = scheduler();
    let urgent = |priority| Parameters::none().with("local_priority", priority);
    for subject in [0, 1] {
        it.bind(Subject(subject), real_time, &urgent(10), Instant::START).unwrap();
        it.enqueue(Subject(subject), subject, Instant::START);
    }
    it.bind(Subject(1), real_time, &urgent(20), Instant::START).unwrap();
    it.enqueue(Subject(1), 2, Instant::START);
    let mut order = Vec::new();
    while let Next::Run(picked) = it.next(Instant::START) {
        order.push(picked.task);
    }
    assert_eq!(order, [1, 2, 0]);
}

#[test]
fn a_deadline_gets_its_budget_and_no_more() {
    let (mut it, [_, fair, deadline, _]) = scheduler();
    let terms = Parameters::none().with("period_us", 10_000).with("budget_us", 3_000);
    it.bind(Subject(0), deadline, &terms, Instant::START).unwrap();
    it.bind(Subject(1), fair, &Parameters::none(), Instant::START).unwrap();
    let mut bench = Bench::new(it, 2);
    bench.run(micros(250), seconds(2));
    let share = bench.had[0].as_secs_f64() / 2.0;
    assert!((0.295..=0.305).contains(&share), "{share} of the core");
}

#[test]
fn what_waits_for_its_next_period_leaves_the_core_idle_until_then() {
    let (mut it, [_, _, deadline, _]) = scheduler();
    let terms = Parameters::none().with("period_us", 10_000).with("budget_us", 3_000);
    it.bind(Subject(0), deadline, &terms, Instant::START).unwrap();
    let mut bench = Bench::new(it, 1);
    bench.run(micros(1_000), Instant::from_nanos(3_000_000));
    assert_eq!(bench.scheduler.next(bench.now), Next::Wait(Instant::from_nanos(10_000_000)));
}

proptest! {
    /// Each has what its weight gives it, to within a turn and a slice.
    #[test]
    fn fair_shares_go_by_weight(
        weights in prop::collection::vec(1i64..=1000, 2..8),
        turn in 50u64..2_000,
    ) {
        let (mut it, [_, fair, ..]) = scheduler();
        let count = u32::try_from(weights.len()).unwrap();
        for (subject, weight) in (0..count).zip(&weights) {
            let parameters = Parameters::none().with("weight", *weight);
            it.bind(Subject(subject), fair, &parameters, Instant::START).unwrap();
        }
        let mut bench = Bench::new(it, count);
        let end = Instant::from_nanos(20_000_000_000);
        bench.run(micros(turn), end);
        let total: i64 = weights.iter().sum();
        let all = bench.now.as_nanos() as f64 / 1e9;
        for (had, weight) in bench.had.iter().zip(&weights) {
            let due = all * *weight as f64 / total as f64;
            let off = (had.as_secs_f64() - due).abs();
            let turn = Duration::from_micros(turn).as_secs_f64();
            prop_assert!(off <= 2.0 * turn * weights.len() as f64, "{had:?} of {due} s due");
        }
    }

    /// Who was away comes back to what the others are at: it neither starves them nor is starved.
    #[test]
    fn who_comes_back_is_not_paid_for_its_absence(away in 1u64..100) {
        let (mut it, [_, fair, ..]) = scheduler();
        for subject in [0, 1] {
            it.bind(Subject(subject), fair, &Parameters::none(), Instant::START).unwrap();
        }
        let mut bench = Bench::new(it, 2);
        let absent = bench.scheduler.remove_all(Subject(1));
        prop_assert_eq!(absent.len(), 1);
        bench.run(micros(1_000), Instant::from_nanos(away * 100_000_000));
        let before = bench.had[0];
        bench.scheduler.enqueue(Subject(1), Subject(1), bench.now);
        bench.run(micros(1_000), bench.now + Duration::from_secs(1));
        let (first, second) = (bench.had[0] - before, bench.had[1]);
        let off = first.abs_diff(second);
        prop_assert!(off <= micros(2_000), "{first:?} and {second:?} of a second");
    }
}
