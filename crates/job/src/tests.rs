//! A master and its workers: what runs where, what runs again, what it costs.

mod bench;
mod keepers;
mod nearness;
mod spans;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use core::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_bosml::Blob;

use crate::worker::Action;
use crate::{
    AttemptId, Batch, Bounds, End, Epoch, Failure, Fault, JobError, JobId, Kind, Location, Lost,
    Note, Order, Peer, Phase, PieceId, Plan, Refused, Session, Settings, Summary, TaskId, ToMaster,
    ToWorker, Work, Worker, WorkerId,
};
use bench::{Bench, job, one_record, splits, worker_id};

/// Map tasks have one record each; the one reduce task has them all.
fn all_records<const MAPS: u64>(_: WorkerId, attempt: AttemptId) -> Result<Summary, Failure> {
    let records = match (attempt.task.kind, attempt.task.index) {
        (Kind::Map, _) => 1,
        (Kind::Reduce, 0) => MAPS,
        _ => 0,
    };
    Ok(Summary { read: 100, written: 100, records, ..Summary::default() })
}

fn count(bench: &Bench, kind: Kind) -> usize {
    bench.started.iter().filter(|(_, attempt)| attempt.task.kind == kind).count()
}

#[test]
fn a_job_runs_every_task_once_where_its_input_is() {
    let mut bench = Bench::new(job(3), splits(40, 4, 1), 4, 2);
    bench.outcome = all_records::<40>;
    let End::Published(parts) = bench.run() else { panic!("{:?}", bench.ended) };
    let partitions: vec::Vec<u32> = parts.iter().map(|part| part.attempt.task.index).collect();
    assert_eq!(partitions, [0, 1, 2]);
    assert_eq!((count(&bench, Kind::Map), count(&bench, Kind::Reduce)), (40, 3));
    let progress = bench.master.progress();
    assert_eq!((progress.counters.local, progress.counters.retries), (40, 0));
    assert_eq!((progress.phase, progress.counters.imbalance), (Phase::Over, 1000));
    assert!(bench.workers.values().all(|worker| worker.held().count() == 0));
}

#[test]
fn samples_are_taken_evenly_and_cut_before_any_map_task() {
    let sampled = crate::Job { samples: 4, ..job(2) };
    let mut bench = Bench::new(sampled, splits(40, 4, 1), 4, 2);
    bench.outcome = |id, attempt| {
        let sample = Blob(vec![attempt.task.index as u8]);
        all_records::<40>(id, attempt).map(|summary| Summary { sample, ..summary })
    };
    while count(&bench, Kind::Map) == 0 {
        assert!(bench.step());
    }
    let sampled = bench.started.iter().filter(|(_, it)| it.task.kind == Kind::Sample);
    let mut sampled: vec::Vec<u32> = sampled.map(|(_, it)| it.task.index).collect();
    sampled.sort_unstable();
    assert_eq!(sampled, [0, 10, 20, 30]);
    let worker = bench.workers.values().find_map(|worker| worker.plan()).unwrap();
    let mut bounds = worker.bounds.bytes.0.clone();
    bounds.sort_unstable();
    assert_eq!(bounds, [0, 10, 20, 30]);
    assert!(matches!(bench.run(), End::Published(_)));
}

#[test]
fn a_job_of_one_partition_has_its_samples_too() {
    let mut bench = Bench::new(crate::Job { samples: 2, ..job(1) }, splits(4, 2, 1), 2, 1);
    bench.outcome = |id, attempt| {
        all_records::<4>(id, attempt).map(|summary| Summary { sample: Blob(vec![7]), ..summary })
    };
    while count(&bench, Kind::Map) == 0 {
        assert!(bench.step());
    }
    let worker = bench.workers.values().find_map(|worker| worker.plan()).unwrap();
    assert_eq!(worker.bounds.bytes.0, [7, 7]);
}

