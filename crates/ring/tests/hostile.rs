//! A pool in memory that holds anything at all, and changes meanwhile: it may give the wrong
//! buffer or none, but it never panics, never reaches past its region and always returns. (Rings,
//! doorbells and handles under the same treatment: `fuzz/`.)
#![cfg(not(loom))]

use std::sync::atomic::Ordering::Relaxed;

use nile_abi::CoreId;
use nile_ring::{Buffer, Handle, Pool, PoolId, Region};

const HERE: CoreId = CoreId(0);
const THERE: CoreId = CoreId(1);
const BUFFER_BYTES: usize = 64;
const BUFFERS: usize = 6;

/// Words before the buffers: two lines of header, one of states.
const CONTROL_WORDS: u64 = 24;

/// A small generator; its seed is all that the test depends on.
struct Garbage(u64);

impl Garbage {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// A state word that is more often plausible than not.
    fn state(&mut self) -> u64 {
        match self.below(4) {
            0 => self.word(),
            _ => self.below(3) | self.below(BUFFERS as u64 + 2) << 2 | self.below(3) << 32,
        }
    }
}

/// What one life of a pool came to: how often buffers were had and handles accepted.
#[derive(Default)]
struct Tally {
    allocated: usize,
    claimed: usize,
    refused: usize,
}

/// Every operation of a pool, in any order, while the words that it lives by change.
fn live(pool: &Pool, region: &Region, garbage: &mut Garbage, tally: &mut Tally) {
    let mut handles: Vec<Handle> = Vec::new();
    for _ in 0..24 {
        match garbage.below(6) {
            0 => {
                let at = garbage.below(CONTROL_WORDS) as usize;
                region.words()[at].store(garbage.state(), Relaxed);
            }
            1 | 2 => {
                // The bytes of one buffer at a time: two may be the same now.
                let Some(mut buffer) = pool.alloc() else { continue };
                tally.allocated += 1;
                touch(&mut buffer, pool, region);
                handles.push(buffer.into_handle(garbage.word() as usize));
            }
            3 => {
                let made_up = Handle {
                    pool: PoolId(garbage.below(2) as u16),
                    index: garbage.below(BUFFERS as u64 + 2) as u32,
                    generation: garbage.below(3) as u32,
                    len: garbage.below(BUFFER_BYTES as u64 + 2) as u32,
                };
                handles.push(made_up);
            }
            4 => {
                let Some(handle) = handles.pop() else { continue };
                let Ok(mut buffer) = pool.claim(handle) else {
                    tally.refused += 1;
                    continue;
                };
                tally.claimed += 1;
                assert_eq!(buffer.len(), handle.len as usize);
                touch(&mut buffer, pool, region);
            }
            // SAFETY: no code runs as THERE, and no buffer is held here.
            _ => assert!(unsafe { pool.reclaim(THERE) } <= pool.capacity()),
        }
    }
}

/// Writes to a buffer, whose bytes lie where the buffers of its pool are.
fn touch(buffer: &mut Buffer, pool: &Pool, region: &Region) {
    let first = region.words().as_ptr() as usize + region.len();
    let first = first - pool.capacity() * pool.buffer_size();
    let at = buffer.as_ptr() as usize;
    assert!((buffer.index() as usize) < pool.capacity());
    assert_eq!(at, first + buffer.index() as usize * pool.buffer_size());
    assert!(buffer.len() <= pool.buffer_size());
    buffer.fill(0xa5);
}

#[test]
fn any_bytes_are_a_pool_that_misbehaves_at_worst() {
    let mut garbage = Garbage(0x9e37_79b9_7f4a_7c15);
    let mut tally = Tally::default();
    let rounds = if cfg!(miri) { 50 } else { 20_000 };
    for _ in 0..rounds {
        let region = Region::owned(Pool::region_len(BUFFERS, BUFFER_BYTES));
        for word in &region.words()[..CONTROL_WORDS as usize] {
            word.store(garbage.state(), Relaxed);
        }
        region.words()[0].store(BUFFERS as u64 | (BUFFER_BYTES as u64) << 32, Relaxed);
        // SAFETY: nobody else has a pool there; what this test stores to the region besides are
        // words before the buffers, as atomics.
        let pool = unsafe { Pool::attach(region.clone(), PoolId(0), HERE) };
        live(&pool.expect("the format is right"), &region, &mut garbage, &mut tally);
    }
    let Tally { allocated, claimed, refused } = tally;
    assert!(allocated > rounds && claimed > rounds / 10 && refused > rounds / 10);
}

#[test]
fn any_format_is_refused_or_stays_inside() {
    let mut garbage = Garbage(7);
    let mut attached = 0;
    for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
        let region = Region::owned(garbage.below(32) as usize * 64);
        let format = match garbage.below(4) {
            0 => garbage.word(),
            _ => garbage.below(20) | (garbage.below(6) * 64) << 32,
        };
        let Some(word) = region.words().first() else { continue };
        word.store(format, Relaxed);
        // SAFETY: nobody else has a pool there.
        if let Ok(pool) = unsafe { Pool::attach(region.clone(), PoolId(0), HERE) } {
            assert!(Pool::region_len(pool.capacity(), pool.buffer_size()) <= region.len());
            attached += 1;
        }
    }
    assert!(attached > 0, "no format was right");
}
