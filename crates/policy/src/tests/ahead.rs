//! Turns in an order that is made elsewhere, or is not.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use nile_abi::Instant;

use super::bench::scheduler;
use crate::policies::{Ahead, Load, Plan};
use crate::{ClassId, Expulsion, Next, Parameters, Scheduler, Stop, Subject};

/// Three subjects of the policy, with three tasks each, which are ready.
fn bench() -> (Scheduler<u32>, Rc<Plan>) {
    let (mut it, _) = scheduler();
    let plan = Rc::new(Plan::default());
    let class = it.install("ahead", 40, Box::new(Ahead::new(plan.clone())));
    for subject in 0..3 {
        it.bind(Subject(subject), class, &Parameters::none(), Instant::START).unwrap();
    }
    for task in 0..9 {
        it.enqueue(Subject(task % 3), task, Instant::START);
    }
    (it, plan)
}

/// Whose turns the next ones are, each a microsecond long.
fn turns(it: &mut Scheduler<u32>, count: usize) -> Vec<u32> {
    let mut order = Vec::new();
    for _ in 0..count {
        let Next::Run(picked) = it.next(Instant::START) else { break };
        order.push(picked.turn.subject.0);
        it.ran(picked.turn, Instant::START, Instant::from_nanos(1_000), Stop::Waits);
    }
    order
}

fn wanted(plan: &Plan) -> Option<Vec<Load>> {
    match plan.poll_wanted(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(loads) => Some(loads),
        Poll::Pending => None,
    }
}

#[test]
fn turns_go_by_the_order_and_then_by_age() {
    let (mut it, plan) = bench();
    assert_eq!(wanted(&plan), None, "nothing has had a turn");
    plan.give([2, 2, 0, 2, 2].map(Subject));
    // The last of the order has nothing ready any more.
    assert_eq!(turns(&mut it, 9), [2, 2, 0, 2, 1, 0, 1, 0, 1]);
    let had = |ready, had| (ready, Duration::from_micros(had));
    let loads = wanted(&plan).expect("the order is at its end");
    let loads: Vec<_> = loads.iter().map(|it| (it.ready, it.had)).collect();
    assert_eq!(loads, [had(0, 3); 3]);
    assert_eq!(wanted(&plan), None, "it was asked for");
}

#[test]
fn without_an_order_turns_go_by_age() {
    let (mut it, _) = bench();
    assert_eq!(turns(&mut it, 9), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    assert!(it.statistics().all(|it| it.refused == 0));
}

#[test]
fn who_names_what_is_not_its_own_is_expelled() {
    let (mut it, plan) = bench();
    for _ in 0..3 {
        plan.give([Subject(0), Subject(7)]);
    }
    assert_eq!(turns(&mut it, 9), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    let ahead = it.statistics().find(|it| it.name == "ahead").unwrap();
    assert_eq!((ahead.why(), ahead.refused), (Some(Expulsion::Wrong), 3));
    assert_eq!(it.class_of(Subject(0)), ClassId::DEFAULT);
}

#[test]
fn who_was_bound_elsewhere_is_in_no_order() {
    let (mut it, plan) = bench();
    plan.give([1, 1, 0, 2].map(Subject));
    it.unbind(Subject(1));
    assert_eq!(turns(&mut it, 6), [0, 2, 0, 2, 0, 2]);
    assert!(it.statistics().all(|it| it.refused == 0));
}