#[test]
fn a_reduce_task_that_lost_what_it_read_begins_again() {
    let mut bench = Bench::new(job(5), splits(2, 2, 1), 3, 1);
    bench.outcome = |id, attempt| {
        // Beyond the splits: it is none of them that is lost.
        if attempt.task == (TaskId { kind: Kind::Reduce, index: 4 }) && attempt.number < 12 {
            let text = String::from("c2 has ended while what it kept was read");
            return Err(Failure { fault: Fault::Input, text });
        }
        all_records::<2>(id, attempt)
    };
    assert!(matches!(bench.run(), End::Published(_)));
    assert!(count(&bench, Kind::Reduce) > 5);
}

#[test]
fn a_second_try_that_came_to_nothing_is_not_made_again_at_once() {
    let mut bench = Bench::new(job(1), splits(2, 2, 2), 2, 1);
    bench.outcome = |id, attempt| match attempt.number {
        1 => all_records::<2>(id, attempt),
        _ => Err(Failure { fault: Fault::Input, text: String::from("it cannot be read") }),
    };
    assert!(bench.step());
    for _ in 0..100 {
        bench.wait(Duration::from_millis(60));
        // The first try of the other task goes on all the while.
        if bench.running.len() > 1 {
            bench.running.rotate_left(1);
            assert!(bench.step());
        }
    }
    let second = count(&bench, Kind::Map) - 2;
    assert!((3..=6).contains(&second), "{second} second tries in six seconds");
    assert!(matches!(bench.run(), End::Published(_)));
}

#[test]
fn partitions_are_gathered_slice_by_slice() {
    let mut bench = Bench::new(crate::Job { samples: 2, ..job(2) }, splits(5, 2, 1), 2, 1);
    bench.outcome = all_records::<5>;
    bench.slices = 4;
    assert!(matches!(bench.run(), End::Published(_)));
    // Each partition has its own four of the eight pieces of each map task, in their order.
    assert_eq!(bench.pieces.len(), 5 * 8);
    for slices in [0..4, 4..8] {
        let own = bench.pieces.iter().map(|it| it.partition).filter(|it| slices.contains(it));
        assert!(own.is_sorted(), "{:?}", bench.pieces);
    }
}

fn attempt(kind: Kind, index: u32) -> AttemptId {
    AttemptId { epoch: Epoch(1), task: TaskId { kind, index }, number: 1 }
}

/// Orders of a master's first session with a worker, of which so many were said before.
fn orders(first: u64, items: &[Order]) -> ToWorker {
    ToWorker {
        job: JobId(7),
        epoch: Epoch(1),
        session: Session(1),
        machine: u32::from(!items.is_empty()),
        master: NodeId(1),
        ask: false,
        orders: Batch { first, items: items.to_vec(), taken: 0 },
    }
}

