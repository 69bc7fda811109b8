//! What a master tells of attempts in time.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::bench::{Bench, job, splits, worker_id};
use super::{all_records, count};
use crate::{AttemptId, Kind, Outcome, Span, WorkerId};

#[test]
fn attempts_of_a_worker_follow_each_other() {
    let mut bench = Bench::new(job(3), splits(40, 4, 1), 4, 2);
    bench.outcome = all_records::<40>;
    bench.run();
    let spans = bench.master.spans();
    let known: Vec<(WorkerId, AttemptId)> =
        spans.kept().iter().map(|it| (it.worker, it.attempt)).collect();
    assert_eq!((known.len(), spans.lost()), (43, 0));
    assert!(bench.started.iter().all(|it| known.contains(it)));
    let mut workers: BTreeMap<WorkerId, Vec<Span>> = BTreeMap::new();
    spans.kept().iter().for_each(|it| workers.entry(it.worker).or_default().push(*it));
    for spans in workers.values() {
        for pair in spans.windows(2) {
            assert!(pair[0].over.expect("the next one runs").0 <= pair[1].begun, "{pair:?}");
        }
    }
    let is_done = |span: &Span| {
        span.over
            .is_some_and(|(at, how)| at >= span.begun && how == Outcome::Done && span.read == 100)
    };
    assert!(spans.kept().iter().all(is_done));
}

#[test]
fn what_a_dead_worker_had_is_lost() {
    let mut bench = Bench::new(job(1), splits(8, 2, 2), 2, 1);
    bench.outcome = all_records::<8>;
    while count(&bench, Kind::Map) < 3 {
        assert!(bench.step());
    }
    bench.settle();
    bench.kill(worker_id(2, 0));
    let killed = bench.now;
    bench.run();
    let spans = bench.master.spans().kept();
    let lost: Vec<&Span> =
        spans.iter().filter(|it| it.over.is_some_and(|over| over.1 == Outcome::Lost)).collect();
    assert_eq!(lost.len(), 1, "{spans:?}");
    assert_eq!((lost[0].worker, lost[0].over.unwrap().0), (worker_id(2, 0), killed));
}
