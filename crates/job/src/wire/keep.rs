//! What keepers of records say to each other, and what they keep.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_bosml::{Error, records};

use super::convert::{
    from_attempt, from_job, from_split, from_worker, to_attempt, to_job, to_split, to_worker,
};
use super::{AttemptRecord, JobRecord, SplitRecord, WorkerRecord, decode, encode};
use crate::end::{End, Failure, Fault, JobError, Lost, MOST_LOST, Part};
use crate::id::{Epoch, JobId};
use crate::job::MOST_REDUCERS;
use crate::keeper::{ToKeeper, Word};
use crate::record::{Acceptor, Answer, Ask, Record, Standing};

records! {
    /// A part of a job's output; its place in the list is its partition.
    pub struct PartRecord {
        /// The epoch of the attempt's master.
        pub epoch: u64,
        /// Which of the master's attempts.
        pub number: u32,
        /// Who has run it.
        pub at: WorkerRecord,
        /// Bytes.
        pub bytes: u64,
        /// Records.
        pub records: u64,
        /// The sum of their checksums.
        pub checksum: u64,
    }

    /// Blocks that are lost.
    pub struct LostRecord {
        /// Which dataset of the input.
        pub dataset: u16,
        /// The first block.
        pub block: u32,
        /// How many.
        pub blocks: u32,
    }

    /// How a job ended.
    pub struct EndRecord {
        /// 0 published, 1 lost blocks, 2 a task failed, 3 invalid, 4 no workers, 5 cancelled.
        pub kind: u8,
        /// Of `published` the parts.
        pub parts: Vec<PartRecord>,
        /// Of `lost blocks` which.
        pub lost: Vec<LostRecord>,
        /// Of a task that failed one attempt's name.
        pub attempts: Vec<AttemptRecord>,
        /// Of a task that failed 0 code, 1 input, 2 space.
        pub fault: u8,
        /// Of a task that failed what happened.
        pub text: String,
        /// Of `invalid` records and checksum that were read, then those that were written.
        pub sums: Vec<u64>,
    }

    /// What a keeper of a record says.
    pub struct KeepRecord {
        /// The job.
        pub job: u64,
        /// The node of who says it.
        pub from: u32,
        /// The epoch of who asks.
        pub epoch: u64,
        /// To ask: 0 promise, 1 follow, 2 accept, 3 learn. To answer: 4 promised, 5 follows,
        /// 6 accepted, 7 refused, 8 ended, 9 unknown.
        pub kind: u8,
        /// Of `promise`, `follow`, `accept` and `refused` the epoch; of `promised` the one that is
        /// followed.
        pub number: u64,
        /// Of `accept`, `learn` and `ended` the end, of `promised` one that was accepted.
        pub end: Vec<EndRecord>,
    }

    /// The first message of a record on a disk.
    pub struct HeadRecord {
        /// The job.
        pub job: JobRecord,
        /// Messages of splits, which are behind the second message.
        pub splits: u32,
    }

    /// The second message of a record on a disk.
    pub struct StateRecord {
        /// The epoch that was promised.
        pub promised: u64,
        /// The epoch of the master that was followed.
        pub accepted: u64,
        /// The end that was accepted of it, or else the one that the job has.
        pub end: Vec<EndRecord>,
        /// Whether it is the one that the job has.
        pub has_ended: bool,
    }

    /// Some splits of a record on a disk.
    pub struct SplitsRecord {
        /// The splits.
        pub splits: Vec<SplitRecord>,
    }

    /// How a job stands.
    pub struct StandingRecord {
        /// 0 open, 1 ended, 2 unknown.
        pub kind: u8,
        /// Of `open` the master's epoch.
        pub epoch: u64,
        /// Of `ended` how.
        pub end: Vec<EndRecord>,
    }
}

/// Splits of one message, of which none has more than a thousand bytes.
const SPLITS: usize = 64;

