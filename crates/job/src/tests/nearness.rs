//! Tasks and workers that are not near each other: how long both wait.

use core::time::Duration;

use nile_abi::NodeId;

use super::all_records;
use super::bench::{Bench, job, splits};
use crate::End;

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
