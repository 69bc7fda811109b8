//! What records in the memory of another core cost: a client on this core reads and writes those of
//! a worker, so many in a call, one call after the other. `shared=1` has those with snapshots,
//! `apart=1` gives each operation of a batch in a call of its own.
//!
//! `took` is the time for one operation, in hundredths of a nanosecond.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Status;
use nile_interfaces::records::{RecordAction, RecordOperation, RecordsClient, TYPE};
use nile_interfaces::registry::Wanted;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_registry::{Attribute, AttributeValue};
use nile_stl::{CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};

/// Bytes of a value. It begins with its key, and goes on with the number of its write.
const VALUE: usize = 64;

/// Records that are stored in a call before anything is measured.
const FIRST: usize = 100;

/// How long it may take until a worker has the service, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(1);

/// What is measured.
#[derive(Clone, Copy)]
struct Load {
    keys: u64,
    batch: u64,
    batches: u64,
    /// How many of a hundred operations read.
    reads: u64,
    is_apart: bool,
    is_shared: bool,
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    serve(core);
    let load = Load {
        keys: arguments.number("keys", 1000).max(1),
        batch: arguments.number("batch", 16).clamp(1, 256),
        batches: arguments.number("batches", 100),
        reads: arguments.number("reads", 50),
        is_apart: arguments.number("apart", 0) == 1,
        is_shared: arguments.number("shared", 0) == 1,
    };
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "record-cost", move |findings| async move {
            findings.expect(measure(&core, load, &findings).await, "records");
        });
    }
}

async fn measure<M: Machine>(core: &Core<M>, load: Load, findings: &Findings) -> CallResult<()> {
    let records = find(&core.stl(), load.is_shared).await?;
    let all: Vec<u64> = (0..load.keys).collect();
    for some in all.chunks(FIRST) {
        let operations = some.iter().map(|key| operation(*key, Some(0))).collect();
        many(&records, operations).await?;
    }
    let mut dice = Dice(load.keys + load.batch);
    let begin = core.now();
    for number in 0..load.batches {
        let next = |_| {
            let writes = dice.below(100) >= load.reads;
            operation(dice.below(load.keys), writes.then_some(number))
        };
        let operations: Vec<RecordOperation> = (0..load.batch).map(next).collect();
        if load.batch > 1 && !load.is_apart {
            many(&records, operations).await?;
            continue;
        }
        for it in operations {
            one(&records, it).await?;
        }
    }
    let took = (core.now() - begin).as_nanos();
    let count = u128::from(load.batches * load.batch).max(1);
    findings.figure("took", u64::try_from(took * 100 / count).unwrap_or(u64::MAX));
    let kept = records.state().await?.records;
    findings.check(kept == load.keys, format_args!("{kept} records of {}", load.keys));
    Ok(())
}

/// Operations in a call of their own; each has to be done.
async fn many(records: &RecordsClient, operations: Vec<RecordOperation>) -> CallResult<()> {
    let asked: Vec<(RecordAction, Vec<u8>)> =
        operations.iter().map(|it| (it.action, it.key.clone())).collect();
    let outcomes = records.many(operations).await?;
    if outcomes.len() != asked.len() {
        return Err(wrong());
    }
    for ((action, key), it) in asked.iter().zip(&outcomes) {
        let is_right = match action {
            RecordAction::Get => is_of(key, &it.value),
            _ => true,
        };
        if !it.done || !is_right {
            return Err(wrong());
        }
    }
    Ok(())
}

/// An operation in a call of its own.
async fn one(records: &RecordsClient, it: RecordOperation) -> CallResult<()> {
    if it.action == RecordAction::Put {
        records.put(it.key, it.value).await?;
        return Ok(());
    }
    let stored = records.get(it.key.clone()).await?;
    let is_right = stored.is_some_and(|stored| is_of(&it.key, &stored.value));
    if is_right { Ok(()) } else { Err(wrong()) }
}

/// Reads the record of a key, or writes it the so many'th time.
fn operation(key: u64, writes: Option<u64>) -> RecordOperation {
    let key = format!("key:{key:012}").into_bytes();
    let (action, value) = match writes {
        None => (RecordAction::Get, Vec::new()),
        Some(number) => {
            let mut value = Vec::with_capacity(VALUE);
            value.extend(&key);
            value.extend(number.to_le_bytes());
            value.resize(VALUE, 0x5a);
            (RecordAction::Put, value)
        }
    };
    RecordOperation { action, key, version: 0, value }
}

fn is_of(key: &[u8], value: &[u8]) -> bool {
    value.len() == VALUE && value.starts_with(key)
}

fn wrong() -> CallError {
    CallError::new(Status::Invalid, "a wrong answer")
}

/// The records of a worker, once it has the service.
async fn find(stl: &Stl, is_shared: bool) -> CallResult<RecordsClient> {
    let host = stl.host();
    let until = host.now() + PATIENCE;
    loop {
        let snapshots = Attribute::new("snapshots", AttributeValue::Bool(is_shared));
        match Wanted::of(&TYPE).with(&snapshots).find(stl).await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < until => {
                host.pause(RETRY).await;
            }
            found => return found,
        }
    }
}

/// Numbers without a pattern.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit
    }
}
