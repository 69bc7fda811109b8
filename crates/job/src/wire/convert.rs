//! Messages as records, and back. What has an unknown kind, or lacks what its kind needs, is no
//! message.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation, NodeId};
use nile_bosml::{Blob, Error};

use super::*;
use crate::end::{Failure, Fault, Summary};
use crate::id::{AttemptId, Epoch, JobId, Kind, PieceId, Session, TaskId, WorkerId};
use crate::job::{Job, MOST_SLICES, MOST_SPLITS, Split};
use crate::lane::Batch;
use crate::message::{Bounds, Lack, Location, Note, Order, Peer, Plan, ToMaster, ToWorker, Work};

impl ToWorker {
    /// The binary form. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        encode(&OrdersRecord {
            job: self.job.0,
            epoch: self.epoch.0,
            session: self.session.0,
            machine: self.machine,
            master: self.master.0,
            ask: self.ask,
            first: self.orders.first,
            taken: self.orders.taken,
            orders: self.orders.items.iter().map(from_order).collect(),
        })
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<ToWorker, Error> {
        decode(bytes, |it: OrdersRecord| {
            let items = it.orders.into_iter().map(to_order).collect::<Option<_>>()?;
            Some(ToWorker {
                job: JobId(it.job),
                epoch: Epoch(it.epoch),
                session: Session(it.session),
                machine: it.machine,
                master: NodeId(it.master),
                ask: it.ask,
                orders: Batch { first: it.first, items, taken: it.taken },
            })
        })
    }
}

impl ToMaster {
    /// The binary form. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let running = self.running.iter().map(|(attempt, bytes)| RunningRecord {
            attempt: from_attempt(attempt),
            bytes: *bytes,
        });
        encode(&NotesRecord {
            job: self.job.0,
            epoch: self.epoch.0,
            session: self.session.0,
            worker: from_worker(&self.worker),
            machine: self.machine,
            running: running.collect(),
            first: self.notes.first,
            taken: self.notes.taken,
            notes: self.notes.items.iter().map(from_note).collect(),
        })
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<ToMaster, Error> {
        decode(bytes, |it: NotesRecord| {
            let items = it.notes.into_iter().map(to_note).collect::<Option<_>>()?;
            let running = match it.running.first() {
                Some(running) => Some((to_attempt(&running.attempt)?, running.bytes)),
                None => None,
            };
            Some(ToMaster {
                job: JobId(it.job),
                epoch: Epoch(it.epoch),
                session: Session(it.session),
                worker: to_worker(&it.worker),
                machine: it.machine,
                running,
                notes: Batch { first: it.first, items, taken: it.taken },
            })
        })
    }
}

impl Peer {
    /// The binary form. Fails if it is longer than a message can be, which none is.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let (kind, job, piece, by, from) = match self {
            Peer::Fetch { job, piece, by, from } => (0, job, piece, by, vec![from_worker(from)]),
            Peer::Missing { job, piece, by } => (1, job, piece, by, Vec::new()),
        };
        let (output, by) = (from_attempt(&piece.output), from_attempt(by));
        encode(&PeerRecord { kind, job: job.0, output, partition: piece.partition, by, from })
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Peer, Error> {
        decode(bytes, |it: PeerRecord| {
            let piece = PieceId { output: to_attempt(&it.output)?, partition: it.partition };
            let (job, by) = (JobId(it.job), to_attempt(&it.by)?);
            match it.kind {
                0 => Some(Peer::Fetch { job, piece, by, from: to_worker(it.from.first()?) }),
                1 => Some(Peer::Missing { job, piece, by }),
                _ => None,
            }
        })
    }
}

pub(super) fn from_worker(id: &WorkerId) -> WorkerRecord {
    WorkerRecord { node: id.node.0, life: id.life.0, core: id.core.0, generation: id.generation.0 }
}

pub(super) fn to_worker(record: &WorkerRecord) -> WorkerId {
    WorkerId {
        node: NodeId(record.node),
        life: Generation(record.life),
        core: CoreId(record.core),
        generation: Generation(record.generation),
    }
}

