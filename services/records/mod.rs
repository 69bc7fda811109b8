//! Records by key, as `nile-records` has them, on each worker core: `records`, the share of the
//! core, and `shared_records`, which has snapshots.

mod shared;

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_interfaces::records::{
    MOST_OPERATIONS, RecordAction, RecordOperation, RecordOutcome, RecordPage, RecordsKernel,
    RecordsState, StoredRecord,
};
use nile_records::{Operation, Outcome, Record, Shard, Wrong};
use nile_registry::{Attribute, AttributeValue, Caller as Binder};
use nile_stl::{CallError, CallResult, Half, Start, Stl, service};

use crate::instance;
use crate::page::{MOST_BYTES, page};
use shared::SharedRecords;

/// Bytes of the keys and values of a core.
const MOST: usize = 64 << 20;

/// The share of a core.
pub struct Shards(RefCell<Shard>);

impl Start for Shards {
    fn start(_: &Stl) -> Shards {
        Shards(RefCell::new(Shard::new(MOST)))
    }
}

#[service(on = worker, keywords(records = 5, shards = 5), attributes(snapshots = false))]
impl RecordsKernel for Shards {
    fn get(&self, key: Vec<u8>) -> CallResult<Option<StoredRecord>> {
        Ok(stored(&key, self.apply(&key, &Operation::Get)?))
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> CallResult<u64> {
        let operation = Operation::Put(value);
        Ok(told(&operation, self.apply(&key, &operation)?).version)
    }

    fn remove(&self, key: Vec<u8>) -> CallResult<bool> {
        Ok(self.apply(&key, &Operation::Remove)? == Outcome::Removed)
    }

    fn compare(&self, key: Vec<u8>, version: u64, value: Vec<u8>) -> CallResult<RecordOutcome> {
        let operation = Operation::Compare(version, value);
        Ok(told(&operation, self.apply(&key, &operation)?))
    }

    fn many(&self, operations: Vec<RecordOperation>) -> CallResult<Vec<RecordOutcome>> {
        let operations = operations_of(operations)?;
        let outcomes = operations.iter().map(|(key, it)| Ok((it, self.apply(key, it)?)));
        fits(outcomes)
    }

    fn snapshot(&self) -> CallResult<u64> {
        Err(no_snapshots())
    }

    fn scan(&self, snapshot: u64, from: Option<Vec<u8>>) -> CallResult<RecordPage> {
        if snapshot != 0 {
            return Err(no_snapshots());
        }
        let shard = self.0.borrow();
        let behind = shard.scan(from.as_deref().unwrap_or_default());
        let records: Vec<StoredRecord> = page(behind.map(|(key, it)| named(key, it.clone())));
        let last = records.last().map(|it| it.key.clone());
        let next = last.filter(|last| shard.scan(last).next().is_some());
        Ok(RecordPage { records, next })
    }

    fn release(&self, _snapshot: u64) -> CallResult<bool> {
        Err(no_snapshots())
    }

    fn state(&self) -> CallResult<RecordsState> {
        let shard = self.0.borrow();
        let (records, bytes) = (shard.len() as u64, shard.bytes() as u64);
        Ok(RecordsState { name: REGISTRATION.name().into(), records, bytes, snapshots: 0 })
    }
}

impl Shards {
    fn apply(&self, key: &[u8], operation: &Operation) -> CallResult<Outcome> {
        self.0.borrow_mut().apply(key, operation).map_err(wrong)
    }
}

/// Publishes this core's instance that has snapshots.
pub async fn publish_shared(stl: &Stl) {
    let own = stl.acting_as(Binder::Operator);
    let attributes = [Attribute::new("snapshots", AttributeValue::Bool(true))];
    let keywords = [("records", 5), ("snapshots", 5)];
    let make = |_: &Stl| Half::of::<dyn RecordsKernel>(Rc::new(SharedRecords::new()));
    let name = shared::NAME;
    if let Err(error) =
        instance::publish(&own, &REGISTRATION, name, keywords, attributes, make).await
    {
        stl.host().log(format_args!("service {name} is not published: {error}"));
    }
}

/// The operations of a call, by their keys.
fn operations_of(operations: Vec<RecordOperation>) -> CallResult<Vec<(Vec<u8>, Operation)>> {
    if operations.len() > MOST_OPERATIONS {
        let message =
            format!("{} operations in a call; {MOST_OPERATIONS} at most", operations.len());
        return Err(CallError::new(Status::Invalid, message));
    }
    let operation = |it: RecordOperation| {
        let operation = match it.action {
            RecordAction::Get => Operation::Get,
            RecordAction::Put => Operation::Put(it.value),
            RecordAction::Remove => Operation::Remove,
            RecordAction::Compare => Operation::Compare(it.version, it.value),
        };
        (it.key, operation)
    };
    Ok(operations.into_iter().map(operation).collect())
}

/// What has become of operations, with the values that have room in a reply.
fn fits<'a>(
    outcomes: impl Iterator<Item = CallResult<(&'a Operation, Outcome)>>,
) -> CallResult<Vec<RecordOutcome>> {
    let mut bytes = 0;
    let fitting = |it: CallResult<(&Operation, Outcome)>| {
        let (operation, outcome) = it?;
        let mut told = told(operation, outcome);
        bytes += told.value.len();
        if bytes > MOST_BYTES {
            (told.done, told.value) = (told.done && told.value.is_empty(), Vec::new());
        }
        Ok(told)
    };
    outcomes.map(fitting).collect()
}

fn named(key: &[u8], record: Record) -> StoredRecord {
    StoredRecord { key: key.into(), version: record.version, value: record.value }
}

fn stored(key: &[u8], outcome: Outcome) -> Option<StoredRecord> {
    if let Outcome::Found(record) = outcome { Some(named(key, record)) } else { None }
}

fn told(operation: &Operation, outcome: Outcome) -> RecordOutcome {
    let is_read = matches!(operation, Operation::Get);
    let (done, version, value) = match outcome {
        Outcome::Missing => (false, 0, Vec::new()),
        // What is found where it was to be compared is not replaced.
        Outcome::Found(Record { version, value }) => (is_read, version, value),
        Outcome::Stored(version) => (true, version, Vec::new()),
        Outcome::Removed => (true, 0, Vec::new()),
    };
    RecordOutcome { done, version, value }
}

fn wrong(wrong: Wrong) -> CallError {
    let (status, message) = match wrong {
        Wrong::Key => (Status::Invalid, "a key has 1 to 256 bytes"),
        Wrong::Value => (Status::Invalid, "a value has at most 4096 bytes"),
        Wrong::Full => (Status::NoMemory, "there is no room for this record; remove some"),
        Wrong::Busy => (Status::Busy, "others write the same records; try again"),
    };
    CallError::new(status, message)
}

fn no_snapshots() -> CallError {
    let message = "this instance has no snapshots; find one whose `snapshots` is true";
    CallError::new(Status::Invalid, message)
}
