//! The naive service: it keeps the pieces that are handed out and searches all collections for
//! each request.

use super::super::*;
use super::{GIB, LARGE, OWNERS, Pieces};
use proptest::prelude::*;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ModelRegion {
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) draining: bool,
}

/// A collection as a search over everything sees it.
#[derive(Clone, Copy)]
pub(super) struct Collection {
    pub(super) address: u64,
    pub(super) frames: u64,
    pub(super) free: u64,
}

impl Collection {
    pub(super) fn is_whole_and_free(&self) -> bool {
        self.free == 512
    }
}

#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) regions: Vec<ModelRegion>,
    pub(super) pieces: Pieces,
}

impl Model {
    /// The 2 MiB collections of one region.
    pub(super) fn collections(&self, region: &ModelRegion) -> Vec<Collection> {
        let end = region.start + region.bytes;
        let first = region.start / LARGE;
        let mut collections: Vec<Collection> = (first..end.div_ceil(LARGE))
            .map(|number| {
                let address = number * LARGE;
                let there = (address + LARGE).min(end) - address.max(region.start);
                Collection { address, frames: there / 4096, free: there / 4096 }
            })
            .collect();
        for (address, (size, _)) in self.pieces.range(region.start..end) {
            let number = (address / LARGE - first) as usize;
            match size {
                PageSize::Small => collections[number].free -= 1,
                PageSize::Large => collections[number].free = 0,
                PageSize::Huge => collections[number..][..512].iter_mut().for_each(|c| c.free = 0),
            }
        }
        collections
    }

    /// The addresses that the policy allows for a request.
    pub(super) fn allowed(&self, size: PageSize) -> Vec<core::ops::Range<u64>> {
        let mut best = (u64::MAX, Vec::new());
        let mut offer = |cost, start| match u64::cmp(&cost, &best.0) {
            core::cmp::Ordering::Less => best = (cost, Vec::from([start])),
            core::cmp::Ordering::Equal => best.1.push(start),
            core::cmp::Ordering::Greater => {}
        };
        for region in self.regions.iter().filter(|region| !region.draining) {
            for collections in
                self.collections(region).chunk_by(|a, b| a.address / GIB == b.address / GIB)
            {
                let whole = collections.iter().filter(|c| c.is_whole_and_free()).count() as u64;
                if size == PageSize::Huge {
                    if whole == 512 {
                        offer(0, collections[0].address);
                    }
                    continue;
                }
                for collection in collections {
                    if collection.is_whole_and_free() {
                        offer(512 + whole, collection.address);
                    } else if collection.free > 0 && size == PageSize::Small {
                        offer(collection.free, collection.address);
                    }
                }
            }
        }
        let span = size.bytes().max(LARGE);
        best.1.into_iter().map(|start| start..start + span).collect()
    }

    pub(super) fn covered(&self, address: u64) -> Option<(u64, PageSize, CoreId)> {
        let (start, (size, owner)) = self.pieces.range(..=address).next_back()?;
        (address - start < size.bytes()).then_some((*start, *size, *owner))
    }

    pub(super) fn region_of(&self, address: u64) -> Option<usize> {
        self.regions.iter().position(|r| (r.start..r.start + r.bytes).contains(&address))
    }

    pub(super) fn free(&mut self, address: u64, size: PageSize) -> Result<(), FreeError> {
        self.region_of(address).ok_or(FreeError::NotOurs)?;
        if !address.is_multiple_of(size.bytes()) {
            return Err(FreeError::Misaligned);
        }
        let (start, held, _) = self.covered(address).ok_or(FreeError::NotAllocated)?;
        if held != size {
            return Err(FreeError::WrongSize(held));
        }
        self.pieces.remove(&start);
        Ok(())
    }

    /// Everything that is reported, found by counting.
    pub(super) fn check<W: Words>(&self, memory: &PhysicalMemory<W>) -> Result<(), TestCaseError> {
        let statistics = memory.statistics();
        let mut usable = 0;
        let mut free = [0; 3];
        prop_assert_eq!(memory.regions().count(), self.regions.len());
        for (region, report) in self.regions.iter().zip(memory.regions()) {
            let collections = self.collections(region);
            let frames: u64 = collections.iter().map(|c| c.free).sum();
            let expected = RegionReport {
                start: PhysAddr(region.start),
                bytes: region.bytes,
                free_bytes: frames * 4096,
                draining: region.draining,
            };
            prop_assert_eq!(report, expected);
            let all: u64 = collections.iter().map(|c| c.frames).sum();
            prop_assert_eq!(all * 4096, region.bytes);
            usable += region.bytes;
            if !region.draining {
                let whole = collections.iter().filter(|c| c.is_whole_and_free());
                free[0] += frames;
                free[1] += whole.count() as u64;
                free[2] += collections
                    .chunk_by(|a, b| a.address / GIB == b.address / GIB)
                    .filter(|c| c.len() == 512 && c.iter().all(Collection::is_whole_and_free))
                    .count() as u64;
            }
        }
        prop_assert_eq!(statistics.usable_bytes, usable);
        prop_assert_eq!(statistics.free_bytes, free[0] * 4096);
        for size in PageSize::ALL {
            let used = self.pieces.values().filter(|(held, _)| *held == size).count() as u64;
            let count = SizeCount { free: free[size as usize], used };
            prop_assert_eq!(statistics.size(size), count, "{:?}", size);
            for owner in OWNERS {
                let held = self.pieces.values().filter(|piece| **piece == (size, owner)).count();
                prop_assert_eq!(memory.usage(owner).pieces(size), held as u64);
            }
        }
        for (address, (size, owner)) in &self.pieces {
            let expected = Some(Allocation { owner: *owner, size: *size });
            prop_assert_eq!(memory.allocation(PhysAddr(*address)), expected);
            let last = PhysAddr(address + size.bytes() - 1);
            prop_assert_eq!(memory.allocation(last), expected);
        }
        Ok(())
    }
}