pub(super) fn from_attempt(id: &AttemptId) -> AttemptRecord {
    let TaskId { kind, index } = id.task;
    AttemptRecord { epoch: id.epoch.0, kind: kind as u8, index, number: id.number }
}

pub(super) fn to_attempt(record: &AttemptRecord) -> Option<AttemptId> {
    let task = TaskId { kind: Kind::from_number(record.kind)?, index: record.index };
    Some(AttemptId { epoch: Epoch(record.epoch), task, number: record.number })
}

fn from_location(location: &Location) -> OutputRecord {
    OutputRecord { output: from_attempt(&location.output), at: from_worker(&location.at) }
}

fn to_location(record: &OutputRecord) -> Option<Location> {
    Some(Location { output: to_attempt(&record.output)?, at: to_worker(&record.at) })
}

pub(super) fn from_job(job: &Job) -> JobRecord {
    JobRecord {
        id: job.id.0,
        name: job.name.clone(),
        package: job.package.clone(),
        arguments: job.arguments.clone(),
        input: job.input.clone(),
        output: job.output.clone(),
        reducers: job.reducers,
        copies: job.copies,
        keepers: job.keepers.iter().map(|node| node.0).collect(),
        samples: job.samples,
        memory: job.memory,
        bytes: job.bytes,
        blocks: job.blocks,
        conserves: job.conserves,
        task_timeout: job.task_timeout,
    }
}

pub(super) fn to_job(record: JobRecord) -> Job {
    let JobRecord { id, name, package, arguments, input, output, .. } = record;
    let JobRecord { reducers, copies, samples, memory, bytes, blocks, conserves, .. } = record;
    let task_timeout = record.task_timeout;
    let keepers = record.keepers.into_iter().map(NodeId).collect();
    Job {
        id: JobId(id),
        name,
        package,
        arguments,
        input,
        output,
        reducers,
        copies,
        keepers,
        samples,
        memory,
        bytes,
        blocks,
        conserves,
        task_timeout,
    }
}

pub(super) fn from_split(split: &Split) -> SplitRecord {
    let Split { dataset, block, blocks, bytes, .. } = *split;
    let nodes = split.nodes.iter().map(|node| node.0).collect();
    SplitRecord { dataset, block, blocks, bytes, nodes }
}

pub(super) fn to_split(record: SplitRecord) -> Split {
    let SplitRecord { dataset, block, blocks, bytes, nodes } = record;
    Split { dataset, block, blocks, bytes, nodes: nodes.into_iter().map(NodeId).collect() }
}

fn from_bounds(bounds: &Bounds) -> (Blob, u32) {
    (Blob(bounds.bytes.clone()), bounds.slices)
}

fn to_plan(epoch: u64, bytes: Blob, slices: u32) -> Option<Plan> {
    let bounds = Bounds { bytes: bytes.0, slices };
    (1..=MOST_SLICES).contains(&slices).then_some(Plan { epoch: Epoch(epoch), bounds })
}

fn from_order(order: &Order) -> OrderRecord {
    let mut record = OrderRecord {
        kind: 0,
        attempts: Vec::new(),
        number: 0,
        data: Blob::default(),
        slices: 0,
        job: Vec::new(),
        split: Vec::new(),
        outputs: Vec::new(),
    };
    match order {
        Order::Job(job) => record.job.push(from_job(job)),
        Order::Plan(plan) => {
            (record.kind, record.number) = (1, plan.epoch.0);
            (record.data, record.slices) = from_bounds(&plan.bounds);
        }
        Order::Assign(attempt, work) => {
            record.attempts.push(from_attempt(attempt));
            match work {
                Work::Split(split) => {
                    record.kind = 2;
                    record.split.push(from_split(split));
                }
                Work::Pieces(maps) => (record.kind, record.number) = (3, u64::from(*maps)),
            }
        }
        Order::Cancel(attempt) => {
            record.kind = 4;
            record.attempts.push(from_attempt(attempt));
        }
        Order::Drop(attempt) => {
            record.kind = 5;
            record.attempts.push(from_attempt(attempt));
        }
        Order::Outputs(outputs) => {
            record.kind = 6;
            record.outputs = outputs.iter().map(from_location).collect();
        }
        Order::End(parts) => {
            record.kind = 7;
            record.attempts = parts.iter().map(from_attempt).collect();
        }
    }
    record
}

