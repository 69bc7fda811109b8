//! The node's memory as the management core gives it out: the physical memory service's frames,
//! the virtual memory service's tables (NileOS paper, III.B), and who has what.
//!
//! A *grant* is a piece of memory that one core or several have mapped. Taking it from a core is
//! two steps: first it leaves the core's tables, then the core says that it has no translation of
//! it any more. Frames and tables are used again only after the second.
//!
//! A core has a grant in one half of its tables: the kernel's, at an address that follows from the
//! grant's own, or its package's (see `user`), where two packages of the core may have it.

mod away;
mod kept;
mod pool;
#[cfg(test)]
mod tests;
mod user;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use nile_abi::{CoreId, PageSize, PhysAddr, Status, VirtAddr};
use nile_memory::paging::{MapError, Mapping, Page, Permissions, Retired, TableMemory};
use nile_memory::{PhysicalMemory, TablePool};
use nile_order::{SortedMap, SortedSet};
use nile_platform::image_memory::Change;
use nile_platform::user::Access;
use nile_platform::{Grant, Tables};
use nile_ring::Region;

use super::runs::Runs;
use crate::control::Reply;
use crate::report::MemoryReport;

/// Where a grant's frames came from, and so where they go back to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Run,
    Frame(PageSize),
}

/// A piece of memory that is given out.
struct Holding {
    bytes: u64,
    origin: Origin,
    /// The cores that have it mapped, and where.
    holders: SortedMap<CoreId, Half>,
    /// The cores whose tables no longer have it where it was, but which may still have a
    /// translation, and the last-level tables that wait with it.
    leaving: SortedMap<CoreId, Vec<Retired>>,
    /// An earlier incarnation of the managing core gave it out.
    adopted: bool,
}

/// In which half of a core's tables a grant is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    Kernel,
    /// `twin` is a second place, in another slot.
    User {
        at: VirtAddr,
        access: Access,
        twin: Option<VirtAddr>,
    },
}

/// The node's memory.
pub struct Memory<T: TableMemory> {
    physical: PhysicalMemory<Region>,
    tables: Tables<T>,
    runs: Runs,
    given: BTreeMap<PhysAddr, Holding>,
    /// What stays when no core has it.
    kept: SortedSet<PhysAddr>,
    places: Places,
    owner: CoreId,
    /// After a restart of the managing core: the cores that have yet to say what they have.
    unheard: SortedSet<CoreId>,
    /// Whether tables may have what is not in `given`.
    recovered: bool,
    /// Whether user halves have no page of what is not in `given`.
    swept: bool,
}

/// Whether every core has said what it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Just now the last one did.
    All,
    /// Some have yet to, or all did before.
    More,
}

/// Where a core's tables have a grant: at one of these addresses plus the grant's physical one.
#[derive(Clone, Copy)]
pub struct Places {
    /// For all grants but huge ones.
    pub shared: VirtAddr,
    /// For huge ones, if the machine has pages of that size.
    pub huge: Option<VirtAddr>,
}

impl Places {
    /// Where a grant that starts at `start` begins, and the size of the pages that map it.
    fn first_page(self, start: PhysAddr, origin: Origin) -> (VirtAddr, PageSize) {
        let (base, size) = match (origin, self.huge) {
            (Origin::Frame(PageSize::Huge), Some(huge)) => (huge, PageSize::Huge),
            (Origin::Frame(PageSize::Huge | PageSize::Large), _) => (self.shared, PageSize::Large),
            (Origin::Frame(PageSize::Small) | Origin::Run, _) => (self.shared, PageSize::Small),
        };
        (VirtAddr(base.0 + start.0), size)
    }

    /// The pages that show a whole grant in one half of a core's tables: there once, if it has a
    /// twin.
    fn mappings(
        self,
        grant: Grant,
        origin: Origin,
        half: Half,
    ) -> impl Iterator<Item = Mapping> + use<> {
        let (kernel, size) = self.first_page(grant.start, origin);
        let (virt, size, permissions) = match half {
            Half::Kernel => (kernel, size, Permissions::READ_WRITE),
            // The user half has no pages of 1 GiB.
            Half::User { at, access, .. } => {
                (at, size.min(PageSize::Large), user::permissions(access))
            }
        };
        Mapping::cover(virt, grant.start, grant.bytes, size, permissions)
    }
}

/// Takes pages out of a core's tables; gives the last-level tables that this emptied.
fn take_out<T: TableMemory>(
    tables: &mut Tables<T>,
    core: CoreId,
    mappings: impl Iterator<Item = Mapping>,
) -> Vec<Retired> {
    let Tables { memory, pool, spaces, .. } = tables;
    let Some(space) = spaces.get_mut(core.index()) else { return Vec::new() };
    let pages = mappings.map(|Mapping { virt, size, .. }| Page { virt, size });
    // A page that is not mapped is one that a mapping that failed did not come to.
    pages.filter_map(|page| space.unmap(memory, pool, page).ok()?.retired).collect()
}