impl ToKeeper {
    /// The binary form. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let (kind, number, end) = match &self.word {
            Word::Ask(Ask::Promise(epoch)) => (0, epoch.0, None),
            Word::Ask(Ask::Follow(epoch)) => (1, epoch.0, None),
            Word::Ask(Ask::Accept(epoch, end)) => (2, epoch.0, Some(end)),
            Word::Ask(Ask::Learn(end)) => (3, 0, Some(end)),
            Word::Answer(Answer::Promised(epoch, end)) => (4, epoch.0, end.as_ref()),
            Word::Answer(Answer::Follows) => (5, 0, None),
            Word::Answer(Answer::Accepted) => (6, 0, None),
            Word::Answer(Answer::Refused(epoch)) => (7, epoch.0, None),
            Word::Answer(Answer::Ended(end)) => (8, 0, Some(end)),
            Word::Answer(Answer::Unknown) => (9, 0, None),
        };
        let end = end.iter().map(|end| from_end(end)).collect();
        let (job, from, epoch) = (self.job.0, self.from.0, self.epoch.0);
        encode(&KeepRecord { job, from, epoch, kind, number, end })
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<ToKeeper, Error> {
        decode(bytes, |it: KeepRecord| {
            let number = Epoch(it.number);
            let end = one_end(it.end)?;
            let word = match it.kind {
                0 => Word::Ask(Ask::Promise(number)),
                1 => Word::Ask(Ask::Follow(number)),
                2 => Word::Ask(Ask::Accept(number, end?)),
                3 => Word::Ask(Ask::Learn(end?)),
                4 => Word::Answer(Answer::Promised(number, end)),
                5 => Word::Answer(Answer::Follows),
                6 => Word::Answer(Answer::Accepted),
                7 => Word::Answer(Answer::Refused(number)),
                8 => Word::Answer(Answer::Ended(end?)),
                9 => Word::Answer(Answer::Unknown),
                _ => return None,
            };
            let (job, from, epoch) = (JobId(it.job), NodeId(it.from), Epoch(it.epoch));
            Some(ToKeeper { job, from, epoch, word })
        })
    }
}

impl Standing {
    /// The binary form. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let (kind, epoch, end) = match self {
            Standing::Open(epoch) => (0, epoch.0, Vec::new()),
            Standing::Ended(end) => (1, 0, vec![from_end(end)]),
            Standing::Unknown => (2, 0, Vec::new()),
        };
        encode(&StandingRecord { kind, epoch, end })
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Standing, Error> {
        decode(bytes, |it: StandingRecord| match it.kind {
            0 => Some(Standing::Open(Epoch(it.epoch))),
            1 => Some(Standing::Ended(one_end(it.end)??)),
            2 => Some(Standing::Unknown),
            _ => None,
        })
    }
}

impl Record {
    /// What is kept durably: messages, the first of which tells of the rest. Each fits a call.
    pub fn encode(&self) -> Result<Vec<Vec<u8>>, Error> {
        let Acceptor { promised, accepted, end } = &self.acceptor;
        let (followed, accepted) = accepted;
        let known = end.as_ref().or(accepted.as_ref());
        let groups = self.splits.chunks(SPLITS);
        let splits = groups.len() as u32;
        let head = encode(&HeadRecord { job: from_job(&self.job), splits });
        let state = encode(&StateRecord {
            promised: promised.0,
            accepted: followed.0,
            end: known.into_iter().map(from_end).collect(),
            has_ended: end.is_some(),
        });
        let splits = |group: &[_]| SplitsRecord { splits: group.iter().map(from_split).collect() };
        let rest = groups.map(|group| encode(&splits(group)));
        [head, state].into_iter().chain(rest).collect()
    }

