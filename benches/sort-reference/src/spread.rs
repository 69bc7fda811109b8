//! A thread's part of the input: its keys, spread over ranges.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::{BUCKETS, CHUNK, KEY, RECORD};

/// Bytes of a key with its record's place.
pub const ENTRY: usize = 16;

/// Bits of an entry that hold the place.
const PLACE_BITS: u32 = 48;

/// Entries of one thread's part, range by range, and where each range ends.
pub struct Spread<'a> {
    pub entries: &'a [[u8; ENTRY]],
    pub ends: Vec<u32>,
}

/// The place of an entry's record.
pub fn place(entry: u128) -> usize {
    (entry & ((1 << PLACE_BITS) - 1)) as usize
}

fn key(record: &[u8]) -> u128 {
    let mut bytes = [0; ENTRY];
    bytes[..KEY].copy_from_slice(&record[..KEY]);
    u128::from_be_bytes(bytes)
}

fn bucket(key: u128) -> usize {
    (key >> (u128::BITS - BUCKETS.ilog2())) as usize & (BUCKETS - 1)
}

/// Counts the keys of each range.
pub fn count(part: &[u8], counts: &mut [u32]) {
    part.chunks_exact(RECORD).for_each(|record| counts[bucket(key(record))] += 1);
}

/// Reads a part that begins at `at`, and counts the keys while they are in the cache.
pub fn read(input: &File, at: u64, part: &mut [u8], counts: &mut [u32]) -> io::Result<()> {
    for (chunk, at) in part.chunks_mut(CHUNK).zip((at..).step_by(CHUNK)) {
        input.read_exact_at(chunk, at)?;
        count(chunk, counts);
    }
    Ok(())
}

/// Spreads the entries of a part, whose first record is the input's `first`, over `slots`.
pub fn spread<'a>(
    part: &[u8],
    first: usize,
    counts: &[u32],
    slots: &'a mut [[u8; ENTRY]],
) -> Spread<'a> {
    let mut ends = counts.to_vec();
    let mut end = 0;
    for count in &mut ends {
        // Where the range begins, until it is full.
        end += std::mem::replace(count, end);
    }
    for (index, record) in part.chunks_exact(RECORD).enumerate() {
        let key = key(record);
        let slot = &mut ends[bucket(key)];
        slots[*slot as usize] = (key | (first + index) as u128).to_le_bytes();
        *slot += 1;
    }
    Spread { entries: slots, ends }
}