impl<T: TableMemory> Memory<T> {
    /// The memory that the boot path handed over, managed by `owner`.
    pub fn new(
        physical: PhysicalMemory<Region>,
        tables: Tables<T>,
        places: Places,
        owner: CoreId,
    ) -> Memory<T> {
        let runs = Runs::default();
        Memory {
            physical,
            tables,
            runs,
            given: BTreeMap::new(),
            kept: SortedSet::new(),
            places,
            owner,
            unheard: SortedSet::new(),
            recovered: false,
            swept: true,
        }
    }

    /// A frame of `size`, in nobody's tables yet. It holds whatever was there.
    pub fn take_frame(&mut self, size: PageSize, owner: CoreId) -> Result<Grant, Status> {
        let start = self.physical.alloc(size, owner)?;
        Ok(self.enter(start, size.bytes(), Origin::Frame(size)))
    }

    /// Consecutive frames for at least `bytes` bytes, in nobody's tables yet.
    pub fn take_run(&mut self, bytes: u64) -> Result<Grant, Status> {
        let frames = bytes.div_ceil(PageSize::Small.bytes());
        let frames = usize::try_from(frames).map_err(|_| Status::Invalid)?;
        if frames == 0 || frames > Runs::MOST {
            return Err(Status::Invalid);
        }
        let start = match self.runs.take(frames) {
            Some(start) => start,
            None => {
                self.runs.add(self.physical.alloc(PageSize::Large, self.owner)?);
                self.runs.take(frames).ok_or(Status::NoMemory)?
            }
        };
        Ok(self.enter(start, frames as u64 * PageSize::Small.bytes(), Origin::Run))
    }

    /// This is not the first incarnation of the managing core: until each of `cores` has said what
    /// it has, memory that an earlier incarnation gave out may be anybody's.
    pub fn expect_word_of(&mut self, cores: impl Iterator<Item = CoreId>) {
        self.unheard.extend(cores);
        (self.recovered, self.swept) = (true, false);
    }

    /// `core` has said what it has, or began anew and has nothing; and it walks none of the tables
    /// any more that were on their way back to the pool.
    pub fn heard_of(&mut self, core: CoreId) -> Result<Heard, Status> {
        self.acknowledge_recovered(core);
        if self.unheard.remove(&core) && self.unheard.is_empty() {
            let in_user_halves = self.user_mappings();
            let mut runs = core::mem::take(&mut self.runs);
            let back = runs.all_adopted(|frame| {
                let bytes = PageSize::Small.bytes();
                user::shows(&in_user_halves, frame, bytes)
                    || self.is_in_kernel_half(frame, bytes, PageSize::Small)
            });
            self.runs = runs;
            for collection in back {
                self.physical.free(collection, PageSize::Large)?;
            }
            return Ok(Heard::All);
        }
        Ok(Heard::More)
    }

    /// Whether any core's tables still have a page of this memory: an earlier incarnation of the
    /// managing core entered it, and the core that had it began anew and does not know. What is
    /// mapped is never given to anybody else; it stays given out until the next boot.
    fn is_mapped(&self, start: PhysAddr, bytes: u64, page: PageSize) -> bool {
        self.is_in_kernel_half(start, bytes, page) || self.is_in_user_half(start, bytes)
    }

    fn is_in_kernel_half(&self, start: PhysAddr, bytes: u64, page: PageSize) -> bool {
        let Tables { memory, spaces, .. } = &self.tables;
        [Some(self.places.shared), self.places.huge].into_iter().flatten().any(|base| {
            (0..bytes).step_by(page.bytes() as usize).any(|offset| {
                let virt = VirtAddr(base.0 + start.0 + offset);
                spaces.iter().any(|space| space.find(memory, virt).is_some())
            })
        })
    }

    fn acknowledge_recovered(&mut self, core: CoreId) {
        let Tables { memory, pool, spaces, retired, .. } = &mut self.tables;
        let Some(space) = spaces.get_mut(core.index()) else { return };
        let (back, others) = retired.drain(..).partition::<Vec<_>, _>(|t| t.core() == core);
        *retired = others;
        for table in back {
            if let Err(table) = space.acknowledge(memory, pool, table) {
                retired.push(table);
            }
        }
    }

