//! Memory that goes and comes: beside a set of what is away, and after each restart.

use super::super::*;
use super::{GIB, LARGE, MIB, Storage, garbage};
use alloc::collections::BTreeSet;
use proptest::prelude::*;

/// A region whose ends are no whole collections, and one that is away at first.
const OWN: (u64, u64) = (4 * LARGE - 0x3000, 5 * LARGE + 0x3000);
const AWAY: (u64, u64) = (GIB - 3 * LARGE, 6 * LARGE);

fn both() -> (PhysicalMemory<Storage>, [Storage; 2]) {
    let words = [OWN, AWAY].map(|(start, bytes)| garbage(start, bytes));
    let mut memory = PhysicalMemory::new();
    memory.add_region(PhysAddr(OWN.0), OWN.1, words[0].clone()).expect("a region of frames");
    memory.add_away(PhysAddr(AWAY.0), AWAY.1, words[1].clone()).expect("whole collections");
    (memory, words)
}

#[test]
fn what_is_away_is_nobodys_until_it_comes() {
    let (mut memory, _) = both();
    let bytes = |memory: &PhysicalMemory<_>| {
        let Statistics { usable_bytes, free_bytes, .. } = memory.statistics();
        (usable_bytes, free_bytes)
    };
    assert_eq!(bytes(&memory), (OWN.1, OWN.1));
    assert_eq!(memory.reserve(PhysAddr(AWAY.0), 1, CoreId(0)), Err(ReserveError::NotFree));
    assert_eq!(memory.free(PhysAddr(AWAY.0), PageSize::Large), Err(FreeError::NotAllocated));
    // All that is whole and free can go; the frames before the first collection cannot.
    let went = memory.send_away(u64::MAX).expect("five collections are free");
    assert_eq!(went, (PhysAddr(4 * LARGE), 5));
    assert_eq!((memory.send_away(1), bytes(&memory)), (None, (0x3000, 0x3000)));
    assert_eq!(memory.alloc(PageSize::Large, CoreId(0)), Err(AllocError::OutOfFrames));
    assert_eq!(memory.call_back(PhysAddr(AWAY.0), AWAY.1), Ok(6));
    assert_eq!(memory.call_back(PhysAddr(AWAY.0), AWAY.1), Ok(0));
    assert_eq!(bytes(&memory), (AWAY.1 + 0x3000, AWAY.1 + 0x3000));
    let given = memory.alloc(PageSize::Large, CoreId(0)).expect("six are free");
    assert!((AWAY.0..AWAY.0 + AWAY.1).contains(&given.0));
    for (start, bytes, error) in [
        (LARGE, LARGE, FreeError::NotOurs),
        (4 * LARGE, 6 * LARGE, FreeError::NotOurs),
        (4 * LARGE, MIB, FreeError::Misaligned),
        (0, 0, FreeError::Misaligned),
    ] {
        assert_eq!(memory.call_back(PhysAddr(start), bytes), Err(error));
    }
    // What has gone comes back, whichever it was: here the five of the first region.
    assert_eq!(memory.call_back_some(0), None);
    assert_eq!(memory.call_back_some(2), Some((PhysAddr(4 * LARGE), 2)));
    assert_eq!(memory.call_back_some(u64::MAX), Some((PhysAddr(6 * LARGE), 3)));
    assert_eq!(
        (memory.call_back_some(1), memory.statistics().usable_bytes),
        (None, AWAY.1 + OWN.1)
    );
    let added = memory.add_away(PhysAddr(2 * GIB), MIB, garbage(2 * GIB, MIB));
    assert_eq!(added, Err(AddError::NotFrames));
}

/// What is done to the memory: `most` collections go, a number of them come, pieces are given.
#[derive(Clone, Debug)]
enum Op {
    Send(u64),
    Back(u64, u64),
    Alloc(PageSize),
    Free(prop::sample::Index),
    Recover,
}

fn any_op() -> impl Strategy<Value = Op> {
    let size = prop::sample::select(std::vec![PageSize::Small, PageSize::Large]);
    prop_oneof![
        (0u64..7).prop_map(Op::Send),
        (0u64..11, 1u64..4).prop_map(|(at, count)| Op::Back(at, count)),
        size.prop_map(Op::Alloc),
        any::<prop::sample::Index>().prop_map(Op::Free),
        Just(Op::Recover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_piece_is_ever_away_and_none_is_lost(ops in proptest::collection::vec(any_op(), 1..80)) {
        let (mut memory, words) = both();
        let all: Vec<u64> = (4..9).map(|n| n * LARGE)
            .chain((0..6).map(|n| AWAY.0 + n * LARGE))
            .collect();
        let mut away: BTreeSet<u64> = all[5..].iter().copied().collect();
        let mut given: Vec<(u64, PageSize)> = Vec::new();
        for op in ops {
            match op {
                Op::Send(most) => {
                    let went = memory.send_away(most);
                    prop_assert!(went.is_none_or(|(_, count)| (1..=most).contains(&count)));
                    let (start, count) = went.map_or((0, 0), |(start, count)| (start.0, count));
                    for at in (0..count).map(|n| start + n * LARGE) {
                        prop_assert!(all.contains(&at) && away.insert(at));
                    }
                }
                Op::Back(at, count) => {
                    let start = all[at as usize];
                    let range: Vec<u64> = (0..count).map(|n| start + n * LARGE).collect();
                    let there = range.iter().all(|at| all.contains(at));
                    let came = range.iter().filter(|at| away.contains(at)).count() as u64;
                    let expected = if there { Ok(came) } else { Err(FreeError::NotOurs) };
                    prop_assert_eq!(memory.call_back(PhysAddr(start), count * LARGE), expected);
                    away.retain(|at| !there || !range.contains(at));
                }
                Op::Alloc(size) => given.extend(
                    memory.alloc(size, CoreId(1)).ok().map(|at| (at.0, size))
                ),
                Op::Free(index) if !given.is_empty() => {
                    let (at, size) = given.swap_remove(index.index(given.len()));
                    prop_assert_eq!(memory.free(PhysAddr(at), size), Ok(()));
                }
                Op::Free(_) => {}
                Op::Recover => {
                    let recovered = PhysicalMemory::recover(words.clone());
                    prop_assert!(recovered.is_ok());
                    memory = recovered.unwrap_or_default();
                }
            }
            for (at, size) in &given {
                prop_assert!((0..size.frames()).all(|n| !away.contains(&(at + n * 4096))));
            }
            let usable = OWN.1 + AWAY.1 - away.len() as u64 * LARGE;
            let used: u64 = given.iter().map(|(_, size)| size.bytes()).sum();
            let Statistics { usable_bytes, free_bytes, .. } = memory.statistics();
            prop_assert_eq!((usable_bytes, free_bytes), (usable, usable - used));
        }
    }
}