    /// Reads the messages of a record. Fails where they are none.
    pub fn decode(messages: &[impl AsRef<[u8]>]) -> Result<Record, Error> {
        let message = |at: usize| messages.get(at).map_or(&[][..], |it| it.as_ref());
        let job = decode(message(0), |it: HeadRecord| {
            let is_whole = messages.len() as u64 == u64::from(it.splits) + 2;
            is_whole.then(|| to_job(it.job))
        })?;
        let acceptor = decode(message(1), |it: StateRecord| {
            let end = one_end(it.end)?;
            let (end, accepted) = match it.has_ended {
                true => (Some(end?), None),
                false => (None, end),
            };
            let accepted = (Epoch(it.accepted), accepted);
            Some(Acceptor { promised: Epoch(it.promised), accepted, end })
        })?;
        let mut record = Record { job, splits: Vec::new(), acceptor };
        for group in &messages[2..] {
            let group = decode(group.as_ref(), |it: SplitsRecord| Some(it.splits))?;
            record.splits.extend(group.into_iter().map(to_split));
        }
        Ok(record)
    }
}

/// One end, or none; not one that is none.
#[expect(clippy::option_option, reason = "what is no end is told apart from none")]
fn one_end(ends: Vec<EndRecord>) -> Option<Option<End>> {
    match ends.into_iter().next() {
        Some(end) => to_end(end).map(Some),
        None => Some(None),
    }
}

fn from_end(end: &End) -> EndRecord {
    let mut record = EndRecord {
        kind: 0,
        parts: Vec::new(),
        lost: Vec::new(),
        attempts: Vec::new(),
        fault: 0,
        text: String::new(),
        sums: Vec::new(),
    };
    match end {
        End::Published(parts) => {
            let part = |part: &Part| PartRecord {
                epoch: part.attempt.epoch.0,
                number: part.attempt.number,
                at: from_worker(&part.at),
                bytes: part.bytes,
                records: part.records,
                checksum: part.checksum,
            };
            record.parts = parts.iter().map(part).collect();
        }
        End::Failed(JobError::LostBlocks(lost)) => {
            record.kind = 1;
            let lost = lost.iter().map(|it| {
                let Lost { dataset, block, blocks } = *it;
                LostRecord { dataset, block, blocks }
            });
            record.lost = lost.collect();
        }
        End::Failed(JobError::Task { task, failure }) => {
            (record.kind, record.fault) = (2, failure.fault as u8);
            record.text = failure.text.clone();
            let none = crate::AttemptId { epoch: Epoch::NONE, task: *task, number: 0 };
            record.attempts.push(from_attempt(&none));
        }
        End::Failed(JobError::Invalid { read, written }) => {
            record.kind = 3;
            record.sums = vec![read.0, read.1, written.0, written.1];
        }
        End::Failed(JobError::NoWorkers) => record.kind = 4,
        End::Failed(JobError::Cancelled) => record.kind = 5,
    }
    record
}

fn to_end(record: EndRecord) -> Option<End> {
    Some(End::Failed(match record.kind {
        0 => {
            let parts = record.parts.iter().enumerate().map(|(index, part)| {
                let task = crate::TaskId { kind: crate::Kind::Reduce, index: index as u32 };
                let (epoch, number) = (Epoch(part.epoch), part.number);
                let attempt = crate::AttemptId { epoch, task, number };
                let PartRecord { bytes, records, checksum, .. } = *part;
                Part { attempt, at: to_worker(&part.at), bytes, records, checksum }
            });
            let is_short = record.parts.len() <= MOST_REDUCERS as usize;
            return is_short.then(|| End::Published(parts.collect()));
        }
        1 => {
            let lost = record.lost.iter().take(MOST_LOST).map(|it| {
                let LostRecord { dataset, block, blocks } = *it;
                Lost { dataset, block, blocks }
            });
            JobError::LostBlocks(lost.collect())
        }
        2 => {
            let task = to_attempt(record.attempts.first()?)?.task;
            let fault = Fault::from_number(record.fault)?;
            JobError::Task { task, failure: Failure { fault, text: record.text } }
        }
        3 => match record.sums[..] {
            [read, read_sum, written, written_sum] => {
                JobError::Invalid { read: (read, read_sum), written: (written, written_sum) }
            }
            _ => return None,
        },
        4 => JobError::NoWorkers,
        5 => JobError::Cancelled,
        _ => return None,
    }))
}
