//! Binding while everything runs: nothing is lost, nothing runs twice, and age is kept.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;
use proptest::prelude::*;

use super::bench::scheduler;
use crate::{ClassId, Next, Parameters, Scheduler, Stop, Subject};

#[derive(Clone, Copy, Debug)]
enum Step {
    Enqueue(u32),
    Bind(u32, usize),
    Unbind(u32),
    Next,
    RemoveAll(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let subject = 0u32..6;
    let step = prop_oneof![
        4 => subject.clone().prop_map(Step::Enqueue),
        2 => (subject.clone(), 0usize..4).prop_map(|(it, class)| Step::Bind(it, class)),
        1 => subject.clone().prop_map(Step::Unbind),
        4 => Just(Step::Next),
        1 => subject.prop_map(Step::RemoveAll),
        1 => (0u64..300_000_000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..200)
}

fn parameters(class: usize) -> Parameters {
    match class {
        2 => Parameters::none().with("deadline_us", 5_000),
        _ => Parameters::none(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn nothing_is_lost_or_runs_twice(steps in steps()) {
        let (mut it, classes): (Scheduler<u32>, [ClassId; 4]) = scheduler();
        let mut now = Instant::START;
        // What is ready, by subject, in the order of age.
        let mut model: Vec<(u32, Vec<u32>)> = (0..6).map(|subject| (subject, Vec::new())).collect();
        let mut count = 0;
        for step in steps {
            match step {
                Step::Enqueue(subject) => {
                    count += 1;
                    it.enqueue(Subject(subject), count, now);
                    model[subject as usize].1.push(count);
                }
                Step::Bind(subject, class) => {
                    it.bind(Subject(subject), classes[class], &parameters(class), now).unwrap();
                }
                Step::Unbind(subject) => {
                    it.unbind(Subject(subject));
                }
                Step::Next => match it.next(now) {
                    Next::Run(picked) => {
                        let queue = &mut model[picked.turn.subject.0 as usize].1;
                        prop_assert_eq!(Some(&picked.task), queue.first(), "oldest first");
                        queue.remove(0);
                        let span = Duration::from_micros(100);
                        let start = now;
                        now = now + span;
                        it.ran(picked.turn, start, now, Stop::Waits);
                    }
                    Next::Nothing => prop_assert!(model.iter().all(|(_, queue)| queue.is_empty())),
                    Next::Wait(_) => prop_assert!(false, "nobody has a budget"),
                },
                Step::RemoveAll(subject) => {
                    let removed = it.remove_all(Subject(subject));
                    let expected = core::mem::take(&mut model[subject as usize].1);
                    prop_assert_eq!(removed, expected);
                }
                Step::Pass(nanos) => now = now + Duration::from_nanos(nanos),
            }
            let ready: usize = model.iter().map(|(_, queue)| queue.len()).sum();
            prop_assert_eq!(it.ready(), ready);
            prop_assert!(it.statistics().all(|it| it.refused == 0));
        }
        for _ in 0..it.ready() {
            let Next::Run(picked) = it.next(now) else { panic!("something is ready") };
            model[picked.turn.subject.0 as usize].1.retain(|task| *task != picked.task);
        }
        prop_assert!(model.iter().all(|(_, queue)| queue.is_empty()));
    }
}

#[test]
fn a_thousand_move_with_their_age() {
    let (mut it, classes) = scheduler();
    for task in 0..1_000 {
        it.enqueue(Subject(task % 2), task, Instant::START);
    }
    for class in [classes[0], classes[1], classes[3], ClassId::DEFAULT] {
        for subject in [0, 1] {
            it.bind(Subject(subject), class, &Parameters::none(), Instant::START).unwrap();
        }
    }
    let mut order = Vec::new();
    while let Next::Run(picked) = it.next(Instant::START) {
        order.push(picked.task);
    }
    assert_eq!(order, (0..1_000).collect::<Vec<_>>());
}
