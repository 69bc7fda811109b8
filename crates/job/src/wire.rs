//! Messages in the binary form of the message language, as arguments of calls.
//!
//! An order, or a note, is one record for all kinds, whose number says which fields count; the
//! others are empty. So the messages have schemas, and can be shown in the text form. `convert`
//! makes them of messages, and messages of them; `keep` does both for keepers of records.

mod convert;
mod keep;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::records::{from_bytes, to_bytes as encode};
use nile_bosml::{Blob, Decode, Error, records};

records! {
    /// A worker.
    pub struct WorkerRecord {
        /// Its node.
        pub node: u32,
        /// The node's incarnation.
        pub life: u32,
        /// The core.
        pub core: u16,
        /// The core's incarnation.
        pub generation: u32,
    }

    /// An attempt.
    pub struct AttemptRecord {
        /// The epoch of its master.
        pub epoch: u64,
        /// 0 sample, 1 map, 2 reduce.
        pub kind: u8,
        /// The split or the partition.
        pub index: u32,
        /// Which of the master's attempts of the task.
        pub number: u32,
    }

    /// An output of a map task, and who has it.
    pub struct OutputRecord {
        /// Who made it.
        pub output: AttemptRecord,
        /// Who has it.
        pub at: WorkerRecord,
    }

    /// A job.
    pub struct JobRecord {
        /// Its number.
        pub id: u64,
        /// What it is called.
        pub name: String,
        /// The package with its code.
        pub package: String,
        /// What its code is given.
        pub arguments: Vec<String>,
        /// The datasets that it reads.
        pub input: Vec<String>,
        /// The dataset that it makes.
        pub output: String,
        /// How many reduce tasks.
        pub reducers: u32,
        /// On how many nodes the output is to be.
        pub copies: u32,
        /// The nodes that keep its record.
        pub keepers: Vec<u32>,
        /// Of how many splits samples are taken.
        pub samples: u32,
        /// Bytes of memory of each node.
        pub memory: u64,
        /// Bytes of its input.
        pub bytes: u64,
        /// Blocks of its input.
        pub blocks: u32,
        /// Whether it only reorders records.
        pub conserves: bool,
        /// For how many seconds an attempt may do nothing; 0: for ever.
        pub task_timeout: u32,
    }

    /// A split.
    pub struct SplitRecord {
        /// Which dataset of the input.
        pub dataset: u16,
        /// Its first block.
        pub block: u32,
        /// How many blocks.
        pub blocks: u32,
        /// Its length.
        pub bytes: u64,
        /// The nodes that have it.
        pub nodes: Vec<u32>,
    }

    /// An order.
    pub struct OrderRecord {
        /// 0 job, 1 plan, 2 assign a split, 3 assign pieces, 4 cancel, 5 drop, 6 outputs, 7 end.
        pub kind: u8,
        /// The attempts that it is about: of `end` any number, of others one or none.
        pub attempts: Vec<AttemptRecord>,
        /// Of `plan` its epoch, of `assign pieces` the number of map tasks.
        pub number: u64,
        /// Of `plan` the bounds.
        pub data: Blob,
        /// Of `plan` how many slices partitions have.
        pub slices: u32,
        /// Of `job` the job.
        pub job: Vec<JobRecord>,
        /// Of `assign a split` the split.
        pub split: Vec<SplitRecord>,
        /// Of `outputs` where they are.
        pub outputs: Vec<OutputRecord>,
    }

    /// What an attempt has done.
    pub struct SummaryRecord {
        /// Bytes read.
        pub read: u64,
        /// Bytes written.
        pub written: u64,
        /// Records.
        pub records: u64,
        /// The sum of their checksums.
        pub checksum: u64,
        /// Bytes put on disk for lack of memory.
        pub spilled: u64,
    }

    /// A note.
    pub struct NoteRecord {
        /// 0 plan, 1 held, 2 ready, 3 done, 4 failed, 5 stopped, 6 gathered, 7 missing, 8 over.
        pub kind: u8,
        /// The attempt that it is about, if any.
        pub attempts: Vec<AttemptRecord>,
        /// Of `plan` its epoch, of `held` that of its plan, of `failed` 0 code, 1 input, 2 space,
        /// of `missing` 0 if it did not come, 1 if it is not there.
        pub number: u64,
        /// Of `plan` the bounds, of `done` the sample.
        pub data: Blob,
        /// Of `plan` how many slices partitions have.
        pub slices: u32,
        /// Of `failed` what happened.
        pub text: String,
        /// Of `held` and `done` what was done.
        pub summary: Vec<SummaryRecord>,
        /// Of `missing` what is missing.
        pub outputs: Vec<OutputRecord>,
    }

    /// The attempt that runs.
    pub struct RunningRecord {
        /// The attempt.
        pub attempt: AttemptRecord,
        /// Bytes that it has read.
        pub bytes: u64,
    }

    /// A master to a worker.
    pub struct OrdersRecord {
        /// The job.
        pub job: u64,
        /// The master's epoch.
        pub epoch: u64,
        /// The session.
        pub session: u32,
        /// The machine.
        pub machine: u32,
        /// The master's node.
        pub master: u32,
        /// Whether to answer in any case.
        pub ask: bool,
        /// The number of the first order.
        pub first: u64,
        /// How many notes were taken.
        pub taken: u64,
        /// The orders.
        pub orders: Vec<OrderRecord>,
    }

    /// A worker to a master.
    pub struct NotesRecord {
        /// The job.
        pub job: u64,
        /// The epoch that the worker obeys.
        pub epoch: u64,
        /// The session.
        pub session: u32,
        /// The worker.
        pub worker: WorkerRecord,
        /// Its machine.
        pub machine: u32,
        /// The attempt that runs, if any does.
        pub running: Vec<RunningRecord>,
        /// The number of the first note.
        pub first: u64,
        /// How many orders were taken.
        pub taken: u64,
        /// The notes.
        pub notes: Vec<NoteRecord>,
    }

    /// A worker to a worker.
    pub struct PeerRecord {
        /// 0 fetch, 1 missing.
        pub kind: u8,
        /// The job.
        pub job: u64,
        /// The output that the piece is of.
        pub output: AttemptRecord,
        /// The piece's partition.
        pub partition: u32,
        /// The attempt that wants it.
        pub by: AttemptRecord,
        /// Of `fetch` who asks.
        pub from: Vec<WorkerRecord>,
    }
}

/// Reads a message.
fn decode<'a, R: Decode<'a>, T>(
    bytes: &'a [u8],
    convert: impl FnOnce(R) -> Option<T>,
) -> Result<T, Error> {
    from_bytes(bytes, "message of a job", convert)
}
