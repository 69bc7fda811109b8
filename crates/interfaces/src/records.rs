//! Records by key in the memory of worker cores (FENCE). Two services of one type have them:
//! `records` has a core's share alone, `shared_records` has versions, and so snapshots.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

/// The most operations of one call.
pub const MOST_OPERATIONS: usize = 256;

/// What is stored under a key.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct StoredRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Higher than that of every value which the key had before.
    pub version: u64,
    /// Its value.
    pub value: Vec<u8>,
}

/// What is done to a record.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordAction {
    /// It is read.
    Get,
    /// A value is stored.
    Put,
    /// It is removed.
    Remove,
    /// A value is stored if the record has the version that is named; for 0, if there is none.
    Compare,
}

/// One of many operations.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RecordOperation {
    /// What is done.
    pub action: RecordAction,
    /// To the record of this key, of 1 to 256 bytes.
    pub key: Vec<u8>,
    /// The version that is compared; else nothing.
    pub version: u64,
    /// The value that is stored, of at most 4096 bytes; else nothing.
    pub value: Vec<u8>,
}

/// What has become of an operation.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RecordOutcome {
    /// Whether it was done: something was read, stored or removed.
    pub done: bool,
    /// The version that is stored now, or was read; 0 if there is no record.
    pub version: u64,
    /// The value that was read, or that was not replaced since it has another version.
    pub value: Vec<u8>,
}

/// Some of the records.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RecordPage {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Where the next page begins; none: there is no more.
    pub next: Option<Vec<u8>>,
}

/// How an instance stands.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RecordsState {
    /// What it is called.
    pub name: String,
    /// How many records it has.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Snapshots that are kept.
    pub snapshots: u32,
}

/// Which of some cores has the record of a key, by the cores' numbers: for each key another order
/// of the cores, so that only those of a core that goes have another one then.
pub fn owner<C: Copy>(key: &[u8], cores: &[C], number: impl Fn(C) -> u64) -> Option<C> {
    let weight = |core: &C| {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let bytes = key.iter().copied().chain(number(*core).to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, mix);
        (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    cores.iter().copied().max_by_key(weight)
}

/// Records of one core. `no_memory`: there is no room for so much; `busy`: others write the same,
/// and it may be tried again.
#[service(
    subsystem = "records",
    capability = "records",
    layer = high,
    type(attributes(snapshots: bool)),
)]
pub trait Records {
    /// The record of a key.
    #[stl_k(reply = "record", allow(package, operator, peer))]
    fn get(&self, #[range(1..=256)] key: Vec<u8>) -> CallResult<Option<StoredRecord>>;

    /// Stores a value; gives its version.
    #[stl_k(reply = "version", allow(package, operator, peer))]
    fn put(
        &self,
        #[range(1..=256)] key: Vec<u8>,
        #[range(0..=4096)] value: Vec<u8>,
    ) -> CallResult<u64>;

    /// Removes a record; whether there was one.
    #[stl_k(reply = "was_there", allow(package, operator, peer))]
    fn remove(&self, #[range(1..=256)] key: Vec<u8>) -> CallResult<bool>;

    /// Stores a value if the record has this version; for 0, if there is none.
    #[stl_k(reply = "outcome", allow(package, operator, peer))]
    fn compare(
        &self,
        #[range(1..=256)] key: Vec<u8>,
        version: u64,
        #[range(0..=4096)] value: Vec<u8>,
    ) -> CallResult<RecordOutcome>;

    /// Does operations one after the other, at most 256, and gives as many outcomes. An instance
    /// with snapshots does all in one moment, or none; others stop at the first that fails. A value
    /// that was read and has no room in half a reply is left out, and its operation not done.
    #[stl_k(reply = "outcomes", allow(package, operator, peer))]
    fn many(&self, operations: Vec<RecordOperation>) -> CallResult<Vec<RecordOutcome>>;

    /// Takes a snapshot of all records, and gives its number. It is kept until it is released, or
    /// until writers need its room. `no_memory`: there are as many as there may be; `invalid`: the
    /// instance has none.
    #[stl_k(reply = "snapshot", allow(package, operator, peer))]
    fn snapshot(&self) -> CallResult<u64>;

    /// Records of a snapshot, some at a time; those of an instance without snapshots are as of
    /// each page, for the number 0. `not_found`: the snapshot is no more.
    #[stl_k(reply = "page", allow(package, operator, peer))]
    fn scan(&self, snapshot: u64, from: Option<Vec<u8>>) -> CallResult<RecordPage>;

    /// Gives a snapshot back; whether it was kept still.
    #[stl_k(reply = "was_kept", allow(package, operator, peer))]
    fn release(&self, snapshot: u64) -> CallResult<bool>;

    /// How the instance stands.
    #[stl_k(reply = "state", allow(package, operator, peer))]
    fn state(&self) -> CallResult<RecordsState>;
}
