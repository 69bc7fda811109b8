//! What a store does to its disk, one operation after the other.
//!
//! An operation with a manifest flushes first, so that no manifest is durable before its blocks
//! are; then it writes its records and flushes again; only then does it happen. When the half in
//! use has no room for it, a checkpoint of all datasets goes to the other half before.

use alloc::vec::Vec;

use nile_ipioe::checksum::Checksum;

use crate::entry;
use crate::error::{DiskFailed, Error};
use crate::extent::{Action, Extent, Step, UNIT};
use crate::log::Log;
use crate::record::{Kind, log_bytes};
use crate::space::RECORDS;
use crate::store::{Store, Ticket};
use crate::table::{Contradiction, Dataset, Key, State, Table};

/// Log that is kept free beside a checkpoint's manifests: for its seal, and so that there is
/// always room to commit and to remove.
const RESERVE: u64 = 4 * UNIT;

/// The most units of log that only records of jobs can take; of a small log, a sixteenth.
const MOST_FOR_RECORDS: u64 = 64;

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Put(Dataset),
    Commit(Key),
    Remove(Key),
}

impl Operation {
    /// The `part`-th record; `None` after the last.
    fn payload(&self, part: usize) -> Option<(Kind, Vec<u8>)> {
        match self {
            Operation::Put(dataset) => entry::payload(dataset, part),
            Operation::Commit(key) => (part == 0).then(|| (Kind::Commit, entry::key_payload(key))),
            Operation::Remove(key) => (part == 0).then(|| (Kind::Remove, entry::key_payload(key))),
        }
    }

    fn log_bytes(&self) -> u64 {
        match self {
            Operation::Put(dataset) => entry::dataset_bytes(dataset),
            Operation::Commit(_) | Operation::Remove(_) => log_bytes(0),
        }
    }
}

/// What is under way.
#[derive(Debug)]
pub(crate) struct Work {
    job: Job,
    stage: Stage,
    /// The next record of what is being written.
    part: usize,
}

#[derive(Debug)]
enum Job {
    Operation(Ticket, Operation),
    /// Into this log: the datasets that are left, the last one first, and then the seal.
    Checkpoint {
        log: Log,
        left: Vec<Key>,
        is_sealed: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The blocks are made durable.
    Blocks,
    /// Records are written.
    Records,
    /// The records are made durable.
    Flush,
}

impl Work {
    /// A checkpoint of a table, into the half that is not used by `generation`.
    pub fn checkpoint(extent: &Extent, generation: u64, checksum: Checksum, table: &Table) -> Work {
        let log = Log::begin(extent, generation + 1, checksum);
        let mut left = table.keys();
        left.reverse();
        let job = Job::Checkpoint { log, left, is_sealed: false };
        Work { job, stage: Stage::Records, part: 0 }
    }

    fn operation(ticket: Ticket, operation: Operation) -> Work {
        let has_blocks = matches!(operation, Operation::Put(_));
        let stage = if has_blocks { Stage::Blocks } else { Stage::Records };
        Work { job: Job::Operation(ticket, operation), stage, part: 0 }
    }

    /// The next record and the log it goes to; `None` when all are written.
    fn record(&mut self, log: &mut Log, table: &Table) -> Option<Step> {
        match &mut self.job {
            Job::Operation(_, operation) => {
                let (kind, payload) = operation.payload(self.part)?;
                self.part += 1;
                Some(log.append(kind, &payload))
            }
            Job::Checkpoint { log, left, is_sealed } => {
                while let Some(key) = left.last() {
                    let dataset = table.get(key);
                    match dataset.and_then(|dataset| entry::payload(dataset, self.part)) {
                        Some((kind, payload)) => {
                            self.part += 1;
                            return Some(log.append(kind, &payload));
                        }
                        None => {
                            left.pop();
                            self.part = 0;
                        }
                    }
                }
                (!core::mem::replace(is_sealed, true)).then(|| log.append(Kind::Sealed, &[]))
            }
        }
    }
}

impl Store {
    /// What is to be done or has been done; `None` if there is nothing, or if the disk has not
    /// done yet what it was asked.
    pub fn poll(&mut self) -> Option<Action> {
        loop {
            if let Some((ticket, result)) = self.ended.pop_front() {
                return Some(Action::Done(ticket, result));
            }
            if self.is_waiting || self.has_failed {
                return None;
            }
            match &mut self.work {
                Some(work) => {
                    let record = match work.stage {
                        Stage::Records => work.record(&mut self.log, &self.table),
                        Stage::Blocks | Stage::Flush => None,
                    };
                    if record.is_none() && work.stage == Stage::Records {
                        work.stage = Stage::Flush;
                    }
                    self.is_waiting = true;
                    return Some(Action::Disk(record.unwrap_or(Step::Flush)));
                }
                None => {
                    let (ticket, operation) = self.queue.pop_front()?;
                    self.begin(ticket, operation);
                }
            }
        }
    }