#[test]
fn no_more_than_the_next_slice_is_fetched() {
    let (id, by) = (worker_id(1, 0), attempt(Kind::Reduce, 1));
    let now = Instant::from_nanos(1);
    let mut worker = Worker::new(now, id, 1, JobId(7), Settings::default());
    let bounds = Bounds { bytes: Blob::default(), slices: 4 };
    let output = |map| Location { output: attempt(Kind::Map, map), at: worker_id(2, 0) };
    let begun = [
        Order::Job(Box::new(job(2))),
        Order::Plan(Plan { epoch: Epoch(1), bounds }),
        Order::Assign { attempt: by, work: Work::Pieces(2) },
        Order::Outputs(vec![output(0), output(1)]),
    ];
    worker.receive(now, orders(0, &[]));
    worker.receive(now, orders(0, &begun));
    assert!(worker.wants() && worker.running().is_none());
    worker.go(now);
    assert_eq!((worker.wants(), worker.running()), (false, Some(by)));
    let asked = |worker: &mut Worker| {
        let actions = core::iter::from_fn(|| worker.poll());
        let piece = |action| match action {
            Action::Peer(_, Peer::Fetch { piece, .. }) => {
                Some((piece.output.task.index, piece.partition))
            }
            _ => None,
        };
        actions.filter_map(piece).collect::<vec::Vec<_>>()
    };
    // The second partition's slices begin with the fourth piece.
    assert_eq!(asked(&mut worker), [(0, 4), (1, 4)]);
    let piece = |map, partition| PieceId { output: attempt(Kind::Map, map), partition };
    assert!(!worker.arrived(now, piece(0, 0), by), "another partition's");
    for (map, partition) in [(0, 4), (1, 4)] {
        assert!(worker.arrived(now, piece(map, partition), by));
        assert!(!worker.arrived(now, piece(map, partition), by), "a second time");
    }
    let gathered = |worker: &mut Worker| {
        let actions = core::iter::from_fn(|| worker.poll());
        actions.filter(|action| *action == Action::Gathered(by)).count()
    };
    assert_eq!(gathered(&mut worker), 1, "the first slice, and nothing more is asked for");
    worker.takes(now, by, 1);
    assert_eq!(asked(&mut worker), [(0, 5), (1, 5)]);
    assert!(worker.arrived(now, piece(1, 5), by) && worker.arrived(now, piece(0, 5), by));
    assert_eq!(gathered(&mut worker), 1);
    worker.takes(now, by, 2);
    assert_eq!(asked(&mut worker), [(0, 6), (1, 6)]);
    // An output that is lost is to be had elsewhere: all that was not taken of it is.
    let lost = Peer::Missing { job: JobId(7), piece: piece(1, 6), by };
    worker.receive_peer(now, lost);
    assert!(worker.arrived(now, piece(0, 6), by));
    worker.takes(now, by, 3);
    assert_eq!(asked(&mut worker), [(0, 7)]);
    let again = Location { output: AttemptId { number: 2, ..attempt(Kind::Map, 1) }, ..output(1) };
    worker.receive(now, orders(4, &[Order::Outputs(vec![again])]));
    assert_eq!(asked(&mut worker), [(1, 6), (1, 7)]);
    // What was taken lies on a disk, and is not there any more.
    worker.unreadable(now, output(0), by);
    let told = core::iter::from_fn(|| worker.poll()).any(|action| match action {
        Action::Send(_, ToMaster { notes, .. }) => {
            let missing = Note::Missing { location: output(0), lack: crate::Lack::Gone };
            notes.items.contains(&missing)
        }
        _ => false,
    });
    assert!(told, "the master has it made again");
}

#[test]
fn what_has_given_way_to_another_job_is_done_again() {
    let mut bench = Bench::new(job(2), splits(6, 2, 2), 2, 1);
    bench.outcome = all_records::<6>;
    for kind in [Kind::Map, Kind::Reduce] {
        while !bench.started.iter().any(|(_, it)| it.task.kind == kind) {
            assert!(bench.step());
        }
        bench.settle();
        let runs = |(id, worker): (&WorkerId, &Worker)| {
            worker.running().filter(|it| it.task.kind == kind).map(|it| (*id, it))
        };
        let (id, given) = bench.workers.iter().find_map(runs).unwrap();
        bench.give_way(id);
        bench.wait(Duration::from_millis(1));
        assert!(bench.workers[&id].running() != Some(given));
    }
    assert!(matches!(bench.run(), End::Published(_)));
    let counters = bench.master.progress().counters;
    assert_eq!((counters.attempts, counters.retries), (6 + 2 + 2, 2));
}

#[test]
fn workers_are_told_how_long_there_is_until_the_deadline() {
    let share = crate::Share::EarliestDeadline { deadline_ms: 5000 };
    let mut bench = Bench::new(crate::Job { share, ..job(1) }, splits(1, 1, 1), 1, 1);
    bench.settle();
    let left = |bench: &Bench, id| match bench.workers[&id].job().unwrap().share {
        crate::Share::EarliestDeadline { deadline_ms } => deadline_ms,
        other => panic!("{other:?}"),
    };
    assert_eq!(left(&bench, worker_id(1, 0)), 5000);
    bench.kill(worker_id(1, 0));
    bench.wait(Duration::from_secs(3));
    bench.join(worker_id(2, 0));
    bench.wait(Duration::from_millis(100));
    assert!((1900..=2000).contains(&left(&bench, worker_id(2, 0))));
}

