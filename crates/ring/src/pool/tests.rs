//! What a pool gives, takes, refuses and takes back.

use super::*;
use alloc::vec::Vec;

const HERE: CoreId = CoreId(0);
const THERE: CoreId = CoreId(1);

fn pool(count: usize) -> (Pool, Pool) {
    let region = Region::owned(Pool::region_len(count, 128));
    // SAFETY: the region is reached through these two pools only.
    let here = unsafe { Pool::format(region.clone(), PoolId(5), HERE, 128).unwrap() };
    // SAFETY: as above.
    let there = unsafe { Pool::attach(region, PoolId(5), THERE).unwrap() };
    (here, there)
}

#[test]
fn every_buffer_is_given_once_and_comes_back_when_dropped() {
    let (pool, _) = pool(9);
    assert_eq!((pool.capacity(), pool.buffer_size()), (9, 128));
    for _ in 0..3 {
        let mut all: Vec<Buffer> = core::iter::from_fn(|| pool.alloc()).collect();
        assert_eq!(all.len(), 9);
        for (mark, buffer) in all.iter_mut().enumerate() {
            buffer.fill(mark as u8);
        }
        for (mark, buffer) in all.iter().enumerate() {
            assert!(buffer.len() == 128 && buffer.iter().all(|byte| *byte == mark as u8));
        }
        assert!(pool.alloc().is_none());
    }
}

#[test]
fn ownership_moves_with_the_handle_once() {
    let (here, there) = pool(1);
    let mut buffer = here.alloc().unwrap();
    buffer[..5].copy_from_slice(b"hello");
    let handle = buffer.into_handle(5);
    assert!(here.alloc().is_none(), "in flight is not free");

    let travelled = Handle::from_bytes(&handle.to_bytes()).unwrap();
    let claimed = there.claim(travelled).unwrap();
    assert_eq!(&*claimed, b"hello");
    assert_eq!(there.claim(handle).unwrap_err(), ClaimError::Stale, "a duplicate");
    drop(claimed);
    assert_eq!(there.claim(handle).unwrap_err(), ClaimError::Stale, "free again");

    let again = here.alloc().unwrap().into_handle(5);
    assert_eq!(there.claim(handle).unwrap_err(), ClaimError::Stale, "an older handle");
    assert!(there.claim(again).is_ok());
}

#[test]
fn a_made_up_handle_is_refused() {
    let (here, there) = pool(2);
    let handle = here.alloc().unwrap().into_handle(usize::MAX);
    assert_eq!(handle.len, 128);
    let refused = |change: fn(&mut Handle)| {
        let mut forged = handle;
        change(&mut forged);
        there.claim(forged).unwrap_err()
    };
    assert_eq!(refused(|handle| handle.pool.0 += 1), ClaimError::WrongPool);
    assert_eq!(refused(|handle| handle.index = 2), ClaimError::OutOfRange);
    assert_eq!(refused(|handle| handle.index = u32::MAX), ClaimError::OutOfRange);
    assert_eq!(refused(|handle| handle.len = 129), ClaimError::OutOfRange);
    assert_eq!(refused(|handle| handle.index ^= 1), ClaimError::Stale);
    assert_eq!(refused(|handle| handle.generation += 1), ClaimError::Stale);
    assert!(there.claim(handle).is_ok());
    assert_eq!(Handle::from_bytes(&[0; Handle::BYTES - 1]), None);
}

#[test]
fn a_dead_core_s_buffers_are_freed_and_its_handles_die() {
    let (here, there) = pool(4);
    let kept = here.alloc().unwrap();
    core::mem::forget(there.alloc().unwrap());
    let claimed = here.claim(there.alloc().unwrap().into_handle(1)).unwrap();
    let lost = there.alloc().unwrap().into_handle(1);
    assert!(here.alloc().is_none());
    // SAFETY: the only buffer that THERE still owned was forgotten.
    assert_eq!(unsafe { here.reclaim(THERE) }, 2);
    assert_eq!(here.claim(lost).unwrap_err(), ClaimError::Stale);
    let freed: Vec<Buffer> = core::iter::from_fn(|| here.alloc()).collect();
    assert_eq!(freed.len(), 2);
    assert!(freed.iter().all(|it| it.index() != kept.index() && it.index() != claimed.index()));
}