    /// Hears how what [`poll`](Self::poll) had asked of the disk has ended.
    pub fn completed(&mut self, result: Result<(), DiskFailed>) {
        if !core::mem::take(&mut self.is_waiting) {
            return;
        }
        let Some(work) = &mut self.work else { return };
        match (result, work.stage) {
            (Err(failed), _) => self.fail(failed),
            (Ok(()), Stage::Blocks) => work.stage = Stage::Records,
            (Ok(()), Stage::Records) => {}
            (Ok(()), Stage::Flush) => self.finish(),
        }
    }

    /// Begins an operation, a checkpoint that makes room for it, or ends it at once.
    fn begin(&mut self, ticket: Ticket, operation: Operation) {
        match self.permit(&operation) {
            Ok(true) if self.log.room() < operation.log_bytes() => {
                self.queue.push_front((ticket, operation));
                let generation = self.log.generation();
                let work = Work::checkpoint(&self.extent, generation, self.checksum, &self.table);
                self.work = Some(work);
            }
            Ok(true) => self.work = Some(Work::operation(ticket, operation)),
            refused => {
                if let Operation::Put(dataset) = &operation {
                    self.give(dataset);
                }
                self.ended.push_back((ticket, refused.map(|_| ())));
            }
        }
    }

    /// Whether an operation has anything to do; why it cannot be.
    fn permit(&self, operation: &Operation) -> Result<bool, Error> {
        let kept = match operation {
            Operation::Put(dataset) => {
                let manifest = &dataset.manifest;
                self.table.fence(&manifest.name, manifest.version)?;
                if self.get(&manifest.name, manifest.version).is_some() {
                    return Err(Error::Exists);
                }
                self.kept_from(manifest.name.as_str().starts_with(RECORDS))
            }
            Operation::Commit(key) => {
                self.table.fence(&key.0, key.1)?;
                let dataset = self.table.get(key).ok_or(Error::NotFound)?;
                if dataset.state == State::Committed {
                    return Ok(false);
                }
                UNIT
            }
            Operation::Remove(key) => {
                self.table.get(key).ok_or(Error::NotFound)?;
                UNIT
            }
        };
        let (wanted, free) = (operation.log_bytes(), self.log_free(kept));
        if wanted > free { Err(Error::CatalogueFull { wanted, free }) } else { Ok(true) }
    }

    /// Bytes of the log that a new dataset, or a new record of a job, cannot have.
    pub(crate) fn kept_from(&self, is_record: bool) -> u64 {
        let units = (self.extent.log_bytes / UNIT / 16).min(MOST_FOR_RECORDS);
        RESERVE + if is_record { 0 } else { units * UNIT }
    }

    /// What a checkpoint would leave free of the log, without bytes that are kept.
    pub(crate) fn log_free(&self, kept: u64) -> u64 {
        self.extent.log_bytes.saturating_sub(self.table.log_bytes() + kept)
    }

    /// The records are durable: what they say has happened.
    fn finish(&mut self) {
        let Some(work) = self.work.take() else { return };
        let (ticket, operation) = match work.job {
            Job::Checkpoint { mut log, .. } => {
                log.flushed();
                self.log = log;
                return;
            }
            Job::Operation(ticket, operation) => (ticket, operation),
        };
        self.log.flushed();
        let gone = match operation {
            Operation::Put(dataset) => self.table.insert(dataset),
            Operation::Commit(key) => self.table.commit(&key),
            Operation::Remove(key) => Ok(self.table.remove(&key).into_iter().collect()),
        };
        // Nothing has changed since the operation was permitted.
        debug_assert_ne!(gone, Err(Contradiction));
        gone.unwrap_or_default().iter().for_each(|dataset| self.give(dataset));
        self.ended.push_back((ticket, Ok(())));
    }

    fn fail(&mut self, failed: DiskFailed) {
        self.has_failed = true;
        let under_way = self.work.take().and_then(|work| match work.job {
            Job::Operation(ticket, _) => Some(ticket),
            Job::Checkpoint { .. } => None,
        });
        let waiting = self.queue.drain(..).map(|(ticket, _)| ticket);
        let tickets = under_way.into_iter().chain(waiting);
        self.ended.extend(tickets.map(|ticket| (ticket, Err(Error::Disk(failed)))));
    }

    fn give(&mut self, dataset: &Dataset) {
        dataset.units().for_each(|(start, units)| self.free.give(start, units));
    }
}
