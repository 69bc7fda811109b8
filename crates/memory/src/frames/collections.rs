//! One region's collections: which piece a request gets, and the lists that find it.
//!
//! The lists are derived from the [`Record`]; only the record is the truth. A 2 MiB collection
//! is in the frame lists while it is split, and counts in its 1 GiB collection while it is
//! wholly free; it is never in both, and in neither when it is full or handed out whole.

use super::buckets::{Buckets, PIECES};
use super::error::FreeError;
use super::record::{Corrupt, LargeState, Layout, Place, Record, Words};
use super::statistics::{Allocation, Usage};
use alloc::vec;
use alloc::vec::Vec;
use nile_abi::{CoreId, PageSize, PhysAddr};

pub(super) struct Collections<W> {
    record: Record<W>,
    /// 2 MiB collections by free frames.
    frames: Buckets,
    /// 1 GiB collections by wholly free 2 MiB collections.
    larges: Buckets,
    /// A bit per wholly free 2 MiB collection, for each 1 GiB collection.
    free_larges: Vec<[u64; PIECES / 64]>,
    free: [u64; 3],
    used: [u64; 3],
    /// 2 MiB collections that are not the node's.
    away: u64,
}

impl<W: Words> Collections<W> {
    /// A wholly free region; `words` has at least `layout.words()`.
    pub(super) fn create(words: W, layout: Layout) -> Collections<W> {
        Collections::derive(Record::create(words, layout), &mut [])
            .unwrap_or_else(|Corrupt| unreachable!("a record just written makes sense"))
    }

    /// The region as its record says, with what its owners have added to `usage`.
    pub(super) fn derive(
        record: Record<W>,
        usage: &mut [Usage],
    ) -> Result<Collections<W>, Corrupt> {
        let layout = record.layout;
        let mut this = Collections {
            frames: Buckets::new(layout.larges()),
            larges: Buckets::new(layout.huges()),
            free_larges: vec![[0; PIECES / 64]; layout.huges()],
            free: [0; 3],
            used: [0; 3],
            away: 0,
            record,
        };
        for huge in 0..layout.huges() {
            if let Some(owner) = this.record.huge(huge)? {
                this.used[PageSize::Huge as usize] += 1;
                usage[owner.index()].add(PageSize::Huge);
            }
        }
        for large in 0..layout.larges() {
            this.derive_large(large, usage)?;
        }
        for huge in 0..layout.huges() {
            let free = this.free_larges[huge].iter().map(|word| word.count_ones()).sum::<u32>();
            this.larges.set_free(huge, free as usize);
            this.free[PageSize::Large as usize] += u64::from(free);
            this.free[PageSize::Huge as usize] += u64::from(free as usize == PIECES);
        }
        this.free[PageSize::Small as usize] +=
            this.free[PageSize::Large as usize] * PageSize::Large.frames();
        Ok(this)
    }

    fn derive_large(&mut self, large: usize, usage: &mut [Usage]) -> Result<(), Corrupt> {
        let whole = self.record.layout.is_whole(large);
        let (huge, index) = self.record.layout.in_huge(large);
        let taken = self.record.huge(huge)?.is_some();
        match self.record.large(large)? {
            LargeState::Free if taken => {}
            LargeState::Free if whole => self.free_larges[huge][index / 64] |= 1 << (index % 64),
            LargeState::Whole(owner) if whole && !taken => {
                self.used[PageSize::Large as usize] += 1;
                usage[owner.index()].add(PageSize::Large);
            }
            LargeState::Away if whole && !taken => self.away += 1,
            LargeState::Split if !taken => {
                let free = self.record.count_free(large)?;
                if whole && free == PIECES {
                    // The manager stopped after it split the collection or before it joined it.
                    self.record.set_large(large, LargeState::Free);
                    return self.derive_large(large, usage);
                }
                self.frames.set_free(large, free);
                self.free[PageSize::Small as usize] += free as u64;
                for (_, owner) in self.record.taken(large) {
                    self.used[PageSize::Small as usize] += 1;
                    usage[owner.index()].add(PageSize::Small);
                }
            }
            _ => return Err(Corrupt),
        }
        Ok(())
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.record.layout
    }