#[test]
fn memory_that_is_no_pool_is_refused() {
    let owned = |count, size| Pool::owned(PoolId(0), HERE, count, size).map(|_| ());
    assert_eq!(owned(1, 0), Err(PoolError::BadSize));
    assert_eq!(owned(1, 100), Err(PoolError::BadSize));
    assert_eq!(owned(0, 64), Err(PoolError::TooSmall));
    for (format, error) in [
        (0, PoolError::TooSmall),
        (u64::MAX, PoolError::TooSmall),
        (1 | 100 << 32, PoolError::BadSize),
        (1 << 20 | 64 << 32, PoolError::TooSmall),
    ] {
        let region = Region::owned(1024);
        region.words()[0].store(format, Relaxed);
        // SAFETY: nobody else knows the region.
        let attached = unsafe { Pool::attach(region, PoolId(0), HERE) };
        assert_eq!(attached.map(|_| ()), Err(error));
    }
}

#[test]
fn a_format_uses_what_fits() {
    for bytes in (0..4096).step_by(64) {
        // SAFETY: nobody else knows the region.
        let made = unsafe { Pool::format(Region::owned(bytes), PoolId(0), HERE, 64) };
        match made {
            Ok(pool) => {
                assert!(Pool::region_len(pool.capacity(), 64) <= bytes);
                assert!(Pool::region_len(pool.capacity() + 1, 64) > bytes);
            }
            Err(error) => assert!(error == PoolError::TooSmall && bytes < 256),
        }
    }
}

#[test]
fn a_node_s_pool_is_formatted_once_and_taken_back_by_the_next_incarnation() {
    let region = Region::owned(1 << 16);
    // SAFETY: what this test holds as a core is forgotten before the core's next right is made.
    let right = |core| unsafe { PoolMemory::new(region.clone(), core) };
    assert_eq!(Pool::join(right(THERE), PoolId(0)).map(drop), Err(PoolError::TooSmall));
    let here = Pool::open(right(HERE), PoolId(0), 4096).unwrap();
    let there = Pool::join(right(THERE), PoolId(0)).unwrap();
    assert_eq!((here.capacity(), here.free_buffers()), (15, 15));

    let kept = here.alloc().unwrap();
    core::mem::forget(there.alloc().unwrap());
    let travels = there.alloc().unwrap().into_handle(9);
    assert_eq!(here.free_buffers(), 12);
    let again = Pool::open(right(THERE), PoolId(0), 64).unwrap();
    assert_eq!((again.buffer_size(), again.free_buffers()), (4096, 14));
    assert_eq!(here.claim(travels).unwrap_err(), ClaimError::Stale);
    assert_eq!(again.offset(kept.index()), kept.offset());
    assert!(kept.offset().is_multiple_of(4096) && kept.offset() + 4096 <= region.len());
}

#[test]
fn a_format_that_somebody_began_is_left_alone() {
    let region = Region::owned(1 << 16);
    region.words()[0].store(1 << 63, Relaxed);
    // SAFETY: nobody else knows the region.
    let right = || unsafe { PoolMemory::new(region.clone(), HERE) };
    assert_eq!(Pool::open(right(), PoolId(0), 64).map(drop), Err(PoolError::Unfinished));
    assert_eq!(Pool::join(right(), PoolId(0)).map(drop), Err(PoolError::Unfinished));
}

#[test]
fn heap_memory_gives_back_what_is_in_flight_and_nothing_that_is_held() {
    let memory = HeapPool::new(1 << 14);
    let here = Pool::open(memory.right_of(HERE), PoolId(0), 1024).unwrap();
    let held = here.alloc().unwrap();
    let travels = here.alloc().unwrap().into_handle(1);
    let again = Pool::join(memory.right_of(HERE), PoolId(0)).unwrap();
    assert_eq!(again.free_buffers(), again.capacity() - 1);
    assert_eq!(again.claim(travels).unwrap_err(), ClaimError::Stale);
    drop(held);
    assert_eq!(again.free_buffers(), again.capacity());
    let small = HeapPool::new(64).right_of(HERE);
    assert_eq!(small.bytes(), 64);
    assert_eq!(Pool::open(small, PoolId(0), 4096).map(drop), Err(PoolError::TooSmall));
}

#[test]
fn who_leaves_a_reserve_gets_the_rest_and_others_get_all() {
    let (here, there) = pool(8);
    let here = here.leaving(3);
    let mut all: Vec<Buffer> = core::iter::from_fn(|| here.alloc()).collect();
    assert_eq!(all.len(), 5);
    all.extend(core::iter::from_fn(|| there.alloc()));
    assert_eq!(all.len(), 8);
    all.truncate(5);
    assert!(here.alloc().is_none() && here.alloc_any().is_some());
    all.truncate(4);
    let sent = here.alloc().unwrap().into_handle(1);
    assert!(here.alloc().is_none());
    assert_eq!(here.recall(), 1);
    assert!(here.claim(sent).is_err() && here.alloc().is_some());
}
