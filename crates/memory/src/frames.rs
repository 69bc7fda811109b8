//! The physical memory service's mechanism: which piece of memory a core gets.
//!
//! Memory is divided into 1 GiB *collections* of 512 × 512 frames of 4 KiB, and these into 2 MiB
//! collections of 512 consecutive frames (NileOS paper, section V). A request for 1 GiB or 2 MiB
//! is given a wholly free collection. A request for 4 KiB is served from the collection with the
//! fewest free frames that still has one, so that large pieces stay whole as long as possible;
//! for the same reason a 2 MiB request, and a 2 MiB collection to be split, comes from the 1 GiB
//! collection with the fewest free 2 MiB collections. Of equally full ones the region with the
//! lowest address gives, and in it the collection that changed last.
//!
//! Memory comes in *regions*, which need not be aligned to anything but frames, are added and
//! removed at run time, and keep their own record: words in memory that the caller gives with the
//! region and that are all a restarted manager needs ([`PhysicalMemory::recover`]). A request
//! takes a fixed number of steps for each region, however large.
//!
//! Memory can be *away*: it is in a region, and not the node's now (`away`).
//!
//! * `collections`: one region's policy.
//! * `away`: what a node gives up and gets while it runs.
//! * `record`: the truth, and what an interruption can do to it.
//! * `buckets`: the lists by free pieces.
//! * `statistics`: what is reported.
//! * `error`: what can be refused, and with which status of a call.

mod away;
mod buckets;
mod collections;
mod error;
mod record;
mod statistics;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;
use collections::Collections;
pub use error::{AddError, AllocError, DrainError, FreeError, RecoverError, ReserveError};
use nile_abi::{CoreId, MAX_CORES, PageSize, PhysAddr};
pub use record::Words;
use record::{Corrupt, Layout, Record};
pub use statistics::{Allocation, RegionReport, SizeCount, Statistics, Usage};

/// The end of what an x86_64 machine can address, in bytes.
const PHYSICAL_LIMIT: u64 = 1 << 52;

/// Every frame of a node's regions, and which core has it. One core manages it.
pub struct PhysicalMemory<W> {
    /// In rising order.
    regions: Vec<Collections<W>>,
    usage: Vec<Usage>,
}

impl<W: Words> Default for PhysicalMemory<W> {
    fn default() -> Self {
        PhysicalMemory::new()
    }
}

impl<W: Words> PhysicalMemory<W> {
    /// A node without memory.
    pub fn new() -> PhysicalMemory<W> {
        PhysicalMemory { regions: Vec::new(), usage: vec![Usage::default(); MAX_CORES] }
    }

    /// How many words the record of a region takes: 292 KiB per GiB. Zero if it is none.
    pub fn words_for(start: PhysAddr, bytes: u64) -> usize {
        if is_extent(start, bytes) { Layout { start, bytes }.words() } else { 0 }
    }

    /// Puts a region of free frames under the service's care. Its record is kept in `words`,
    /// which may hold anything and lie in the memory of another region, or of this one if that
    /// part is [reserved](PhysicalMemory::reserve) next. Takes one store per 2 MiB.
    pub fn add_region(&mut self, start: PhysAddr, bytes: u64, words: W) -> Result<(), AddError> {
        if !is_extent(start, bytes) {
            return Err(AddError::NotFrames);
        }
        let layout = Layout { start, bytes };
        let at = self.free_place(&layout).ok_or(AddError::Overlaps)?;
        if words.count() < layout.words() {
            return Err(AddError::TooFewWords(layout.words()));
        }
        self.regions.insert(at, Collections::create(words, layout));
        Ok(())
    }

    /// The state as the regions' records tell it, after the core that managed it has restarted.
    /// A piece that was being handed out or taken back at that moment is either free or its
    /// owner's. What each core has is counted anew from the records.
    pub fn recover(records: impl IntoIterator<Item = W>) -> Result<Self, RecoverError> {
        let mut memory = PhysicalMemory::new();
        for words in records {
            let record = Record::open(words).map_err(|_| RecoverError::NoRecord)?;
            let layout = record.layout;
            let at = memory.free_place(&layout).ok_or(RecoverError::Overlaps(layout.start))?;
            let region = Collections::derive(record, &mut memory.usage)
                .map_err(|Corrupt| RecoverError::Corrupt(layout.start))?;
            memory.regions.insert(at, region);
        }
        Ok(memory)
    }

    /// Hands a piece of `size` out to `owner`; its contents are whatever was there.
    pub fn alloc(&mut self, size: PageSize, owner: CoreId) -> Result<PhysAddr, AllocError> {
        let usage = self.usage.get_mut(owner.index()).ok_or(AllocError::UnknownOwner)?;
        let address = self
            .regions
            .iter_mut()
            .filter(|region| !region.is_draining())
            .filter_map(|region| Some((region.cost(size)?, region)))
            .min_by_key(|(cost, _)| *cost)
            .and_then(|(_, region)| region.alloc(size, owner))
            .ok_or(AllocError::OutOfFrames)?;
        usage.add(size);
        Ok(address)
    }

    /// Takes a piece back, in the size in which it was handed out.
    pub fn free(&mut self, address: PhysAddr, size: PageSize) -> Result<(), FreeError> {
        let at = self.find(address).ok_or(FreeError::NotOurs)?;
        let owner = self.regions[at].free(address, size)?;
        self.usage[owner.index()].remove(size);
        Ok(())
    }