    pub(super) fn is_draining(&self) -> bool {
        self.record.is_draining()
    }

    pub(super) fn set_draining(&mut self, draining: bool) {
        self.record.set_draining(draining);
    }

    pub(super) fn close(self) -> W {
        self.record.close()
    }

    /// How many requests of `size` could be met.
    pub(super) fn free_pieces(&self, size: PageSize) -> u64 {
        self.free[size as usize]
    }

    /// How many pieces of `size` are handed out.
    pub(super) fn used_pieces(&self, size: PageSize) -> u64 {
        self.used[size as usize]
    }

    /// How many 2 MiB collections are not the node's.
    pub(super) fn away(&self) -> u64 {
        self.away
    }

    /// Sends wholly free 2 MiB collections that follow each other away, `most` at most: the first
    /// one, and how many.
    pub(super) fn send_away(&mut self, most: u64) -> Option<(PhysAddr, u64)> {
        let first = self.free_large()?;
        let last = self.layout().larges().min(first.saturating_add(most as usize));
        let count = (first..last).take_while(|large| self.is_free_large(*large)).count();
        (first..first + count).for_each(|large| self.set_away(large));
        Some((self.layout().large_address(first), count as u64))
    }

    /// Sends a wholly free 2 MiB collection away: one store.
    fn set_away(&mut self, large: usize) {
        self.record.set_large(large, LargeState::Away);
        self.unlist_large(large);
        self.free[PageSize::Small as usize] -= PIECES as u64;
        self.away += 1;
    }

    /// The 2 MiB collection at `address`, which is in the region, is free again if it was away: one
    /// store. Whether it was.
    pub(super) fn call_back(&mut self, address: PhysAddr) -> bool {
        let large = self.layout().place(address).large;
        if !self.is_away(address) {
            return false;
        }
        self.record.set_large(large, LargeState::Free);
        self.free[PageSize::Small as usize] += PIECES as u64;
        self.away -= 1;
        self.list_large(large);
        true
    }

    /// Whether the 2 MiB collection at `address`, which is in the region, is away.
    pub(super) fn is_away(&self, address: PhysAddr) -> bool {
        let large = self.layout().place(address).large;
        self.record.large(large).ok() == Some(LargeState::Away)
    }

    /// Has 2 MiB collections that are away and follow each other free again, `most` at most: the
    /// first one, and how many.
    pub(super) fn call_back_some(&mut self, most: u64) -> Option<(PhysAddr, u64)> {
        let is_away = |large: &usize| self.record.large(*large).ok() == Some(LargeState::Away);
        let first = (0..self.layout().larges()).find(is_away).filter(|_| most > 0)?;
        let last = self.layout().larges().min(first.saturating_add(most as usize));
        let count = (first..last).take_while(is_away).count();
        let start = self.layout().large_address(first);
        for large in first..first + count {
            self.call_back(self.layout().large_address(large));
        }
        Some((start, count as u64))
    }

    /// How much a request of `size` would hurt: the free pieces of the collection it would be
    /// served from. `None` if it cannot be met.
    pub(super) fn cost(&self, size: PageSize) -> Option<usize> {
        match size {
            // A collection that must be split first comes after every one that is split already.
            PageSize::Small => {
                self.frames.fewest().or_else(|| Some(PIECES + self.larges.fewest()?))
            }
            PageSize::Large => self.larges.fewest(),
            PageSize::Huge => self.larges.with_free(PIECES).map(|_| 0),
        }
    }

