//! Tasks and workers that are not near each other: how long both wait.

use core::time::Duration;

use nile_abi::NodeId;

use super::all_records;
use super::bench::{Bench, job, splits};
use crate::{End, Kind, worker};

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

#[test]
fn a_worker_leaves_others_what_they_are_about_to_do() {
    let mut splits = splits(4, 2, 1);
    splits[2].nodes = [NodeId(2)].into();
    let mut bench = Bench::new(job(1), splits, 2, 1);
    bench.outcome = all_records::<4>;
    bench.settle();
    bench.wait(ms(200));
    assert!(bench.step(), "the one task of n1 is done");
    bench.wait(ms(150));
    assert_eq!(bench.started.len(), 2, "n1 has nothing to do for less time than its task took");
    assert!(bench.step(), "the first task of n2 is done");
    assert_eq!((bench.started.len(), bench.started[2].0.node), (3, NodeId(2)));
    // Tasks take 275 ms.
    bench.wait(ms(120));
    assert_eq!(bench.started.len(), 3);
    bench.wait(ms(10));
    assert_eq!((bench.started.len(), bench.started[3].0.node), (4, NodeId(1)), "n2 is behind");
    assert!(matches!(bench.run(), End::Published(_)));
    assert_eq!(bench.master.progress().counters.local, 3);
}

#[test]
fn before_any_task_has_ended_workers_without_input_wait_a_little() {
    let mut splits = splits(4, 1, 1);
    splits.truncate(2);
    let mut bench = Bench::new(job(1), splits, 2, 1);
    bench.settle();
    bench.wait(ms(49));
    assert_eq!(bench.started.len(), 1);
    bench.wait(ms(2));
    assert_eq!((bench.started.len(), bench.started[1].0.node), (2, NodeId(2)));
}

#[test]
fn nobody_waits_for_others_longer_than_for_three_seconds() {
    let mut bench = Bench::new(job(1), splits(3, 1, 1), 2, 1);
    bench.settle();
    bench.wait(ms(60));
    assert_eq!(bench.started.len(), 2, "n2 has one of n1's");
    bench.wait(ms(20_000));
    // The task of n2, which begins to have nothing to do.
    bench.running.rotate_left(1);
    let before = bench.started.len();
    assert!(bench.step());
    bench.wait(ms(2_900));
    assert_eq!(bench.started.len(), before);
    bench.wait(ms(200));
    assert_eq!(bench.started.len(), before + 1);
}

#[test]
fn workers_are_told_ahead_what_is_next_to_them() {
    let mut bench = Bench::new(job(1), splits(12, 2, 1), 2, 1);
    bench.outcome = all_records::<12>;
    bench.settle();
    // Each runs one and has been told of another.
    assert_eq!(bench.started.len(), 2);
    assert_eq!(bench.master.progress().counters.attempts, 4);
    let (worker, first) = bench.running[0];
    let machine = bench.workers.get_mut(&worker).unwrap();
    machine.done(bench.now, first, all_records::<12>(worker, first).unwrap());
    assert!(machine.wants());
    machine.go(bench.now);
    let begun = core::iter::from_fn(|| machine.poll()).any(
        |action| matches!(action, worker::Action::Start(attempt, _) if attempt.task != first.task),
    );
    assert!(begun, "it goes on before its master has heard");
    let mut bench = Bench::new(job(1), splits(12, 2, 1), 2, 1);
    bench.outcome = all_records::<12>;
    assert!(matches!(bench.run(), End::Published(_)));
    let counters = bench.master.progress().counters;
    assert_eq!((counters.attempts, counters.local, counters.retries), (13, 12, 0));
}

#[test]
fn what_a_lost_worker_was_told_ahead_is_done_by_others() {
    let mut bench = Bench::new(job(1), splits(12, 2, 2), 2, 1);
    bench.outcome = all_records::<12>;
    bench.settle();
    let (lost, running) = bench.started[0];
    bench.kill(lost);
    assert!(matches!(bench.run(), End::Published(_)));
    let by_others = |task| bench.started.iter().any(|(id, it)| it.task == task && *id != lost);
    assert!(by_others(running.task));
    let maps = bench.started.iter().filter(|(id, it)| *id != lost && it.task.kind == Kind::Map);
    assert_eq!(maps.count(), 12);
    assert_eq!(bench.master.progress().counters.retries, 2, "what it did, and what it was to do");
}

#[test]
fn what_was_told_ahead_and_is_slow_to_begin_is_tried_by_others() {
    let mut bench = Bench::new(job(1), splits(8, 2, 2), 2, 1);
    bench.outcome = all_records::<8>;
    bench.settle();
    // The first worker hangs; the other one does all else, and then what waits behind the first.
    let (hangs, running) = bench.started[0];
    let others = |bench: &Bench| bench.running.iter().position(|(id, _)| *id != hangs);
    for _ in 0..100 {
        match others(&bench) {
            Some(place) => {
                bench.running.rotate_left(place);
                assert!(bench.step());
            }
            None => bench.wait(ms(500)),
        }
        if bench.ended.is_some() {
            break;
        }
    }
    assert!(matches!(bench.ended, Some(End::Published(_))));
    let tried = |task| bench.started.iter().filter(|(_, it)| it.task == task).count();
    assert_eq!(tried(running.task), 2);
    assert!(bench.master.progress().counters.second_tries >= 2);
}
