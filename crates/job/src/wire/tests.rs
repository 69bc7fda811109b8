//! Every message survives its way; any bytes are a message or an error.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation, NodeId};
use nile_bosml::{Blob, ErrorKind};

use crate::end::MOST_LOST;
use crate::job::MOST_REDUCERS;
use crate::*;

fn attempt(kind: Kind, index: u32) -> AttemptId {
    AttemptId { epoch: Epoch(3), task: TaskId { kind, index }, number: 2 }
}

fn worker() -> WorkerId {
    let (life, generation) = (Generation(4), Generation(5));
    WorkerId { node: NodeId(6), life, core: CoreId(7), generation }
}

/// One message with an order of every kind, and one with a note of every kind.
fn messages() -> (ToWorker, ToMaster) {
    let job = Job {
        id: JobId(1),
        name: String::from("sort"),
        package: String::from("sort.elf"),
        arguments: vec![String::from("-r"), String::new()],
        input: vec![String::from("in")],
        output: String::from("out"),
        reducers: 8,
        copies: 2,
        keepers: vec![NodeId(1), NodeId(2)],
        samples: 9,
        memory: Some(10),
        bytes: 11,
        blocks: 12,
        conserves: true,
        task_timeout: Some(13),
        share: Share::EarliestDeadline { deadline_ms: 15 },
        on: vec![NodeId(3)],
    };
    let bounds = Bounds { bytes: Blob(vec![1, 2, 3]), slices: 5 };
    let plan = Plan { epoch: Epoch(2), bounds };
    let split =
        Split { dataset: 1, block: 2, blocks: 6, bytes: 3, nodes: vec![NodeId(4), NodeId(5)] };
    let location = Location { output: attempt(Kind::Map, 8), at: worker() };
    let orders = vec![
        Order::Job(Box::new(job)),
        Order::Plan(plan.clone()),
        Order::Assign { attempt: attempt(Kind::Map, 1), work: Work::Split(split) },
        Order::Assign { attempt: attempt(Kind::Reduce, 1), work: Work::Pieces(12) },
        Order::Cancel(attempt(Kind::Map, 1)),
        Order::Drop(attempt(Kind::Map, 2)),
        Order::Outputs(vec![location, location]),
        Order::End(vec![attempt(Kind::Reduce, 0), attempt(Kind::Reduce, 3)]),
    ];
    let held = Summary {
        read: 1,
        written: 2,
        records: 3,
        checksum: 4,
        spilled: 5,
        sample: Blob::default(),
    };
    let sampled = Summary { sample: Blob(vec![9; 40]), ..held.clone() };
    let failure = Failure { fault: Fault::Space, text: String::from("the disk is full") };
    let notes = vec![
        Note::Plan(plan),
        Note::Held { attempt: attempt(Kind::Map, 1), plan: Epoch(2), summary: held },
        Note::Ready,
        Note::Done { attempt: attempt(Kind::Sample, 1), summary: sampled },
        Note::Failed { attempt: attempt(Kind::Reduce, 1), failure },
        Note::Stopped(attempt(Kind::Map, 2)),
        Note::Gathered(attempt(Kind::Reduce, 1)),
        Note::Missing { location, lack: Lack::Late },
        Note::Missing { location, lack: Lack::Gone },
        Note::Over,
    ];
    let (job, epoch, session, machine) = (JobId(1), Epoch(3), Session(4), 5);
    let orders = Batch { first: 6, items: orders, taken: 7 };
    let notes = Batch { first: 8, items: notes, taken: 9 };
    let running = Some(RunningAttempt { attempt: attempt(Kind::Map, 2), bytes: 77 });
    (
        ToWorker { job, epoch, session, machine, master: NodeId(2), ask: true, orders },
        ToMaster { job, epoch, session, worker: worker(), machine, running, notes },
    )
}

#[test]
fn every_message_survives_its_way() {
    let (orders, notes) = messages();
    assert_eq!(ToWorker::decode(&orders.encode().unwrap()), Ok(orders));
    assert_eq!(ToMaster::decode(&notes.encode().unwrap()), Ok(notes));
    let piece = PieceId { output: attempt(Kind::Map, 3), partition: 4 };
    let (job, by) = (JobId(1), attempt(Kind::Reduce, 4));
    for peer in [Peer::Fetch { job, piece, by, from: worker() }, Peer::Missing { job, piece, by }] {
        assert_eq!(Peer::decode(&peer.encode().unwrap()), Ok(peer));
    }
}

