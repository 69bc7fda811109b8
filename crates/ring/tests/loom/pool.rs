//! Buffers: no two owners, bytes that the last owner wrote, handles that work once.

use std::mem;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use nile_abi::CoreId;
use nile_ring::{Buffer, ClaimError, Handle, Pool, PoolId, Region};

use crate::{check, must_fail};

const SIZE: usize = 64;

fn pool(count: usize) -> (Region, Pool) {
    let region = Region::owned(Pool::region_len(count, SIZE));
    // SAFETY: nobody reads or writes the buffers' bytes in these models.
    let pool = unsafe { Pool::format(region.clone(), PoolId(0), CoreId(0), SIZE) };
    (region, pool.expect("its size"))
}

/// Stands for the buffers' bytes: loom fails the model when two threads use one at once, or one
/// after the other without having synchronised.
struct Bytes(Vec<UnsafeCell<u32>>);

// SAFETY: loom checks every access.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn new(count: usize) -> Arc<Bytes> {
        Arc::new(Bytes((0..count).map(|_| UnsafeCell::new(0)).collect()))
    }

    fn write(&self, buffer: &Buffer, value: u32) {
        // SAFETY: loom checks that the access is exclusive.
        self.0[buffer.index() as usize].with_mut(|bytes| unsafe { *bytes = value });
    }

    fn read(&self, buffer: &Buffer) -> u32 {
        // SAFETY: loom checks that no access is concurrent.
        self.0[buffer.index() as usize].with(|bytes| unsafe { *bytes })
    }
}

#[test]
fn a_buffer_is_written_by_one_owner_after_the_other() {
    loom::model(|| {
        let (_, here) = pool(1);
        let bytes = Bytes::new(1);
        let (there, their_bytes) = (here.clone(), bytes.clone());
        let other = thread::spawn(move || {
            if let Some(buffer) = there.alloc() {
                their_bytes.write(&buffer, 1);
            }
        });
        if let Some(buffer) = here.alloc() {
            bytes.write(&buffer, 2);
        }
        other.join().unwrap();
        assert!(here.alloc().is_some(), "lost buffer");
    });
}

#[test]
fn a_handle_works_once_and_brings_the_bytes() {
    check(3, || {
        let (_, here) = pool(1);
        let bytes = Bytes::new(1);
        // The handle that the first flight of the first buffer will have.
        let handle = Handle { pool: PoolId(0), index: 0, generation: 1, len: 8 };
        let claimers = [0, 1].map(|_| {
            let (there, bytes) = (here.clone(), bytes.clone());
            thread::spawn(move || match there.claim(handle) {
                Ok(buffer) => {
                    assert_eq!(bytes.read(&buffer), 7);
                    bytes.write(&buffer, 8);
                    true
                }
                Err(error) => {
                    assert_eq!(error, ClaimError::Stale);
                    false
                }
            })
        });
        let buffer = here.alloc().expect("it is free");
        bytes.write(&buffer, 7);
        assert_eq!(buffer.into_handle(8), handle);
        let claimed = claimers.map(|claimer| claimer.join().unwrap());
        assert_ne!(claimed, [true, true], "two owners");
        let late = here.claim(handle).is_ok();
        assert_eq!(late, claimed == [false, false]);
        assert!(here.alloc().is_some(), "lost buffer");
    });
}

#[test]
fn control_a_claim_that_looks_and_then_stores() {
    must_fail("two owners", || {
        let (region, here) = pool(1);
        let handle = here.alloc().expect("it is free").into_handle(8);
        let in_flight = region.lines()[2][0].load(Relaxed);
        let claimers = [0, 1].map(|_| {
            let region = region.clone();
            thread::spawn(move || {
                let word = &region.lines()[2][0];
                let found = word.load(Acquire) == in_flight;
                if found {
                    word.store(in_flight ^ 3, Relaxed);
                }
                found
            })
        });
        let claimed = claimers.map(|claimer| claimer.join().unwrap());
        assert_ne!(claimed, [true, true], "two owners");
        assert_eq!(handle.index, 0);
    });
}

/// One core takes a buffer slowly while another takes both, gives the first back and keeps the
/// second: the first is in front of the list again, but the second is not behind it.
fn slow_taker<B: 'static>(alloc: fn(&Pool, &Region) -> Option<B>, index: fn(&B) -> u32) {
    let (region, here) = pool(2);
    let (there, their_region) = (here.clone(), region.clone());
    let other = thread::spawn(move || {
        let first = alloc(&there, &their_region);
        let second = alloc(&there, &their_region);
        drop(first);
        let kept = second.as_ref().map(index);
        mem::forget(second);
        kept
    });
    let mine = [alloc(&here, &region), alloc(&here, &region)];
    let mut held: Vec<u32> = mine.iter().flatten().map(index).collect();
    mem::forget(mine);
    held.extend(other.join().unwrap());
    held.sort();
    let count = held.len();
    held.dedup();
    assert_eq!(held.len(), count, "two owners");
}

#[test]
fn a_list_that_moved_on_is_noticed() {
    check(3, || slow_taker(|pool, _| pool.alloc(), Buffer::index));
}

/// A buffer of a free list whose head has no tag.
struct Untagged(Region, u32);

impl Untagged {
    fn alloc(region: &Region) -> Option<Untagged> {
        let list = &region.lines()[1][0];
        let mut head = list.load(Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            let next = region.lines()[2][index as usize].load(Relaxed) as u32 >> 2;
            match list.compare_exchange(head, u64::from(next), Acquire, Acquire) {
                Ok(_) => return Some(Untagged(region.clone(), index)),
                Err(changed) => head = changed,
            }
        }
    }
}

impl Drop for Untagged {
    fn drop(&mut self) {
        let (list, word) = (&self.0.lines()[1][0], &self.0.lines()[2][self.1 as usize]);
        let mut head = list.load(Relaxed);
        loop {
            word.store(head << 2, Relaxed);
            match list.compare_exchange(head, u64::from(self.1 + 1), Release, Relaxed) {
                Ok(_) => return,
                Err(changed) => head = changed,
            }
        }
    }
}

#[test]
fn control_a_free_list_without_a_tag() {
    must_fail("two owners", || slow_taker(|_, region| Untagged::alloc(region), |it| it.1));
}
