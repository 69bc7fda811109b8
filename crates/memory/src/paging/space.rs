//! One core's virtual memory: what it maps, and what it must forget.
//!
//! The upper three levels of its page tables are its own and are built before it starts; last
//! levels are linked from the [`TablePool`] when a 4 KiB page needs one. 2 MiB and 1 GiB pages are
//! entries of the upper levels and take no table.
//!
//! The managing core changes these tables while their core walks them and keeps what it found.
//! So what is taken away comes back in two steps: [`AddressSpace::unmap`] says what the core must
//! invalidate, and only when it has done so may the frame, the addresses and an emptied table
//! ([`AddressSpace::acknowledge`]) be used again. Nothing that is added needs invalidation.

use super::entry::{Entry, EntryKind, Level, Permissions};
use super::plan::{Plan, is_canonical};
use super::pool::TablePool;
use super::table::{Slot, TableIndex, TableMemory, Walk};
use nile_abi::{CoreId, PageSize, PhysAddr, Status, VirtAddr};

/// A page of virtual addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Page {
    /// Its first address.
    pub virt: VirtAddr,
    /// Its size.
    pub size: PageSize,
}

/// A page and the memory that it shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The first virtual address.
    pub virt: VirtAddr,
    /// The first byte of the memory.
    pub phys: PhysAddr,
    /// How much of both.
    pub size: PageSize,
    /// What may be done with it.
    pub permissions: Permissions,
}

impl Mapping {
    /// The fewest mappings, none larger than `largest`, that show `bytes` bytes (rounded up to
    /// whole frames) at `phys` from `virt` on. It ends early where the addresses end.
    pub fn cover(
        virt: VirtAddr,
        phys: PhysAddr,
        bytes: u64,
        largest: PageSize,
        permissions: Permissions,
    ) -> impl Iterator<Item = Mapping> {
        let mut next = Some((virt, phys, bytes));
        core::iter::from_fn(move || {
            let (virt, phys, bytes) = next.filter(|(_, _, bytes)| *bytes > 0)?;
            let fits = |size: &PageSize| {
                *size <= largest
                    && size.bytes() <= bytes
                    && virt.is_aligned(*size)
                    && phys.is_aligned(*size)
            };
            let size = PageSize::ALL.into_iter().rev().find(fits).unwrap_or(PageSize::Small);
            next = virt
                .checked_add(size.bytes())
                .zip(phys.checked_add(size.bytes()))
                .map(|(virt, phys)| (virt, phys, bytes.saturating_sub(size.bytes())));
            Some(Mapping { virt, phys, size, permissions })
        })
    }
}

/// Why a core's upper tables were not built; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildError {
    /// The plan takes this many frames.
    TooFewFrames(usize),
    /// This is not the address of a frame.
    Misaligned(PhysAddr),
}

/// Why nothing was mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// The pool of last-level tables is empty.
    NoTables,
    /// Part of the page is mapped.
    AlreadyMapped,
    /// The page's table is being taken away: it can be mapped once that is acknowledged.
    Retiring,
    /// One of the addresses is not a multiple of the size.
    Misaligned,
    /// The plan does not cover the address, or there is no such address.
    OutOfRange,
    /// The plan has smaller pages here.
    PlannedSmaller,
    /// Memory that may be written may not be executed.
    WriteAndExecute,
}

impl From<MapError> for Status {
    fn from(error: MapError) -> Status {
        match error {
            MapError::NoTables => Status::NoTables,
            MapError::AlreadyMapped => Status::Exists,
            MapError::Retiring => Status::Busy,
            MapError::Misaligned | MapError::OutOfRange | MapError::PlannedSmaller => {
                Status::Invalid
            }
            MapError::WriteAndExecute => Status::Denied,
        }
    }
}

/// Why nothing was unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnmapError {
    /// Nothing is mapped at the address.
    NotMapped,
    /// The address is mapped by a page of this size.
    WrongSize(PageSize),
    /// Smaller pages are mapped here.
    MappedSmaller,
    /// The address is not a multiple of the size.
    Misaligned,
}

impl From<UnmapError> for Status {
    fn from(error: UnmapError) -> Status {
        match error {
            UnmapError::NotMapped => Status::NotFound,
            UnmapError::WrongSize(_) | UnmapError::MappedSmaller | UnmapError::Misaligned => {
                Status::Invalid
            }
        }
    }
}

/// Why the permissions were not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtectError {
    /// The page is not mapped as such.
    Unmapped(UnmapError),
    /// Memory that may be written may not be executed.
    WriteAndExecute,
}

