//! What the loader says, and the memory map that follows from it.

use std::cell::Cell;

use nile_abi::{PageSize, PhysAddr};
use nile_memory::{MemoryKind, MemoryMap, MemoryRegion};
use nile_platform_x86_64::bootinfo::{self, multiboot2};

use crate::input::Input;

/// Where the input's memory begins.
const BASE: u64 = 0x1000;

/// The most reads of memory that either format is worth: a command line is read byte by byte.
const MOST_READS: usize = 4096;

/// Loaders say more than the map: three places of their own that they claim.
const MOST_CLAIMS: usize = bootinfo::MAX_ENTRIES + 3;

/// The first byte says which loader it was (odd: Multiboot2, even: PVH); the others are all the
/// memory there is. Accepted: some of it is usable.
pub fn bootinfo(bytes: &[u8]) -> bool {
    let Some((loader, memory)) = bytes.split_first() else { return false };
    let eax = if loader % 2 == 1 { multiboot2::LOADER_MAGIC } else { 0 };
    let reads = Cell::new(0);
    let read = |at: PhysAddr, len: usize| {
        reads.set(reads.get() + 1);
        let start = usize::try_from(at.0.checked_sub(BASE)?).ok()?;
        memory.get(start..start.checked_add(len)?)
    };
    let found = bootinfo::read(eax, PhysAddr(BASE), &read);
    assert!(reads.get() <= MOST_READS);
    let Ok(found) = found else { return false };

    assert!(found.claims.len() <= MOST_CLAIMS);
    assert!(!bootinfo::program(found.command_line).is_empty());
    let value = bootinfo::option(found.command_line, "exit").unwrap_or_default();
    assert!(found.command_line.contains(value));
    check(&MemoryMap::from_claims(&found.claims));
    true
}

/// Records of 18 bytes: what it is (1), a length (8), an address (8) and a page size (1). Most
/// are claims, some take memory from the map that all claims add up to. Accepted: memory was
/// taken.
pub fn memory_map(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    let (mut claims, mut takes) = (Vec::new(), Vec::new());
    while let (Some(what), Some(bytes), Some(address), Some(size)) =
        (input.byte(), input.word(), input.word(), input.byte())
    {
        match MemoryKind::ALL.get(usize::from(what)) {
            Some(kind) => claims.push(MemoryRegion::new(PhysAddr(address), bytes, *kind)),
            None => takes.push((bytes, PageSize::ALL[usize::from(size) % 3], PhysAddr(address))),
        }
    }
    let mut map = MemoryMap::from_claims(&claims);
    check(&map);
    let mut taken = false;
    for (bytes, align, below) in takes {
        let before = map.clone();
        match map.take(bytes, align, below) {
            Some(start) => {
                let bytes = bytes.max(1).next_multiple_of(PageSize::Small.bytes());
                let end = start.checked_add(bytes).expect("what is taken was there");
                assert!(start.is_aligned(align) && end <= below);
                assert!(before.usable().any(|free| free.start <= start && end <= free.end()));
                assert_eq!(map.total_usable(), before.total_usable() - bytes);
                taken = true;
            }
            None => assert_eq!(map, before),
        }
        check(&map);
    }
    taken
}

/// What the documentation of [`MemoryMap`] promises of every map.
fn check(map: &MemoryMap) {
    for pair in map.regions().windows(2) {
        let (low, high) = (pair[0], pair[1]);
        assert!(low.end() < high.start || low.end() == high.start && low.kind != high.kind);
    }
    for free in map.usable() {
        assert!(free.bytes > 0 && free.start.is_aligned(PageSize::Small));
        assert!(free.end().is_aligned(PageSize::Small));
    }
    assert_eq!(MemoryMap::from_claims(map.regions()), *map);
}
