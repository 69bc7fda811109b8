//! What memory a machine has, according to its firmware, made consistent: sorted, without
//! overlaps, and usable only where nobody claims otherwise.

use alloc::vec::Vec;
use core::fmt;
use nile_abi::{PageSize, PhysAddr};

/// What a range of physical memory is for. Where firmware contradicts itself the later kind of
/// this list wins, so that memory is never handed out while anyone claims it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemoryKind {
    /// Free for use.
    Usable,
    /// Tables of the firmware, usable once they are read.
    Acpi,
    /// The kernel's image, its boot modules and what boot itself set aside.
    Kernel,
    /// Registers of devices.
    Device,
    /// Anything else that must be left alone.
    Reserved,
}

impl MemoryKind {
    /// Every kind, weakest claim first.
    pub const ALL: [MemoryKind; 5] = [
        MemoryKind::Usable,
        MemoryKind::Acpi,
        MemoryKind::Kernel,
        MemoryKind::Device,
        MemoryKind::Reserved,
    ];

    /// The name that reports print.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Usable => "usable",
            MemoryKind::Acpi => "acpi",
            MemoryKind::Kernel => "kernel",
            MemoryKind::Device => "device",
            MemoryKind::Reserved => "reserved",
        }
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A range of physical memory of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryRegion {
    /// The first byte.
    pub start: PhysAddr,
    /// The length in bytes.
    pub bytes: u64,
    /// What it is for.
    pub kind: MemoryKind,
}

impl MemoryRegion {
    /// The region of `bytes` bytes at `start`.
    pub const fn new(start: PhysAddr, bytes: u64, kind: MemoryKind) -> MemoryRegion {
        MemoryRegion { start, bytes, kind }
    }

    /// The first address after the region; the last address there is, if it would lie beyond.
    pub const fn end(&self) -> PhysAddr {
        PhysAddr(self.start.0.saturating_add(self.bytes))
    }
}

/// All memory of a machine: regions in rising order that do not overlap. Usable ones start and
/// end on 4 KiB boundaries; no two neighbours that touch have the same kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryMap {
    regions: Vec<MemoryRegion>,
}

impl MemoryMap {
    /// The map that `claims` add up to, in whatever order and however they overlap. What the
    /// loader placed (kernel image, modules) is claimed by appending it to what firmware says.
    pub fn from_claims(claims: &[MemoryRegion]) -> MemoryMap {
        let mut map = MemoryMap { regions: strongest(claims) };
        map.align_usable();
        map
    }

    /// Every region, in rising order.
    pub fn regions(&self) -> &[MemoryRegion] {
        &self.regions
    }

    /// The usable regions, in rising order.
    pub fn usable(&self) -> impl Iterator<Item = &MemoryRegion> {
        self.regions.iter().filter(|region| region.kind == MemoryKind::Usable)
    }

    /// Usable bytes; a multiple of 4 KiB.
    pub fn total_usable(&self) -> u64 {
        self.usable().map(|region| region.bytes).sum()
    }

    /// Makes `bytes` usable bytes (rounded up to whole frames) the kernel's: the highest place
    /// that is aligned to `align` and ends at or below `below`. Boot takes what it needs before
    /// frames are handed out with this: the words of [`crate::frames`], start-up code of cores.
    pub fn take(&mut self, bytes: u64, align: PageSize, below: PhysAddr) -> Option<PhysAddr> {
        let bytes = bytes.max(1).checked_next_multiple_of(PageSize::Small.bytes())?;
        let start = self
            .usable()
            .filter_map(|region| {
                let last = region.end().min(below).0.checked_sub(bytes)?;
                let start = PhysAddr(last).align_down(align);
                (start >= region.start).then_some(start)
            })
            .max()?;
        self.regions.push(MemoryRegion::new(start, bytes, MemoryKind::Kernel));
        self.regions = strongest(&self.regions);
        Some(start)
    }

    fn align_usable(&mut self) {
        for region in self.regions.iter_mut().filter(|r| r.kind == MemoryKind::Usable) {
            let end = region.end().align_down(PageSize::Small);
            let start = region.start.0.checked_next_multiple_of(PageSize::Small.bytes());
            region.start = PhysAddr(start.unwrap_or(end.0));
            region.bytes = end.0.saturating_sub(region.start.0);
        }
        self.regions.retain(|region| region.bytes > 0);
    }
}

/// Sweeps over every place where a claim begins or ends and keeps, between two such places, the
/// strongest claim.
fn strongest(claims: &[MemoryRegion]) -> Vec<MemoryRegion> {
    let mut edges = Vec::with_capacity(2 * claims.len());
    for claim in claims.iter().filter(|claim| claim.end() > claim.start) {
        edges.push((claim.start, true, claim.kind));
        edges.push((claim.end(), false, claim.kind));
    }
    nile_order::sort(&mut edges);

    let mut open = [0usize; MemoryKind::ALL.len()];
    let mut regions: Vec<MemoryRegion> = Vec::new();
    let mut from = PhysAddr(0);
    for (at, begins, kind) in edges {
        let winner = MemoryKind::ALL.into_iter().rev().find(|kind| open[*kind as usize] > 0);
        if let Some(winner) = winner.filter(|_| at > from) {
            push(&mut regions, MemoryRegion::new(from, at.0 - from.0, winner));
        }
        from = at;
        if begins {
            open[kind as usize] += 1;
        } else {
            // An end sorts before a begin at the same place, but never before its own begin:
            // the claim has at least one byte.
            open[kind as usize] -= 1;
        }
    }
    regions
}