    pub(super) fn alloc(&mut self, size: PageSize, owner: CoreId) -> Option<PhysAddr> {
        match size {
            PageSize::Small => {
                let large = match self.frames.fullest() {
                    Some(large) => large,
                    None => self.free_large()?,
                };
                self.split_if_whole(large);
                let frame = self.record.first_free(large)?;
                self.take_frame(large, frame, owner);
                Some(self.layout().frame_address(large, frame))
            }
            PageSize::Large => {
                let large = self.free_large()?;
                self.take_large(large, owner);
                Some(self.layout().large_address(large))
            }
            PageSize::Huge => {
                let huge = self.larges.with_free(PIECES)?;
                self.record.set_huge(huge, Some(owner));
                self.free_larges[huge] = [0; PIECES / 64];
                self.larges.set_free(huge, 0);
                self.count_taken(PageSize::Huge);
                self.free[PageSize::Huge as usize] -= 1;
                Some(self.layout().huge_address(huge))
            }
        }
    }

    /// The piece that holds `address`, which is in the region.
    pub(super) fn allocation(&self, address: PhysAddr) -> Option<Allocation> {
        let Place { huge, large, frame } = self.layout().place(address);
        let (owner, size) = match (self.record.huge(huge), self.record.large(large)) {
            (Ok(Some(owner)), _) => (owner, PageSize::Huge),
            (_, Ok(LargeState::Whole(owner))) => (owner, PageSize::Large),
            (_, Ok(LargeState::Split)) => (self.record.frame(large, frame)?, PageSize::Small),
            _ => return None,
        };
        Some(Allocation { owner, size })
    }

    /// Takes the piece at `address`, which is in the region, back from the owner it names.
    pub(super) fn free(&mut self, address: PhysAddr, size: PageSize) -> Result<CoreId, FreeError> {
        if !address.is_aligned(size) {
            return Err(FreeError::Misaligned);
        }
        let allocation = self.allocation(address).ok_or(FreeError::NotAllocated)?;
        if allocation.size != size {
            return Err(FreeError::WrongSize(allocation.size));
        }
        let place = self.layout().place(address);
        match size {
            PageSize::Small => self.free_frame(place.large, place.frame),
            PageSize::Large => {
                self.record.set_large(place.large, LargeState::Free);
                self.count_freed(PageSize::Large);
                self.list_large(place.large);
            }
            PageSize::Huge => {
                self.record.set_huge(place.huge, None);
                self.free_larges[place.huge] = [u64::MAX; PIECES / 64];
                self.larges.set_free(place.huge, PIECES);
                self.count_freed(PageSize::Huge);
                self.free[PageSize::Huge as usize] += 1;
            }
        }
        Ok(allocation.owner)
    }

    /// Whether the whole range, which lies in the region, is free.
    pub(super) fn is_free(&self, start: PhysAddr, frames: u64) -> bool {
        (0..frames).all(|frame| {
            let address = PhysAddr(start.0 + frame * PageSize::Small.bytes());
            let large = self.layout().place(address).large;
            let is_away = self.record.large(large).ok() == Some(LargeState::Away);
            !is_away && self.allocation(address).is_none()
        })
    }

    /// Hands out `frames` frames at `start`, all of them free: whole 2 MiB collections where the
    /// range covers them. Tells `given` the size of each piece.
    pub(super) fn reserve(
        &mut self,
        start: PhysAddr,
        frames: u64,
        owner: CoreId,
        mut given: impl FnMut(PageSize),
    ) {
        let mut at = start;
        let end = start.0 + frames * PageSize::Small.bytes();
        while at.0 < end {
            let Place { large, frame, .. } = self.layout().place(at);
            let covered = frame == 0 && end - at.0 >= PageSize::Large.bytes();
            let size = if covered && self.record.large(large).ok() == Some(LargeState::Free) {
                self.take_large(large, owner);
                PageSize::Large
            } else {
                self.split_if_whole(large);
                self.take_frame(large, frame, owner);
                PageSize::Small
            };
            given(size);
            at = PhysAddr(at.0 + size.bytes());
        }
    }

