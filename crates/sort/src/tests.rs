//! Tests of the steps together, and the models that they are compared with.

mod formats;
mod independent;
mod merging;
mod sorting;
mod validation;

use alloc::vec::Vec;

use crate::generator::{Format, Generator};
use crate::layout::{Layout, Tera};

/// Bytes of a record of the Sort Benchmark.
const LENGTH: usize = Tera::LENGTH;

/// The first `records` records of a format.
fn generated(format: Format, records: usize) -> Vec<u8> {
    let mut bytes = alloc::vec![0; records * LENGTH];
    assert_eq!(Generator::new(format, 0).fill(&mut bytes), records);
    bytes
}

/// Records with these keys, all different in what follows the key.
fn with_keys(keys: &[u64]) -> Vec<u8> {
    let mut bytes = generated(Format::Hadoop, keys.len());
    for (record, key) in bytes.chunks_exact_mut(LENGTH).zip(keys) {
        record[..2].fill(0);
        record[2..10].copy_from_slice(&key.to_be_bytes());
    }
    bytes
}

/// The same records in order, by the standard library's stable sort.
fn model(records: &[u8]) -> Vec<u8> {
    let mut records: Vec<&[u8]> = records.chunks_exact(LENGTH).collect();
    records.sort_by_key(|record| &record[..10]);
    records.concat()
}