impl From<ProtectError> for Status {
    fn from(error: ProtectError) -> Status {
        match error {
            ProtectError::Unmapped(error) => error.into(),
            ProtectError::WriteAndExecute => Status::Denied,
        }
    }
}

/// A last-level table that is empty and no longer linked, and that its core may still walk.
/// There is one of these for each such table.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the table is lost to the pool until this is acknowledged"]
pub struct Retired {
    pub(super) core: CoreId,
    pub(super) virt: VirtAddr,
    pub(super) table: PhysAddr,
}

impl Retired {
    /// The core that must invalidate before this is acknowledged.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// An address whose invalidation makes the core forget the table.
    pub fn page(&self) -> Page {
        Page { virt: self.virt, size: PageSize::Small }
    }
}

/// What was unmapped. Until the core has invalidated `page`, it may still use the memory.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the core must invalidate the page before its memory is used again"]
pub struct Unmapped {
    /// The memory that was mapped.
    pub phys: PhysAddr,
    /// What the core must invalidate. Nothing is mapped there before it has.
    pub page: Page,
    /// The table that this emptied, to be acknowledged after the invalidation.
    pub retired: Option<Retired>,
}

/// One core's page tables. They hold the whole state: this only says where they are.
#[derive(Debug)]
pub struct AddressSpace {
    core: CoreId,
    root: PhysAddr,
}

impl AddressSpace {
    /// Builds the upper tables of `core` in the first of `frames`, as many as the plan says.
    pub fn build<M: TableMemory>(
        memory: &mut M,
        core: CoreId,
        plan: &Plan,
        frames: &[PhysAddr],
    ) -> Result<AddressSpace, BuildError> {
        let needed = plan.tables();
        let frames = frames.get(..needed).ok_or(BuildError::TooFewFrames(needed))?;
        if let Some(bad) = frames.iter().find(|frame| !frame.is_aligned(PageSize::Small)) {
            return Err(BuildError::Misaligned(*bad));
        }
        for frame in frames {
            memory.clear(*frame);
        }
        let (root, mut rest) = (frames[0], frames[1..].iter());
        for range in plan.ranges() {
            let lowest = if range.has_directories() { Level::Pdpt } else { Level::Pml4 };
            let (first, last) = range.entries(lowest);
            for number in first..=last {
                let virt = VirtAddr(number << lowest.shift());
                let mut walk = Walk::to(memory, root, virt);
                while walk.slot.level >= lowest {
                    // The plan counted exactly the slots that this finds empty.
                    let Some(table) = rest.next() else {
                        return Err(BuildError::TooFewFrames(needed));
                    };
                    walk.slot.write(memory, Entry::link(*table));
                    walk = Walk::to(memory, root, virt);
                }
            }
        }
        Ok(AddressSpace { core, root })
    }

    /// The space whose tables were built before the managing core restarted.
    pub fn recover(core: CoreId, root: PhysAddr) -> AddressSpace {
        AddressSpace { core, root }
    }

    /// The core that walks these tables.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The frame of the root table, which the core's CR3 names.
    pub fn root(&self) -> PhysAddr {
        self.root
    }

    /// Makes `frame` a second root of these tables, through which the core reaches nothing that
    /// `hides` names, in units of what an entry of a root covers. A root's entries stay as they
    /// were built: what is mapped and unmapped later is so through both.
    pub fn add_root<M: TableMemory>(
        &self,
        memory: &mut M,
        frame: PhysAddr,
        hides: impl Fn(VirtAddr) -> bool,
    ) {
        for index in TableIndex::all() {
            let virt = VirtAddr((index.get() as u64) << Level::Pml4.shift());
            let entry = if hides(virt) { Entry::EMPTY } else { memory.read(self.root, index) };
            memory.write(frame, index, entry);
        }
    }

    /// The mapping that covers `virt`, as the core sees it once it has invalidated what it was
    /// told to.
    pub fn find<M: TableMemory>(&self, memory: &M, virt: VirtAddr) -> Option<Mapping> {
        if !is_canonical(virt) {
            return None;
        }
        let walk = Walk::to(memory, self.root, virt);
        let size = walk.slot.level.leaf_size()?;
        let EntryKind::Leaf(phys) = walk.kind else { return None };
        let permissions = walk.slot.read(memory).permissions();
        Some(Mapping { virt: virt.align_down(size), phys, size, permissions })
    }