    /// Notes a grant that an earlier incarnation of this core gave to `core`. `Invalid` if the
    /// records of frames do not say that it was given.
    pub fn adopt(&mut self, grant: Grant, core: CoreId) -> Result<(), Status> {
        self.know(grant)?;
        let known = self.given.get(&grant.start);
        if known.is_some_and(|known| !known.adopted && !known.holders.contains_key(&core)) {
            // The core has given it back, but not heard so, and this incarnation has given it
            // to somebody else.
            return Err(Status::Invalid);
        }
        // If that incarnation had begun to take it back, `core` does not know.
        self.share(grant, core)
    }

    /// Notes that a grant was given, if that is not known.
    fn know(&mut self, grant: Grant) -> Result<(), Status> {
        if self.given.contains_key(&grant.start) {
            return Ok(());
        }
        let piece = self.physical.allocation(grant.start).ok_or(Status::Invalid)?;
        let origin = if grant.start.is_aligned(piece.size) && piece.size.bytes() == grant.bytes {
            Origin::Frame(piece.size)
        } else if piece.size == PageSize::Large {
            let frames = (grant.bytes / PageSize::Small.bytes()) as usize;
            self.runs.adopt(grant.start, frames).map_err(|_| Status::Invalid)?;
            Origin::Run
        } else {
            return Err(Status::Invalid);
        };
        self.enter(grant.start, grant.bytes, origin);
        if let Some(holding) = self.given.get_mut(&grant.start) {
            holding.adopted = true;
        }
        Ok(())
    }

    fn enter(&mut self, start: PhysAddr, bytes: u64, origin: Origin) -> Grant {
        let (holders, leaving) = (SortedMap::new(), SortedMap::new());
        self.given.insert(start, Holding { bytes, origin, holders, leaving, adopted: false });
        Grant { start, bytes }
    }