#[test]
fn bounds_that_cannot_be_cut_end_the_job() {
    let sampled = crate::Job { samples: 4, ..job(2) };
    let mut bench = Bench::new(sampled, splits(40, 4, 1), 4, 2);
    bench.cuts = false;
    let End::Failed(JobError::Task { failure, .. }) = bench.run() else {
        panic!("{:?}", bench.ended)
    };
    assert_eq!(failure.text, "not cut");
    assert_eq!(count(&bench, Kind::Map), 0);
}

#[test]
fn every_worker_can_cut_and_without_workers_nobody_is_waited_for() {
    let sampled = crate::Job { samples: 1, ..job(2) };
    let mut bench = Bench::new(sampled, splits(8, 3, 1), 3, 2);
    bench.is_cut_late = true;
    while !bench.master.is_cutting() {
        assert!(bench.step());
    }
    bench.settle();
    assert_eq!(bench.started.len(), 1, "one of them has taken the sample");
    assert!(bench.workers.values().all(|worker| worker.job().is_some()));
    let late = worker_id(3, 2);
    bench.join(late);
    bench.settle();
    assert!(bench.workers[&late].job().is_some());
    let all: vec::Vec<WorkerId> = bench.workers.keys().copied().collect();
    all.into_iter().for_each(|id| bench.kill(id));
    assert_eq!(bench.run(), End::Failed(JobError::NoWorkers));
}

#[test]
fn outputs_of_a_lost_worker_are_made_again_while_they_are_needed() {
    let mut bench = Bench::new(job(2), splits(20, 3, 2), 3, 2);
    bench.outcome = all_records::<20>;
    while bench.master.progress().maps.0 < 10 {
        assert!(bench.step());
    }
    let lost = worker_id(2, 0);
    let had =
        bench.workers[&lost].held().count() + usize::from(bench.workers[&lost].running().is_some());
    assert!(had > 1);
    bench.kill(lost);
    assert!(matches!(bench.run(), End::Published(_)));
    assert_eq!(count(&bench, Kind::Map), 20 + had);
}

#[test]
fn nothing_is_made_again_that_nobody_needs() {
    let mut bench = Bench::new(job(1), splits(6, 3, 1), 3, 1);
    bench.outcome = all_records::<6>;
    // The reduce task has its pieces, and is not done yet.
    while !bench.running.iter().any(|(_, attempt)| attempt.task.kind == Kind::Reduce) {
        assert!(bench.step());
    }
    let (reducer, _) = bench.running[0];
    let others = [1, 2, 3].map(|node| worker_id(node, 0)).into_iter().filter(|id| *id != reducer);
    others.for_each(|id| bench.kill(id));
    assert!(matches!(bench.run(), End::Published(_)));
    assert_eq!(count(&bench, Kind::Map), 6);
}

#[test]
fn a_reduce_task_gives_way_to_a_map_task_that_it_waits_for() {
    let mut bench = Bench::new(job(2), splits(4, 2, 2), 2, 1);
    bench.outcome = all_records::<4>;
    while bench.master.progress().phase != Phase::Reducing {
        assert!(bench.step());
    }
    // Both workers are busy with reduce tasks; one of them is replaced by a core that has nothing.
    bench.kill(worker_id(1, 0));
    assert!(matches!(bench.run(), End::Published(_)));
    assert!(count(&bench, Kind::Map) > 4, "{:?}", bench.started);
}

