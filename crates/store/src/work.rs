//! What a store does to its disk, one operation after the other.
//!
//! An operation with a manifest flushes first, so that no manifest is durable before its blocks
//! are; then it writes its records and flushes again; only then does it happen. Notes that wait one
//! behind the other become one record. When the half in use has no room for an operation, a
//! checkpoint goes to the other half before. What is gone then is discarded before its space is
//! anybody's again.

use alloc::vec::Vec;

use crate::checkpoint::Checkpoint;
use crate::entry;
use crate::error::{DiskFailed, Error};
use crate::extent::{Action, Extent, Range, Step, UNIT};
use crate::log::Log;
use crate::note::{self, Notes};
use crate::record::{Kind, UNIT_PAYLOAD};
use crate::space::RECORDS;
use crate::store::{Store, Ticket};
use crate::table::{Contradiction, Dataset, Key, State, Table};

/// Log that is kept free beside a checkpoint: for its seal, and so that there is always room to
/// commit and to remove.
const RESERVE: u64 = 4 * UNIT;

/// The most units of log that only notes and records of jobs can take; of a small log, a sixteenth.
const MOST_FOR_RECORDS: u64 = 64;

/// Units that are discarded at once, at most: 1 GiB.
const MOST_DISCARDED: u32 = (1 << 30) / UNIT as u32;

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Put(Dataset),
    Commit(Key),
    Remove(Key),
    Notes(Notes),
}

impl Operation {
    /// The `part`-th record; `None` after the last.
    fn payload(&self, part: usize) -> Option<(Kind, Vec<u8>)> {
        match self {
            Operation::Put(dataset) => entry::payload(dataset, part),
            Operation::Commit(key) => (part == 0).then(|| (Kind::Commit, entry::key_payload(key))),
            Operation::Remove(key) => (part == 0).then(|| (Kind::Remove, entry::key_payload(key))),
            Operation::Notes(notes) => {
                let payload = || note::payload(notes.iter(), UNIT_PAYLOAD).0;
                (part == 0).then(|| (Kind::Notes, payload()))
            }
        }
    }

    fn log_bytes(&self) -> u64 {
        match self {
            Operation::Put(dataset) => entry::dataset_bytes(dataset),
            // Notes are gathered only as far as they have room in a unit.
            Operation::Commit(_) | Operation::Remove(_) | Operation::Notes(_) => UNIT,
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
    /// For all of these.
    Operation(Vec<Ticket>, Operation),
    Checkpoint(Checkpoint),
    /// These end when what was in these ranges of units is discarded, the last one first.
    Discard(Vec<Ticket>, Vec<(u32, u32)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The blocks are made durable.
    Blocks,
    /// Records are written.
    Records,
    /// The records are made durable.
    Flush,
    /// What is gone is discarded.
    Discards,
}

impl Work {
    pub fn checkpoint(checkpoint: Checkpoint) -> Work {
        Work { job: Job::Checkpoint(checkpoint), stage: Stage::Records, part: 0 }
    }

    fn operation(tickets: Vec<Ticket>, operation: Operation) -> Work {
        let has_blocks = matches!(operation, Operation::Put(_));
        let stage = if has_blocks { Stage::Blocks } else { Stage::Records };
        Work { job: Job::Operation(tickets, operation), stage, part: 0 }
    }

    /// The next record and the log it goes to; `None` when all are written.
    fn record(&mut self, log: &mut Log, table: &Table) -> Option<Step> {
        match &mut self.job {
            Job::Operation(_, operation) => {
                let (kind, payload) = operation.payload(self.part)?;
                self.part += 1;
                Some(log.append(kind, &payload))
            }
            Job::Checkpoint(checkpoint) => checkpoint.record(table),
            Job::Discard(..) => None,
        }
    }

    /// What is discarded next.
    fn discard(&self, extent: &Extent) -> Option<Step> {
        let Job::Discard(_, ranges) = &self.job else { return None };
        let (start, units) = ranges.last()?;
        let at = extent.data() + u64::from(*start) * UNIT;
        Some(Step::Discard(Range { at, bytes: u64::from(*units) * UNIT }))
    }
}

/// Ranges of units as few, in their order, none longer than may be discarded at once.
fn joined(ranges: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = ranges.collect();
    nile_order::sort(&mut ranges);
    let mut all: Vec<(u32, u32)> = Vec::new();
    for (start, units) in ranges {
        match all.last_mut() {
            Some((first, length))
                if *first + *length == start && *length + units <= MOST_DISCARDED =>
            {
                *length += units;
            }
            _ => all.push((start, units)),
        }
    }
    all
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
                    let step = match work.stage {
                        Stage::Records => work.record(&mut self.log, &self.table),
                        Stage::Discards => work.discard(&self.extent),
                        Stage::Blocks | Stage::Flush => None,
                    };
                    if step.is_none() && work.stage == Stage::Records {
                        work.stage = Stage::Flush;
                    }
                    self.is_waiting = true;
                    return Some(Action::Disk(step.unwrap_or(Step::Flush)));
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
            (_, Stage::Discards) => self.discarded(),
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
                let (generation, sum) = (self.log.generation(), self.checksum);
                let begun = Checkpoint::begin(&self.extent, generation, sum, &self.table);
                self.work = Some(Work::checkpoint(begun));
            }
            Ok(true) => {
                let (mut tickets, mut operation) = (Vec::from([ticket]), operation);
                while let Some((ticket, more)) = self.joining(&operation) {
                    self.queue.pop_front();
                    tickets.push(ticket);
                    operation = more;
                }
                self.work = Some(Work::operation(tickets, operation));
            }
            refused => {
                if let Operation::Put(dataset) = &operation {
                    self.give(dataset);
                }
                self.ended.push_back((ticket, refused.map(|_| ())));
            }
        }
    }