    /// Enters a grant in a core's tables, for reading and writing; nothing happens if it is there.
    /// When it does not fit, what was entered is leaving again. `Denied` for what a package may
    /// execute.
    pub fn share(&mut self, grant: Grant, core: CoreId) -> Result<(), Status> {
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        if holding.leaving.contains_key(&core) {
            return Err(Status::Busy);
        }
        if holding.holders.contains_key(&core) {
            return Ok(());
        }
        let executes = |half: &Half| matches!(half, Half::User { access: Access::Execute, .. });
        if holding.holders.values().any(executes) {
            return Err(Status::Denied);
        }
        holding.holders.insert(core, Half::Kernel);
        let virt = self.places.first_page(grant.start, holding.origin).0;
        let whole = Grant { start: grant.start, bytes: holding.bytes };
        let space = self.tables.spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        for mapping in self.places.mappings(whole, holding.origin, Half::Kernel) {
            match space.map(&mut self.tables.memory, &mut self.tables.pool, mapping) {
                // An earlier incarnation of this core entered it: an address names one frame.
                Ok(()) | Err(MapError::AlreadyMapped) => {}
                Err(error) if mapping.virt == virt => {
                    // Nothing was entered: the core has nothing to forget.
                    holding.holders.remove(&core);
                    return Err(error.into());
                }
                Err(error) => {
                    self.unshare(grant, core)?;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Takes a grant out of a core's tables; the core then says [`Memory::acknowledge`].
    /// `NotFound` if the core does not have it.
    pub fn unshare(&mut self, grant: Grant, core: CoreId) -> Result<Grant, Status> {
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        let half = holding.holders.remove(&core).ok_or(Status::NotFound)?;
        let whole = Grant { start: grant.start, bytes: holding.bytes };
        let mappings = self.places.mappings(whole, holding.origin, half);
        let mut retired = take_out(&mut self.tables, core, mappings);
        if let Some(twin) = half.twin() {
            let mappings = self.places.mappings(whole, holding.origin, twin);
            retired.extend(take_out(&mut self.tables, core, mappings));
        }
        holding.leaving.entry(core).or_default().extend(retired);
        Ok(whole)
    }

    /// Takes what maps a device out of the tables of a core and enters it in another's; neither has
    /// a translation, as both are away. All of it or nothing.
    pub fn move_device(
        &mut self,
        mappings: &[Mapping],
        from: CoreId,
        to: CoreId,
    ) -> Result<(), Status> {
        let entered = self.enter_all(to, mappings);
        self.forget(mappings, if entered.is_ok() { from } else { to });
        entered
    }

    /// Takes pages out of the tables of a core and enters others, perhaps in the same places; the
    /// core has no translation, as it is away. All of it or nothing.
    pub fn exchange(&mut self, core: CoreId, change: &Change) -> Result<(), Status> {
        self.forget(&change.from, core);
        let entered = self.enter_all(core, &change.to);
        if entered.is_err() {
            self.forget(&change.to, core);
            // What they take was there a moment ago.
            self.enter_all(core, &change.from)?;
        }
        entered
    }

    fn enter_all(&mut self, core: CoreId, mappings: &[Mapping]) -> Result<(), Status> {
        let Tables { memory, pool, spaces, .. } = &mut self.tables;
        let space = spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        let entered = mappings.iter().try_for_each(|mapping| space.map(memory, pool, *mapping));
        entered.map_err(|error| match error {
            MapError::NoTables => Status::NoTables,
            _ => Status::Failed,
        })
    }

    fn forget(&mut self, mappings: &[Mapping], core: CoreId) {
        let retired = take_out(&mut self.tables, core, mappings.iter().copied());
        let Tables { memory, pool, spaces, .. } = &mut self.tables;
        let Some(space) = spaces.get_mut(core.index()) else { return };
        for table in retired {
            let freed = space.acknowledge(memory, pool, table);
            debug_assert!(freed.is_ok(), "a table that was just retired is not known");
        }
    }

    /// The core has no translation of the grant any more. When nobody has, its frames are free.
    pub fn acknowledge(&mut self, grant: Grant, core: CoreId) -> Result<(), Status> {
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        let retired = holding.leaving.remove(&core).ok_or(Status::NotFound)?;
        let Tables { memory, pool, spaces, .. } = &mut self.tables;
        let space = spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        for table in retired {
            space.acknowledge(memory, pool, table).map_err(|_| Status::Invalid)?;
        }
        self.free_if_unused(grant)
    }

    /// Frees a grant that is in nobody's tables.
    pub fn free_if_unused(&mut self, grant: Grant) -> Result<(), Status> {
        let holding = self.given.get(&grant.start).ok_or(Status::NotFound)?;
        let is_used = !holding.holders.is_empty() || !holding.leaving.is_empty();
        if is_used || self.kept.contains(&grant.start) {
            return Ok(());
        }
        let (bytes, origin) = (holding.bytes, holding.origin);
        let page = self.places.first_page(grant.start, origin).1;
        if self.recovered && self.is_mapped(grant.start, bytes, page) {
            return Ok(());
        }
        match origin {
            Origin::Frame(size) => self.physical.free(grant.start, size)?,
            Origin::Run => {
                let frames = (bytes / PageSize::Small.bytes()) as usize;
                let unused = self.runs.give(grant.start, frames).map_err(|_| Status::Invalid)?;
                if let Some(collection) = unused {
                    self.physical.free(collection, PageSize::Large)?;
                }
            }
        }
        self.given.remove(&grant.start);
        Ok(())
    }

    /// Whether this is a whole grant that `core` has mapped.
    pub fn is_held(&self, grant: Grant, core: CoreId) -> bool {
        let holding = self.given.get(&grant.start).filter(|held| held.bytes == grant.bytes);
        holding.is_some_and(|held| held.holders.contains_key(&core))
    }

    /// Whether `core` has yet to say that it has forgotten the grant.
    pub fn is_leaving(&self, grant: Grant, core: CoreId) -> bool {
        self.given.get(&grant.start).is_some_and(|held| held.leaving.contains_key(&core))
    }

    /// Every grant that `core` has mapped, or has left without saying so.
    pub fn held_by(&self, core: CoreId) -> Vec<Grant> {
        let held = self.given.iter().filter(|(_, holding)| {
            holding.holders.contains_key(&core) || holding.leaving.contains_key(&core)
        });
        held.map(|(start, holding)| Grant { start: *start, bytes: holding.bytes }).collect()
    }

    /// Bytes that nobody has.
    pub fn free_bytes(&self) -> u64 {
        self.physical.statistics().free_bytes
    }

    /// How much memory there is.
    pub fn statistics(&self) -> Reply {
        let statistics = self.physical.statistics();
        Reply::Statistics {
            total: statistics.usable_bytes,
            free: statistics.free_bytes,
            small: statistics.size(PageSize::Small).free,
            large: statistics.size(PageSize::Large).free,
            huge: statistics.size(PageSize::Huge).free,
            tables: self.tables.pool.free() as u64,
        }
    }

    /// The same for the boot report, with what the page tables take.
    pub fn report(&self) -> MemoryReport {
        let statistics = self.physical.statistics();
        let cores = self.tables.spaces.len() as u64;
        let table = PageSize::Small.bytes();
        let upper: u64 = self.tables.upper_tables * table;
        let pool = self.tables.pool.total() as u64 * table;
        MemoryReport {
            total_bytes: statistics.usable_bytes,
            free_bytes: statistics.free_bytes,
            free_4k: statistics.size(PageSize::Small).free,
            free_2m: statistics.size(PageSize::Large).free,
            free_1g: statistics.size(PageSize::Huge).free,
            table_bytes: upper + pool,
            private_table_bytes: upper
                + cores * TablePool::tables_for(statistics.usable_bytes) as u64 * table,
            free_tables: self.tables.pool.free() as u64,
            pool: None,
            regions: Vec::new(),
        }
    }
}