fn to_order(record: OrderRecord) -> Option<Order> {
    let attempts: Vec<AttemptId> = record.attempts.iter().map(to_attempt).collect::<Option<_>>()?;
    let attempt = attempts.first().copied();
    Some(match record.kind {
        0 => Order::Job(Box::new(to_job(record.job.into_iter().next()?))),
        1 => Order::Plan(to_plan(record.number, record.data, record.slices)?),
        2 => Order::Assign(attempt?, Work::Split(to_split(record.split.into_iter().next()?))),
        3 => {
            // What a worker keeps of pieces grows with their number.
            let maps = u32::try_from(record.number).ok().filter(|it| *it as usize <= MOST_SPLITS);
            Order::Assign(attempt?, Work::Pieces(maps?))
        }
        4 => Order::Cancel(attempt?),
        5 => Order::Drop(attempt?),
        6 => Order::Outputs(record.outputs.iter().map(to_location).collect::<Option<_>>()?),
        7 => Order::End(attempts),
        _ => return None,
    })
}

fn from_note(note: &Note) -> NoteRecord {
    let mut record = NoteRecord {
        kind: 0,
        attempts: Vec::new(),
        number: 0,
        data: Blob::default(),
        slices: 0,
        text: String::new(),
        summary: Vec::new(),
        outputs: Vec::new(),
    };
    let attempt = match note {
        Note::Held(attempt, ..) | Note::Done(attempt, _) | Note::Failed(attempt, _) => attempt,
        Note::Stopped(attempt) | Note::Gathered(attempt) => attempt,
        Note::Plan(plan) => {
            record.number = plan.epoch.0;
            (record.data, record.slices) = from_bounds(&plan.bounds);
            return record;
        }
        Note::Missing(location, lack) => {
            (record.kind, record.number) = (7, *lack as u64);
            record.outputs.push(from_location(location));
            return record;
        }
        Note::Ready | Note::Over => {
            record.kind = if *note == Note::Ready { 2 } else { 8 };
            return record;
        }
    };
    record.attempts.push(from_attempt(attempt));
    match note {
        Note::Held(_, plan, summary) => {
            (record.kind, record.number) = (1, plan.0);
            record.summary.push(from_summary(summary));
        }
        Note::Done(_, summary) => {
            (record.kind, record.data) = (3, Blob(summary.sample.clone()));
            record.summary.push(from_summary(summary));
        }
        Note::Failed(_, failure) => {
            (record.kind, record.number) = (4, failure.fault as u64);
            record.text = failure.text.clone();
        }
        Note::Stopped(_) => record.kind = 5,
        _ => record.kind = 6,
    }
    record
}

fn to_note(record: NoteRecord) -> Option<Note> {
    let attempt = match record.attempts.first() {
        Some(attempt) => Some(to_attempt(attempt)?),
        None => None,
    };
    let summary = record.summary.first().map(to_summary);
    Some(match record.kind {
        0 => Note::Plan(to_plan(record.number, record.data, record.slices)?),
        1 => Note::Held(attempt?, Epoch(record.number), summary?),
        2 => Note::Ready,
        3 => Note::Done(attempt?, Summary { sample: record.data.0, ..summary? }),
        4 => {
            let fault = u8::try_from(record.number).ok().and_then(Fault::from_number)?;
            Note::Failed(attempt?, Failure { fault, text: record.text })
        }
        5 => Note::Stopped(attempt?),
        6 => Note::Gathered(attempt?),
        7 => {
            let lack = if record.number == 0 { Lack::Late } else { Lack::Gone };
            Note::Missing(to_location(record.outputs.first()?)?, lack)
        }
        8 => Note::Over,
        _ => return None,
    })
}

fn from_summary(summary: &Summary) -> SummaryRecord {
    let Summary { read, written, records, checksum, spilled, .. } = *summary;
    SummaryRecord { read, written, records, checksum, spilled }
}

fn to_summary(record: &SummaryRecord) -> Summary {
    let SummaryRecord { read, written, records, checksum, spilled } = *record;
    Summary { read, written, records, checksum, spilled, sample: Vec::new() }
}
