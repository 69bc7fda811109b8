//! Every message survives its way; any bytes are a message or an error.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation, NodeId};

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
        memory: 10,
        bytes: 11,
        blocks: 12,
        conserves: true,
        task_timeout: 13,
    };
    let bounds = Bounds { bytes: vec![1, 2, 3], slices: 5 };
    let plan = Plan { epoch: Epoch(2), bounds };
    let split =
        Split { dataset: 1, block: 2, blocks: 6, bytes: 3, nodes: vec![NodeId(4), NodeId(5)] };
    let location = Location { output: attempt(Kind::Map, 8), at: worker() };
    let orders = vec![
        Order::Job(Box::new(job)),
        Order::Plan(plan.clone()),
        Order::Assign(attempt(Kind::Map, 1), Work::Split(split)),
        Order::Assign(attempt(Kind::Reduce, 1), Work::Pieces(12)),
        Order::Cancel(attempt(Kind::Map, 1)),
        Order::Drop(attempt(Kind::Map, 2)),
        Order::Outputs(vec![location, location]),
        Order::End(vec![attempt(Kind::Reduce, 0), attempt(Kind::Reduce, 3)]),
    ];
    let held = Summary { read: 1, written: 2, records: 3, checksum: 4, spilled: 5, sample: vec![] };
    let sampled = Summary { sample: vec![9; 40], ..held.clone() };
    let failure = Failure { fault: Fault::Space, text: String::from("the disk is full") };
    let notes = vec![
        Note::Plan(plan),
        Note::Held(attempt(Kind::Map, 1), Epoch(2), held),
        Note::Ready,
        Note::Done(attempt(Kind::Sample, 1), sampled),
        Note::Failed(attempt(Kind::Reduce, 1), failure),
        Note::Stopped(attempt(Kind::Map, 2)),
        Note::Gathered(attempt(Kind::Reduce, 1)),
        Note::Missing(location, Lack::Late),
        Note::Missing(location, Lack::Gone),
        Note::Over,
    ];
    let (job, epoch, session, machine) = (JobId(1), Epoch(3), Session(4), 5);
    let orders = Batch { first: 6, items: orders, taken: 7 };
    let notes = Batch { first: 8, items: notes, taken: 9 };
    let running = Some((attempt(Kind::Map, 2), 77));
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
    orders.orders.items = vec![Order::Assign(attempt(Kind::Reduce, 1), Work::Pieces(u32::MAX))];
    assert!(ToWorker::decode(&orders.encode().unwrap()).is_err());
}
