//! What can be done to records.

use alloc::vec::Vec;

/// Bytes of a key at most; it has one at least.
pub const MOST_KEY: usize = 256;

/// Bytes of a value at most.
pub const MOST_VALUE: usize = 4096;

/// What is stored under a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Higher than that of every value which this key had before, also before it was removed.
    pub version: u64,
    /// The bytes.
    pub value: Vec<u8>,
}

/// What is to be done to the record of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads it.
    Get,
    /// Stores a value.
    Put(Vec<u8>),
    /// Removes it.
    Remove,
    /// Stores a value if the record has this version, or, for 0, if there is none.
    Compare(u64, Vec<u8>),
}

/// What has become of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There is no record: it was not found to be read or removed, or to be compared.
    Missing,
    /// What was read, or what another version is than the one that was named.
    Found(Record),
    /// The value is stored, as this version.
    Stored(u64),
    /// The record is removed.
    Removed,
}

/// Why an operation cannot be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A key has 1 to [`MOST_KEY`] bytes.
    Key,
    /// A value has at most [`MOST_VALUE`] bytes.
    Value,
    /// There is no room for so much more.
    Full,
    /// Others have the records, or keep old versions of them: it may be tried again.
    Busy,
}

/// Whether an operation is within bounds.
pub(crate) fn check(key: &[u8], operation: &Operation) -> Result<(), Wrong> {
    if key.is_empty() || key.len() > MOST_KEY {
        return Err(Wrong::Key);
    }
    match operation {
        Operation::Put(value) | Operation::Compare(_, value) if value.len() > MOST_VALUE => {
            Err(Wrong::Value)
        }
        _ => Ok(()),
    }
}