    /// Notes together with those that wait next, if they have room in one unit: one flush is for
    /// all of them. The next ones wait on if there is anything else about them.
    fn joining(&self, notes: &Operation) -> Option<(Ticket, Operation)> {
        let (ticket, next) = self.queue.front()?;
        let (Operation::Notes(notes), Operation::Notes(more)) = (notes, next) else { return None };
        let is_other = more.keys().all(|key| !notes.contains_key(key));
        let mut all = notes.clone();
        all.extend(more.clone());
        let bytes: usize = all.iter().map(|(key, value)| note::bytes(key, value)).sum();
        let joins = is_other && bytes <= UNIT_PAYLOAD && self.permit(next) == Ok(true);
        let all = Operation::Notes(all);
        (joins && self.permit(&all) == Ok(true)).then_some((*ticket, all))
    }

    /// Whether an operation has anything to do; why it cannot be.
    fn permit(&self, operation: &Operation) -> Result<bool, Error> {
        let before = self.table.sizes();
        let mut after = before;
        let kept = match operation {
            Operation::Put(dataset) => {
                let manifest = &dataset.manifest;
                self.table.fence(&manifest.name, manifest.version)?;
                if self.get(&manifest.name, manifest.version).is_some() {
                    return Err(Error::Exists);
                }
                after.add(dataset);
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
            Operation::Notes(notes) => {
                if notes.iter().all(|(key, value)| self.table.note(key) == &**value) {
                    return Ok(false);
                }
                for (key, value) in notes {
                    after.note(key, self.table.note(key), value);
                }
                let grows = after.log_bytes() > before.log_bytes();
                if grows { self.kept_from(true) } else { UNIT }
            }
        };
        let grown = after.log_bytes().saturating_sub(before.log_bytes());
        let (wanted, free) = (operation.log_bytes().max(grown), self.log_free(kept));
        if wanted > free { Err(Error::CatalogueFull { wanted, free }) } else { Ok(true) }
    }

    /// Bytes of the log that a new dataset, or a new note or record of a job, cannot have.
    pub(crate) fn kept_from(&self, is_record: bool) -> u64 {
        let units = (self.extent.log_bytes / UNIT / 16).min(MOST_FOR_RECORDS);
        RESERVE + if is_record { 0 } else { units * UNIT }
    }

    /// What a checkpoint would leave free of the log, without bytes that are kept.
    pub(crate) fn log_free(&self, kept: u64) -> u64 {
        self.extent.log_bytes.saturating_sub(self.table.sizes().log_bytes() + kept)
    }

    /// The records are durable: what they say has happened.
    fn finish(&mut self) {
        let Some(work) = self.work.take() else { return };
        let (tickets, operation) = match work.job {
            Job::Checkpoint(mut checkpoint) => {
                checkpoint.log.flushed();
                self.log = checkpoint.log;
                return;
            }
            Job::Operation(tickets, operation) => (tickets, operation),
            // It ends when all is discarded.
            Job::Discard(..) => return,
        };
        self.log.flushed();
        let gone = match operation {
            Operation::Put(dataset) => self.table.insert(dataset),
            Operation::Commit(key) => self.table.commit(&key),
            Operation::Remove(key) => Ok(self.table.remove(&key).into_iter().collect()),
            Operation::Notes(notes) => self.table.set_notes(notes).map(|()| Vec::new()),
        };
        // Nothing has changed since the operation was permitted.
        debug_assert_ne!(gone, Err(Contradiction));
        let gone = joined(gone.unwrap_or_default().iter().flat_map(Dataset::units));
        if gone.is_empty() {
            self.ended.extend(tickets.into_iter().map(|ticket| (ticket, Ok(()))));
        } else {
            let (job, stage) = (Job::Discard(tickets, gone), Stage::Discards);
            self.work = Some(Work { job, stage, part: 0 });
        }
    }

    /// A range was discarded, or cannot be: its space is free.
    fn discarded(&mut self) {
        let Some(Work { job: Job::Discard(tickets, ranges), .. }) = &mut self.work else { return };
        if let Some((start, units)) = ranges.pop() {
            self.free.give(start, units);
        }
        if ranges.is_empty() {
            self.ended.extend(tickets.drain(..).map(|ticket| (ticket, Ok(()))));
            self.work = None;
        }
    }

    /// Asks nothing more of the disk: what waits fails, and so does all that comes.
    pub fn retire(&mut self) {
        self.fail(DiskFailed);
    }

    fn fail(&mut self, failed: DiskFailed) {
        self.has_failed = true;
        let under_way = self.work.take().map(|work| match work.job {
            Job::Operation(tickets, _) => tickets,
            Job::Checkpoint(_) => Vec::new(),
            // It has happened.
            Job::Discard(tickets, _) => {
                self.ended.extend(tickets.into_iter().map(|ticket| (ticket, Ok(()))));
                Vec::new()
            }
        });
        let waiting = self.queue.drain(..).map(|(ticket, _)| ticket);
        let tickets = under_way.into_iter().flatten().chain(waiting);
        self.ended.extend(tickets.map(|ticket| (ticket, Err(Error::Disk(failed)))));
    }

    fn give(&mut self, dataset: &Dataset) {
        dataset.units().for_each(|(start, units)| self.free.give(start, units));
    }
}
