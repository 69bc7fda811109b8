//! The service beside a naive model, after interruptions, and at its edges.

mod away;
mod interruption;
mod model;
mod random;

use super::*;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::sync::atomic::AtomicU64;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const LARGE: u64 = 2 * MIB;

type Pieces = BTreeMap<u64, (PageSize, CoreId)>;
/// Shared, so that a test keeps the record when the service that wrote it is gone.
type Storage = Rc<[AtomicU64]>;

/// Words that hold what a machine's memory may hold.
fn garbage(start: u64, bytes: u64) -> Storage {
    let words = PhysicalMemory::<Storage>::words_for(PhysAddr(start), bytes);
    (0..words as u64).map(|word| AtomicU64::new(word.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
}

const OWNERS: [CoreId; 3] = [CoreId(0), CoreId(7), CoreId(255)];

#[test]
fn a_damaged_record_is_refused() {
    let (start, bytes) = (0x10_0000, 4 * MIB);
    let words = garbage(start, bytes);
    let mut memory = PhysicalMemory::new();
    memory.add_region(PhysAddr(start), bytes, words.clone()).expect("a region of frames");
    memory.alloc(PageSize::Large, CoreId(3)).expect("a whole collection");
    let twice = PhysicalMemory::recover([words.clone(), words.clone()]);
    assert_eq!(twice.err(), Some(RecoverError::Overlaps(PhysAddr(start))));
    let state = words
        .iter()
        .position(|word| word.load(core::sync::atomic::Ordering::Relaxed) == 2 | 3 << 8);
    let state = &words[state.expect("the word of the piece")];
    for damage in [4, 2 | 256 << 8, u64::MAX, 1 << 63] {
        state.store(damage, core::sync::atomic::Ordering::Relaxed);
        assert_eq!(memory.allocation(PhysAddr(LARGE)), None);
        assert_eq!(memory.free(PhysAddr(LARGE), PageSize::Large), Err(FreeError::NotAllocated));
        let damaged = PhysicalMemory::recover([words.clone()]);
        assert_eq!(damaged.err(), Some(RecoverError::Corrupt(PhysAddr(start))));
    }
    let short: Storage = words.iter().take(3).map(|_| AtomicU64::new(0)).collect();
    assert_eq!(PhysicalMemory::recover([short]).err(), Some(RecoverError::NoRecord));
}

#[test]
fn what_is_no_region_and_no_core_is_refused() {
    let mut memory = PhysicalMemory::new();
    let words = || garbage(0, MIB);
    for (start, bytes) in [(0, 0), (1, 4096), (0, 4095), (u64::MAX - 4095, 4096), (1 << 52, 4096)] {
        let added = memory.add_region(PhysAddr(start), bytes, words());
        assert_eq!(added, Err(AddError::NotFrames));
        assert_eq!(PhysicalMemory::<Storage>::words_for(PhysAddr(start), bytes), 0);
    }
    let needed = PhysicalMemory::<Storage>::words_for(PhysAddr(0), GIB);
    assert_eq!(needed * 8, 292 * 1024 + 5 * 8);
    assert_eq!(memory.add_region(PhysAddr(0), GIB, words()), Err(AddError::TooFewWords(needed)));
    assert_eq!(memory.add_region(PhysAddr(0), MIB, words()), Ok(()));
    assert_eq!(memory.alloc(PageSize::Small, CoreId(256)), Err(AllocError::UnknownOwner));
    assert_eq!(memory.alloc(PageSize::Large, CoreId(0)), Err(AllocError::OutOfFrames));
    assert_eq!(memory.free(PhysAddr(MIB), PageSize::Small), Err(FreeError::NotOurs));
    let reserved = memory.reserve(PhysAddr(0), 1, CoreId(256));
    assert_eq!(reserved, Err(ReserveError::UnknownOwner));
    assert_eq!(memory.reserve(PhysAddr(1), u64::MAX, CoreId(0)), Err(ReserveError::NotOurs));
    assert_eq!(memory.drain(PhysAddr(4096)), Err(DrainError::NotFound));
    assert_eq!(memory.usage(CoreId(256)), Usage::default());
}