#[test]
fn a_split_without_a_living_copy_ends_the_job_with_its_name() {
    let lost = |block| Lost { dataset: 0, block, blocks: 1 };
    let mut bench = Bench::new(job(1), splits(6, 3, 1), 3, 1);
    bench.kill(worker_id(2, 0));
    bench.master.node(bench.now, NodeId(2), false);
    let end = bench.run();
    assert_eq!(end, End::Failed(JobError::LostBlocks(vec![lost(1), lost(4)])));
    let End::Failed(error) = end else { unreachable!() };
    let text = error.text(&job(1).input);
    let expected = "no living node has a copy of block 1 of text, block 4 of text: restart";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_node_that_comes_back_in_time_brings_its_splits() {
    let mut bench = Bench::new(job(1), splits(6, 3, 1), 3, 1);
    bench.outcome = all_records::<6>;
    bench.kill(worker_id(2, 0));
    bench.master.node(bench.now, NodeId(2), false);
    bench.wait(Duration::from_secs(5));
    bench.master.node(bench.now, NodeId(2), true);
    assert!(matches!(bench.run(), End::Published(_)));
}

#[test]
fn code_that_always_fails_ends_the_job_with_its_last_words() {
    let mut bench = Bench::new(job(1), splits(6, 3, 1), 3, 1);
    bench.outcome = |id, attempt| match attempt.task {
        TaskId { kind: Kind::Map, index: 3 } => {
            let text = alloc::format!("no such word, try {}", attempt.number);
            Err(Failure { fault: Fault::Code, text })
        }
        _ => one_record(id, attempt),
    };
    let End::Failed(JobError::Task { task, failure }) = bench.run() else {
        panic!("{:?}", bench.ended)
    };
    assert_eq!((task.index, failure.text.as_str()), (3, "no such word, try 4"));
    // Where it failed it was not tried again at once.
    let tries = bench.started.iter().filter(|(_, it)| it.task == task);
    let nodes: vec::Vec<NodeId> = tries.map(|(id, _)| id.node).collect();
    assert!(nodes.windows(2).all(|pair| pair[0] != pair[1]), "{nodes:?}");
}

#[test]
fn a_piece_that_is_never_delivered_ends_the_job_with_its_name() {
    let mut bench = Bench::new(job(1), splits(4, 2, 1), 2, 1);
    bench.outcome = all_records::<4>;
    bench.delivers = |piece| piece.output.task.index != 2;
    let End::Failed(error) = bench.run() else { panic!("it cannot be published") };
    let text = error.to_string();
    let JobError::Task { task, .. } = error else { panic!("{text}") };
    assert_eq!(task, TaskId { kind: Kind::Reduce, index: 0 });
    let by = bench.started.iter().find(|(_, attempt)| attempt.task == task).unwrap().0;
    assert!(
        text.contains("the piece of map 2 attempt") && text.contains(&by.to_string()),
        "{text}"
    );
    assert!(text.contains("did not come") && text.contains("12 times"), "{text}");

    // One that is delivered late is waited for.
    let mut bench = Bench::new(job(1), splits(4, 2, 1), 2, 1);
    bench.outcome = all_records::<4>;
    bench.delivers = |piece| piece.output.task.index != 2 || piece.output.number > 8;
    assert!(matches!(bench.run(), End::Published(_)));
}

#[test]
fn records_that_are_lost_on_the_way_are_noticed() {
    let mut bench = Bench::new(job(1), splits(6, 3, 1), 3, 1);
    bench.outcome = all_records::<5>;
    let error = JobError::Invalid {
        read: crate::end::Sums { records: 6, checksum: 0 },
        written: crate::end::Sums { records: 5, checksum: 0 },
    };
    assert_eq!(bench.run(), End::Failed(error));
}

#[test]
fn a_cancelled_job_leaves_nothing() {
    let mut bench = Bench::new(job(2), splits(40, 4, 1), 4, 2);
    for _ in 0..20 {
        assert!(bench.step());
    }
    bench.master.cancel(bench.now);
    assert_eq!(bench.run(), End::Failed(JobError::Cancelled));
    let left = |worker: &crate::Worker| worker.held().count() + worker.running().iter().count();
    assert_eq!(bench.workers.values().map(left).sum::<usize>(), 0);
}

#[test]
fn a_new_master_takes_over_what_was_done() {
    let mut bench = Bench::new(job(2), splits(20, 2, 1), 2, 2);
    bench.outcome = all_records::<20>;
    while bench.master.progress().maps.0 < 12 {
        assert!(bench.step());
    }
    let before = bench.master.epoch();
    let epoch = bench.replace_master();
    assert!(epoch > before);
    let End::Published(parts) = bench.run() else { panic!("{:?}", bench.ended) };
    assert!(parts.iter().all(|part| part.attempt.epoch == epoch));
    // What ran when the master went is done again, and nothing else.
    assert_eq!(bench.master.progress().counters.inherited, 12);
    assert!(count(&bench, Kind::Map) <= 20 + 4, "{}", count(&bench, Kind::Map));
}

#[test]
fn neighbours_among_lost_blocks_are_named_together() {
    let mut all = splits(6, 6, 1);
    for (place, split) in all.iter_mut().enumerate() {
        (split.block, split.blocks) = (10 * place as u32, 10);
        split.dataset = u16::from(place == 5);
    }
    let mut bench = Bench::new(job(1), all, 6, 1);
    for node in [2, 3, 5, 6] {
        bench.kill(worker_id(node, 0));
        bench.master.node(bench.now, NodeId(node), false);
    }
    let End::Failed(error) = bench.run() else { panic!() };
    let text = alloc::format!("{error}");
    let blocks = "blocks 10 to 29 of dataset 0 of the input, blocks 40 to 49 of dataset 0";
    assert!(text.contains(blocks) && text.contains("blocks 50 to 59 of dataset 1"), "{text}");
}

#[test]
fn a_job_without_input_has_its_reduce_tasks_begin_at_once() {
    let generator = crate::Job { samples: 8, conserves: false, input: vec![], ..job(4) };
    let mut bench = Bench::new(generator, vec![], 2, 2);
    bench.outcome = |_, _| Ok(Summary { written: 100, records: 10, ..Summary::default() });
    bench.settle();
    assert_eq!((bench.running.len(), count(&bench, Kind::Reduce)), (4, 4));
    let End::Published(parts) = bench.run() else { panic!("{:?}", bench.ended) };
    assert_eq!(parts.iter().map(|part| part.records).sum::<u64>(), 40);
}

#[test]
fn a_job_over_an_empty_input_has_bounds_too() {
    let mut bench = Bench::new(crate::Job { samples: 8, ..job(2) }, vec![], 2, 2);
    (bench.outcome, bench.slices) = (|_, _| Ok(Summary::default()), 3);
    while count(&bench, Kind::Reduce) < 2 {
        assert!(bench.step());
    }
    let plans: vec::Vec<_> = bench.workers.values().filter_map(|worker| worker.plan()).collect();
    assert!(plans.len() >= 2 && plans.iter().all(|plan| plan.bounds.slices == 3));
    assert!(matches!(bench.run(), End::Published(parts) if parts.len() == 2));
}

#[test]
fn a_job_that_cannot_run_is_refused() {
    assert_eq!(job(0).check(1, 8), Err(Refused::NoReducers));
    let refused = job(9).check(1, 8).unwrap_err();
    let text = alloc::format!("{refused}");
    assert_eq!(text, String::from("9 reducers, but there are worker cores for 8"));
    assert_eq!(job(8).check(1, 8), Ok(()));
}

/// Steps and messages of a job of this many map tasks and workers.
fn cost(maps: u32, nodes: u32) -> (u64, usize) {
    let mut bench = Bench::new(job(4), splits(maps, nodes, 2), nodes, 4);
    bench.outcome = |_, _| Ok(Summary::default());
    assert!(matches!(bench.run(), End::Published(_)));
    let counters = bench.master.progress().counters;
    assert!(counters.local >= maps * 9 / 10, "{counters:?}");
    (counters.steps, bench.messages)
}

#[test]
fn work_grows_with_tasks_and_workers_and_not_with_their_product() {
    let (maps, workers) = (10_000, 1000);
    let (steps, messages) = cost(maps, workers / 4);
    let (fewer_steps, fewer_messages) = cost(maps / 4, workers / 16);
    std::println!("{steps} steps, {messages} messages; {fewer_steps}, {fewer_messages}");
    assert!(steps < 8 * u64::from(maps + workers), "{steps} steps");
    assert!(messages < 8 * (maps + workers) as usize, "{messages} messages");
    assert!(steps < 5 * fewer_steps && messages < 5 * fewer_messages);
}
