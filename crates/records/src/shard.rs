//! A core's own share.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::operation::{Operation, Outcome, Record, Wrong, check};

/// Records that one core has.
#[derive(Debug)]
pub struct Shard {
    records: BTreeMap<Vec<u8>, Record>,
    /// Bytes of all keys and values, and how many there may be.
    bytes: usize,
    most: usize,
    /// The version of the last value that was stored.
    last: u64,
}

impl Shard {
    /// No record, and room for keys and values of so many bytes.
    pub fn new(most: usize) -> Shard {
        Shard { records: BTreeMap::new(), bytes: 0, most, last: 0 }
    }

    /// Does one operation.
    pub fn apply(&mut self, key: &[u8], operation: &Operation) -> Result<Outcome, Wrong> {
        check(key, operation)?;
        let known = self.records.get(key);
        let (version, size) = known.map_or((0, 0), |it| (it.version, key.len() + it.value.len()));
        let value = match operation {
            Operation::Get => return Ok(found(known)),
            Operation::Remove if known.is_none() => return Ok(Outcome::Missing),
            Operation::Remove => {
                self.records.remove(key);
                self.bytes -= size;
                return Ok(Outcome::Removed);
            }
            Operation::Compare(wanted, _) if *wanted != version => return Ok(found(known)),
            Operation::Compare(_, value) | Operation::Put(value) => value,
        };
        let bytes = self.bytes - size + key.len() + value.len();
        if bytes > self.most {
            return Err(Wrong::Full);
        }
        self.bytes = bytes;
        self.last += 1;
        self.records.insert(key.into(), Record { version: self.last, value: value.clone() });
        Ok(Outcome::Stored(self.last))
    }

    /// The records behind a key, in the order of their keys.
    pub fn scan(&self, after: &[u8]) -> impl Iterator<Item = (&[u8], &Record)> {
        use core::ops::Bound::{Excluded, Unbounded};
        let behind = self.records.range::<[u8], _>((Excluded(after), Unbounded));
        behind.map(|(key, record)| (key.as_slice(), record))
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn found(record: Option<&Record>) -> Outcome {
    record.map_or(Outcome::Missing, |it| Outcome::Found(it.clone()))
}