    /// Maps memory. Takes a table from the pool if it is the first 4 KiB page of its 2 MiB.
    pub fn map<M: TableMemory>(
        &mut self,
        memory: &mut M,
        pool: &mut TablePool,
        mapping: Mapping,
    ) -> Result<(), MapError> {
        let Mapping { virt, phys, size, permissions } = mapping;
        if !permissions.is_write_xor_execute() {
            return Err(MapError::WriteAndExecute);
        }
        if !virt.is_aligned(size) || !phys.is_aligned(size) {
            return Err(MapError::Misaligned);
        }
        let leaf = Entry::leaf(phys, size, permissions);
        if !is_canonical(virt) || leaf.kind(Level::of(size)) != EntryKind::Leaf(phys) {
            return Err(MapError::OutOfRange);
        }
        let Walk { slot, kind, .. } = Walk::to(memory, self.root, virt);
        match (slot.level, kind) {
            (level, EntryKind::Empty) if level == Level::of(size) => {
                slot.write(memory, leaf);
                if level == Level::Pt {
                    pool.entry_added(slot.table);
                }
                Ok(())
            }
            (Level::Pd, EntryKind::Empty) if size == PageSize::Small => {
                let table = pool.take(memory).ok_or(MapError::NoTables)?;
                // The entry first, so that the page is there, or the table still free.
                Slot::of(table, virt, Level::Pt).write(memory, leaf);
                pool.entry_added(table);
                slot.write(memory, Entry::link(table));
                Ok(())
            }
            (Level::Pd | Level::Pt, _) if size == PageSize::Huge => Err(MapError::PlannedSmaller),
            (_, EntryKind::Retired(_)) => Err(MapError::Retiring),
            (Level::Pdpt | Level::Pml4, EntryKind::Empty) => Err(MapError::OutOfRange),
            _ => Err(MapError::AlreadyMapped),
        }
    }

    /// Unmaps a page, in the size in which it was mapped.
    pub fn unmap<M: TableMemory>(
        &mut self,
        memory: &mut M,
        pool: &mut TablePool,
        page: Page,
    ) -> Result<Unmapped, UnmapError> {
        let (Walk { slot, parent, .. }, phys) = self.leaf(memory, page)?;
        slot.write(memory, Entry::EMPTY);
        let last = slot.level == Level::Pt && pool.entry_removed(slot.table);
        let retired = parent.filter(|_| last).map(|parent| {
            parent.write(memory, Entry::retired(slot.table));
            Retired { core: self.core, virt: page.virt, table: slot.table }
        });
        Ok(Unmapped { phys, page, retired })
    }

    /// Changes what may be done with a page. Gives what the core must invalidate; until it has,
    /// what was permitted before may still be.
    pub fn protect<M: TableMemory>(
        &mut self,
        memory: &mut M,
        page: Page,
        permissions: Permissions,
    ) -> Result<Page, ProtectError> {
        if !permissions.is_write_xor_execute() {
            return Err(ProtectError::WriteAndExecute);
        }
        let (Walk { slot, .. }, phys) = self.leaf(memory, page).map_err(ProtectError::Unmapped)?;
        slot.write(memory, Entry::leaf(phys, page.size, permissions));
        Ok(page)
    }

    /// Returns a table to the pool: its core has invalidated [`Retired::page`]. `Err` gives
    /// `retired` back if it belongs to another core.
    pub fn acknowledge<M: TableMemory>(
        &mut self,
        memory: &mut M,
        pool: &mut TablePool,
        retired: Retired,
    ) -> Result<(), Retired> {
        let slot = Walk::to(memory, self.root, retired.virt).slot;
        if retired.core != self.core || slot.kind(memory) != EntryKind::Retired(retired.table) {
            return Err(retired);
        }
        slot.write(memory, Entry::EMPTY);
        pool.release(retired.table);
        Ok(())
    }

    /// The walk to the leaf that maps exactly `page`, and the memory it names.
    fn leaf<M: TableMemory>(&self, memory: &M, page: Page) -> Result<(Walk, PhysAddr), UnmapError> {
        if !page.virt.is_aligned(page.size) {
            return Err(UnmapError::Misaligned);
        }
        if !is_canonical(page.virt) {
            return Err(UnmapError::NotMapped);
        }
        let walk = Walk::to(memory, self.root, page.virt);
        if walk.slot.level < Level::of(page.size) {
            return Err(UnmapError::MappedSmaller);
        }
        match (walk.kind, walk.slot.level.leaf_size()) {
            (EntryKind::Leaf(phys), Some(size)) if size == page.size => Ok((walk, phys)),
            (EntryKind::Leaf(_), Some(size)) => Err(UnmapError::WrongSize(size)),
            _ => Err(UnmapError::NotMapped),
        }
    }
}