    /// The piece that holds `address`, if one that is handed out does.
    pub fn allocation(&self, address: PhysAddr) -> Option<Allocation> {
        self.regions[self.find(address)?].allocation(address)
    }

    /// Hands the frames that the range touches out to `owner`, in whole 2 MiB collections where
    /// it covers them. For boot: an interruption leaves part of it done.
    pub fn reserve(
        &mut self,
        start: PhysAddr,
        bytes: u64,
        owner: CoreId,
    ) -> Result<(), ReserveError> {
        let end = start.checked_add(bytes).ok_or(ReserveError::NotOurs)?;
        let start = start.align_down(PageSize::Small);
        let frames = (end.0 - start.0).div_ceil(PageSize::Small.bytes());
        let at = self.find(start).ok_or(ReserveError::NotOurs)?;
        let usage = self.usage.get_mut(owner.index()).ok_or(ReserveError::UnknownOwner)?;
        let region = &mut self.regions[at];
        if end.0 > region.layout().end() {
            return Err(ReserveError::NotOurs);
        }
        if !region.is_free(start, frames) {
            return Err(ReserveError::NotFree);
        }
        region.reserve(start, frames, owner, |size| usage.add(size));
        Ok(())
    }

    /// Takes back everything `owner` has, once no page table names it any more, and says what
    /// that was: the end of a core that does not come back. Walks over all collections.
    pub fn reclaim(&mut self, owner: CoreId) -> Usage {
        let before = self.usage(owner);
        for region in &mut self.regions {
            for (address, size) in region.owned_by(owner) {
                // It was listed as handed out in this size a moment ago.
                if region.free(address, size).is_ok() {
                    self.usage[owner.index()].remove(size);
                }
            }
        }
        before
    }

    /// Stops handing out frames of the region that starts at `start`. It can be removed when
    /// what is left of it, in bytes, has come back.
    pub fn drain(&mut self, start: PhysAddr) -> Result<u64, DrainError> {
        let region = self.named(start)?;
        region.set_draining(true);
        Ok(used_bytes(region))
    }

    /// Hands out frames of a drained region again.
    pub fn resume(&mut self, start: PhysAddr) -> Result<(), DrainError> {
        self.named(start)?.set_draining(false);
        Ok(())
    }

    /// Removes a drained region that is empty and gives back the words of its record.
    pub fn remove(&mut self, start: PhysAddr) -> Result<W, DrainError> {
        let region = self.named(start)?;
        if !region.is_draining() {
            return Err(DrainError::NotDraining);
        }
        match used_bytes(region) {
            0 => {}
            used => return Err(DrainError::InUse(used)),
        }
        let at = self.find(start).ok_or(DrainError::NotFound)?;
        Ok(self.regions.remove(at).close())
    }

    /// The regions, in rising order.
    pub fn regions(&self) -> impl Iterator<Item = RegionReport> {
        self.regions.iter().map(|region| RegionReport {
            start: region.layout().start,
            bytes: region.layout().bytes,
            free_bytes: region.layout().bytes - used_bytes(region),
            draining: region.is_draining(),
        })
    }

    /// The node's memory in numbers; takes a few steps per region.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::default();
        for region in &self.regions {
            statistics.usable_bytes += region.layout().bytes - away_bytes(region);
            for size in PageSize::ALL {
                let free = if region.is_draining() { 0 } else { region.free_pieces(size) };
                statistics.add(size, free, region.used_pieces(size));
            }
        }
        let frames = statistics.size(PageSize::Small).free;
        statistics.free_bytes = frames * PageSize::Small.bytes();
        statistics
    }

    /// What `owner` has; nothing if there is no such core.
    pub fn usage(&self, owner: CoreId) -> Usage {
        self.usage.get(owner.index()).copied().unwrap_or_default()
    }

    /// The region that holds `address`.
    fn find(&self, address: PhysAddr) -> Option<usize> {
        let after = self.regions.partition_point(|region| region.layout().start <= address);
        let at = after.checked_sub(1)?;
        self.regions[at].layout().contains(address).then_some(at)
    }

    fn named(&mut self, start: PhysAddr) -> Result<&mut Collections<W>, DrainError> {
        let at = self.find(start).ok_or(DrainError::NotFound)?;
        let region = &mut self.regions[at];
        if region.layout().start == start { Ok(region) } else { Err(DrainError::NotFound) }
    }

    /// Where a region goes among the others, if it overlaps none.
    fn free_place(&self, new: &Layout) -> Option<usize> {
        let after = self.regions.partition_point(|region| region.layout().start < new.start);
        let below =
            after.checked_sub(1).is_none_or(|at| self.regions[at].layout().end() <= new.start.0);
        let above = self.regions.get(after).is_none_or(|next| new.end() <= next.layout().start.0);
        (below && above).then_some(after)
    }
}

/// Bytes that are handed out or away.
fn used_bytes<W: Words>(region: &Collections<W>) -> u64 {
    let used = |size: PageSize| region.used_pieces(size) * size.bytes();
    PageSize::ALL.into_iter().map(used).sum::<u64>() + away_bytes(region)
}

fn away_bytes<W: Words>(region: &Collections<W>) -> u64 {
    region.away() * PageSize::Large.bytes()
}

/// Whether the range is made of whole frames that a machine can have.
fn is_extent(start: PhysAddr, bytes: u64) -> bool {
    let end = start.checked_add(bytes);
    let whole = start.is_aligned(PageSize::Small) && PhysAddr(bytes).is_aligned(PageSize::Small);
    bytes > 0 && whole && end.is_some_and(|end| end.0 <= PHYSICAL_LIMIT)
}