/// Damaged messages: cut off anywhere, and with every byte changed.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cut = (0..bytes.len()).map(|end| bytes[..end].to_vec());
    let changed = (0..bytes.len()).flat_map(move |at| {
        [1, 0x80, 0xff].map(|bits| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= bits;
            bytes
        })
    });
    cut.chain(changed)
}

#[test]
fn a_damaged_message_is_an_error_or_a_message() {
    let (orders, notes) = messages();
    let (mut others, mut errors) = (0, 0);
    for bytes in damaged(&orders.encode().unwrap()) {
        match ToWorker::decode(&bytes) {
            Ok(other) => {
                assert_eq!(ToWorker::decode(&other.encode().unwrap()), Ok(other));
                others += 1;
            }
            Err(_) => errors += 1,
        }
    }
    for bytes in damaged(&notes.encode().unwrap()) {
        match ToMaster::decode(&bytes) {
            Ok(other) => {
                assert_eq!(ToMaster::decode(&other.encode().unwrap()), Ok(other));
                others += 1;
            }
            Err(_) => errors += 1,
        }
    }
    assert!(others > 100 && errors > 1000, "{others} {errors}");
}

#[test]
fn a_worker_keeps_no_more_pieces_than_a_job_can_have() {
    let (mut orders, _) = messages();
    orders.orders.items =
        vec![Order::Assign { attempt: attempt(Kind::Reduce, 1), work: Work::Pieces(u32::MAX) }];
    assert!(ToWorker::decode(&orders.encode().unwrap()).is_err());
}

fn record(end: Option<End>) -> Record {
    let (orders, _) = messages();
    let job = orders.orders.items.iter().find_map(|order| match order {
        Order::Job(job) => Some((**job).clone()),
        _ => None,
    });
    let split = Split { dataset: 1, block: 2, blocks: 6, bytes: 3, nodes: vec![NodeId(4)] };
    let mut record = Record::new(job.unwrap(), vec![split; 100]);
    record.acceptor.end = end;
    record
}

fn ends() -> Vec<End> {
    let part =
        Part { attempt: attempt(Kind::Reduce, 1), at: worker(), bytes: 1, records: 2, checksum: 3 };
    let sums = Sums { records: 1, checksum: 2 };
    let failure = Failure { fault: Fault::Input, text: String::from("away") };
    let task = TaskId { kind: Kind::Map, index: 4 };
    let lost = Lost { dataset: 1, block: 2, blocks: 3 };
    let failed = [
        JobError::LostBlocks(vec![lost; MOST_LOST]),
        JobError::Task { task, failure },
        JobError::Invalid { read: sums, written: sums },
        JobError::NoWorkers,
        JobError::Cancelled,
    ];
    let published = End::Published(vec![part; MOST_REDUCERS as usize]);
    [published].into_iter().chain(failed.map(End::Failed)).collect()
}

#[test]
fn every_end_survives_its_way_and_its_disk() {
    for end in ends() {
        let standing = Standing::Ended(end.clone());
        assert_eq!(Standing::decode(&standing.encode().unwrap()), Ok(standing));
        let epoch = Epoch(9);
        for word in [
            Word::Ask(Ask::Accept { epoch, end: end.clone() }),
            Word::Answer(Answer::Promised { epoch, end: Some(end.clone()) }),
            Word::Answer(Answer::Ended(end.clone())),
        ] {
            let said = ToKeeper { job: JobId(1), from: NodeId(2), epoch, word };
            assert_eq!(ToKeeper::decode(&said.encode().unwrap()), Ok(said));
        }
        let record = record(Some(end));
        let kept = record.encode().unwrap();
        assert_eq!(Record::decode(&kept).as_ref(), Ok(&record));
        assert!(Record::decode(&kept[..kept.len() - 1]).is_err());
    }
    assert!(Record::decode(&[[]; 0]).is_err());
}

#[test]
fn what_is_of_another_version_says_so() {
    let kept = record(None).encode().unwrap();
    // As it was before messages had fingerprints.
    let older: Vec<&[u8]> = kept.iter().map(|message| &message[4..]).collect();
    let error = Record::decode(&older).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OtherVersion { .. }), "{error}");
    let error = ToWorker::decode(&messages().1.encode().unwrap()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OtherVersion { .. }), "{error}");
}

#[test]
fn a_message_makes_no_room_for_more_than_it_can_have() {
    let (_, notes) = messages();
    let mut many = notes.clone();
    many.notes.items = vec![Note::Over; 64];
    assert_eq!(ToMaster::decode(&many.encode().unwrap()), Ok(many.clone()));
    many.notes.items.push(Note::Over);
    let error = ToMaster::decode(&many.encode().unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (&ErrorKind::TooLarge, "notes"));
}