    /// Every piece that `owner` has, in rising order; walks over the whole region.
    pub(super) fn owned_by(&self, owner: CoreId) -> Vec<(PhysAddr, PageSize)> {
        let mut pieces = Vec::new();
        for huge in 0..self.layout().huges() {
            if self.record.huge(huge).ok() == Some(Some(owner)) {
                pieces.push((self.layout().huge_address(huge), PageSize::Huge));
            }
        }
        for large in 0..self.layout().larges() {
            match self.record.large(large) {
                Ok(LargeState::Whole(of)) if of == owner => {
                    pieces.push((self.layout().large_address(large), PageSize::Large));
                }
                Ok(LargeState::Split) => {
                    pieces.extend(self.record.taken(large).filter(|(_, of)| *of == owner).map(
                        |(frame, _)| (self.layout().frame_address(large, frame), PageSize::Small),
                    ))
                }
                _ => {}
            }
        }
        pieces
    }

    /// A wholly free 2 MiB collection of the fullest 1 GiB collection that has one.
    fn free_large(&self) -> Option<usize> {
        let huge = self.larges.fullest()?;
        let word = self.free_larges[huge].iter().position(|word| *word != 0)?;
        let index = word * 64 + self.free_larges[huge][word].trailing_zeros() as usize;
        // The region's first 2 MiB collection need not be the first of its 1 GiB collection.
        let (_, first) = self.layout().in_huge(0);
        Some(huge * PIECES + index - first)
    }

    fn is_free_large(&self, large: usize) -> bool {
        let (huge, index) = self.layout().in_huge(large);
        self.free_larges[huge][index / 64] >> (index % 64) & 1 != 0
    }

    fn take_large(&mut self, large: usize, owner: CoreId) {
        self.record.set_large(large, LargeState::Whole(owner));
        self.unlist_large(large);
        self.count_taken(PageSize::Large);
    }

    fn split_if_whole(&mut self, large: usize) {
        if self.is_free_large(large) {
            self.record.split(large);
            self.unlist_large(large);
            self.frames.set_free(large, PIECES);
        }
    }

    fn take_frame(&mut self, large: usize, frame: usize, owner: CoreId) {
        self.record.take_frame(large, frame, owner);
        self.frames.set_free(large, self.frames.free(large) - 1);
        self.count_taken(PageSize::Small);
    }

    fn free_frame(&mut self, large: usize, frame: usize) {
        self.record.free_frame(large, frame);
        self.count_freed(PageSize::Small);
        let free = self.frames.free(large) + 1;
        if free == PIECES {
            self.record.set_large(large, LargeState::Free);
            self.frames.set_free(large, 0);
            self.list_large(large);
        } else {
            self.frames.set_free(large, free);
        }
    }

    /// Counts `large` among the wholly free collections of its 1 GiB collection.
    fn list_large(&mut self, large: usize) {
        let (huge, index) = self.layout().in_huge(large);
        self.free_larges[huge][index / 64] |= 1 << (index % 64);
        let free = self.larges.free(huge) + 1;
        self.larges.set_free(huge, free);
        self.free[PageSize::Large as usize] += 1;
        self.free[PageSize::Huge as usize] += u64::from(free == PIECES);
    }

    fn unlist_large(&mut self, large: usize) {
        let (huge, index) = self.layout().in_huge(large);
        self.free_larges[huge][index / 64] &= !(1 << (index % 64));
        let free = self.larges.free(huge);
        self.larges.set_free(huge, free - 1);
        self.free[PageSize::Large as usize] -= 1;
        self.free[PageSize::Huge as usize] -= u64::from(free == PIECES);
    }

    fn count_taken(&mut self, size: PageSize) {
        self.used[size as usize] += 1;
        self.free[PageSize::Small as usize] -= size.frames();
        if size == PageSize::Huge {
            self.free[PageSize::Large as usize] -= PIECES as u64;
        }
    }

    fn count_freed(&mut self, size: PageSize) {
        self.used[size as usize] -= 1;
        self.free[PageSize::Small as usize] += size.frames();
        if size == PageSize::Huge {
            self.free[PageSize::Large as usize] += PIECES as u64;
        }
    }
}