/// Appends `region`, as part of the last one where they touch and are of one kind.
fn push(regions: &mut Vec<MemoryRegion>, region: MemoryRegion) {
    match regions.last_mut() {
        Some(last) if last.kind == region.kind && last.end() == region.start => {
            last.bytes += region.bytes;
        }
        _ => regions.push(region),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryKind::*;
    use proptest::prelude::*;

    fn region(start: u64, end: u64, kind: MemoryKind) -> MemoryRegion {
        MemoryRegion::new(PhysAddr(start), end - start, kind)
    }

    #[test]
    fn a_reserved_claim_wins_and_usable_memory_shrinks_to_whole_frames() {
        let map = MemoryMap::from_claims(&[
            region(0x10_0000, 0x80_0123, Usable),
            region(0x800, 0x9_fc00, Usable),
            region(0x20_0000, 0x21_0010, Kernel),
            region(0x20_8000, 0x20_9000, Reserved),
        ]);
        assert_eq!(
            map.regions(),
            [
                region(0x1000, 0x9_f000, Usable),
                region(0x10_0000, 0x20_0000, Usable),
                region(0x20_0000, 0x20_8000, Kernel),
                region(0x20_8000, 0x20_9000, Reserved),
                region(0x20_9000, 0x21_0010, Kernel),
                region(0x21_1000, 0x80_0000, Usable),
            ]
        );
        assert_eq!(map.total_usable(), 0x9_e000 + 0x10_0000 + 0x5e_f000);
    }

    #[test]
    fn neighbours_of_one_kind_become_one_region_whatever_their_boundary() {
        let map = MemoryMap::from_claims(&[
            region(0x1800, 0x3000, Usable),
            region(0x1000, 0x1800, Usable),
            region(0x2000, 0x2000, Reserved),
        ]);
        assert_eq!(map.regions(), [region(0x1000, 0x3000, Usable)]);
    }

    #[test]
    fn take_gives_the_highest_aligned_place_and_makes_it_the_kernels() {
        let mut map = MemoryMap::from_claims(&[
            region(0, 0x9_f000, Usable),
            region(0x10_0000, 0x100_0000, Usable),
        ]);
        let before = map.total_usable();
        assert_eq!(map.take(5000, PageSize::Small, PhysAddr(0x10_0000)), Some(PhysAddr(0x9_d000)));
        assert_eq!(map.take(1, PageSize::Large, PhysAddr(u64::MAX)), Some(PhysAddr(0xe0_0000)));
        assert_eq!(map.take(1 << 30, PageSize::Small, PhysAddr(u64::MAX)), None);
        assert_eq!(map.take(u64::MAX, PageSize::Small, PhysAddr(u64::MAX)), None);
        assert_eq!(map.total_usable(), before - 3 * 4096);
        assert!(map.regions().contains(&region(0x9_d000, 0x9_f000, Kernel)));
    }

    #[test]
    fn claims_at_the_end_of_all_addresses_are_cut_off() {
        let claim = MemoryRegion::new(PhysAddr(u64::MAX - 10), u64::MAX, Usable);
        assert_eq!(MemoryMap::from_claims(&[claim]).regions(), []);
        let claim = MemoryRegion::new(PhysAddr(1), u64::MAX, Usable);
        assert_eq!(MemoryMap::from_claims(&[claim]).total_usable(), 0u64.wrapping_sub(0x2000));
    }

    fn any_kind() -> impl Strategy<Value = MemoryKind> {
        proptest::sample::select(MemoryKind::ALL.to_vec())
    }

    /// Claims over 64 units of 1 KiB, so that every frame is made of four of them.
    fn small_claims() -> impl Strategy<Value = Vec<MemoryRegion>> {
        let claim = (0u64..64, 0u64..24, any_kind()).prop_map(|(start, length, kind)| {
            MemoryRegion::new(PhysAddr(start * 1024), length * 1024, kind)
        });
        proptest::collection::vec(claim, 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn every_kibibyte_belongs_to_its_strongest_claim(claims in small_claims()) {
            let mut naive = [None; 96];
            for claim in &claims {
                for unit in claim.start.0 / 1024..claim.end().0 / 1024 {
                    let unit = &mut naive[unit as usize];
                    *unit = (*unit).max(Some(claim.kind));
                }
            }
            let map = MemoryMap::from_claims(&claims);
            let mut seen = [None; 96];
            for region in map.regions() {
                for unit in region.start.0 / 1024..region.end().0 / 1024 {
                    prop_assert_eq!(seen[unit as usize].replace(region.kind), None);
                }
            }
            for (frame, units) in naive.chunks(4).enumerate() {
                let seen = &seen[frame * 4..][..4];
                if units.iter().all(|kind| *kind == Some(Usable)) {
                    prop_assert_eq!(seen, units);
                } else {
                    for (seen, naive) in seen.iter().zip(units) {
                        let expected = naive.filter(|kind| *kind != Usable);
                        prop_assert_eq!(*seen, expected);
                    }
                }
            }
        }

        #[test]
        fn any_claims_give_a_sorted_map_without_overlap(
            claims in proptest::collection::vec((any::<u64>(), any::<u64>(), any_kind()), 0..40),
        ) {
            let claims: Vec<_> = claims
                .into_iter()
                .map(|(start, bytes, kind)| MemoryRegion::new(PhysAddr(start), bytes, kind))
                .collect();
            let map = MemoryMap::from_claims(&claims);
            for pair in map.regions().windows(2) {
                prop_assert!(pair[0].end() <= pair[1].start);
                prop_assert!(pair[0].end() < pair[1].start || pair[0].kind != pair[1].kind);
            }
            prop_assert!(map.usable().all(|r| r.start.is_aligned(PageSize::Small)
                && r.bytes.is_multiple_of(4096)));
            prop_assert_eq!(&MemoryMap::from_claims(map.regions()), &map);
        }
    }
}
