//! Memory that a node gives up and gets while it runs, in 2 MiB collections: what goes is free, so
//! nobody misses it, and what comes is as free as any. Each collection takes one store, so a
//! manager that stops in the midst has given up, or got, a part.

use nile_abi::{PageSize, PhysAddr};

use super::{AddError, FreeError, PhysicalMemory, Words, is_extent};

impl<W: Words> PhysicalMemory<W> {
    /// Like [`add_region`](PhysicalMemory::add_region), of memory that the node may get later: all
    /// of it is away. `NotFrames` unless it is in whole 2 MiB collections.
    pub fn add_away(&mut self, start: PhysAddr, bytes: u64, words: W) -> Result<(), AddError> {
        if !is_large(start, bytes) {
            return Err(AddError::NotFrames);
        }
        self.add_region(start, bytes, words)?;
        if let Some(at) = self.find(start) {
            let region = &mut self.regions[at];
            while region.send_away(u64::MAX).is_some() {}
        }
        Ok(())
    }

    /// Sends free 2 MiB collections that follow each other away, `most` of them at most, from where
    /// a request for 2 MiB would be served: the first, and how many. `None` if none is free.
    pub fn send_away(&mut self, most: u64) -> Option<(PhysAddr, u64)> {
        let can = |region: &&mut _| !super::Collections::<W>::is_draining(region);
        let regions = self.regions.iter_mut().filter(can);
        let costs = regions.filter_map(|region| Some((region.cost(PageSize::Large)?, region)));
        let (_, region) = costs.min_by_key(|(cost, _)| *cost).filter(|_| most > 0)?;
        region.send_away(most)
    }

    /// Has 2 MiB collections that were away free again; what is the node's stays as it is. Says how
    /// many came. `Misaligned`, or `NotOurs` if any is in no region: then none came.
    pub fn call_back(&mut self, start: PhysAddr, bytes: u64) -> Result<u64, FreeError> {
        if !is_large(start, bytes) {
            return Err(FreeError::Misaligned);
        }
        let all = || (start.0..start.0 + bytes).step_by(PageSize::Large.bytes() as usize);
        if all().any(|at| self.find(PhysAddr(at)).is_none()) {
            return Err(FreeError::NotOurs);
        }
        let mut came = 0;
        for at in all() {
            if let Some(region) = self.find(PhysAddr(at)) {
                came += u64::from(self.regions[region].call_back(PhysAddr(at)));
            }
        }
        Ok(came)
    }

    /// Has 2 MiB collections free again that were away and follow each other, `most` of them at
    /// most: the first, and how many. `None` if none is away.
    pub fn call_back_some(&mut self, most: u64) -> Option<(PhysAddr, u64)> {
        self.regions.iter_mut().find_map(|region| region.call_back_some(most))
    }
}

impl<W: Words> PhysicalMemory<W> {
    /// Whether any of these 2 MiB collections is the node's now.
    pub fn has_any(&self, start: PhysAddr, bytes: u64) -> bool {
        (start.0..start.0.saturating_add(bytes)).step_by(PageSize::Large.bytes() as usize).any(
            |at| {
                self.find(PhysAddr(at))
                    .is_some_and(|region| !self.regions[region].is_away(PhysAddr(at)))
            },
        )
    }
}

fn is_large(start: PhysAddr, bytes: u64) -> bool {
    let whole = start.is_aligned(PageSize::Large) && PhysAddr(bytes).is_aligned(PageSize::Large);
    whole && is_extent(start, bytes)
}
