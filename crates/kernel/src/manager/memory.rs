//! The node's memory as the management core gives it out: the physical memory service's frames,
//! the virtual memory service's tables (NileOS paper, III.B), and who has what.
//!
//! A *grant* is a piece of memory that one core or several have mapped. Taking it from a core is
//! two steps: first it leaves the core's tables, then the core says that it has no translation of
//! it any more. Frames and tables are used again only after the second.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use nile_abi::{CoreId, PageSize, PhysAddr, Status, VirtAddr};
use nile_memory::paging::{Mapping, Page, Permissions, Retired, TableMemory};
use nile_memory::{PhysicalMemory, TablePool};
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
    /// The cores that have it mapped.
    holders: BTreeSet<CoreId>,
    /// The cores whose tables no longer have it, but which may still have a translation, and
    /// the last-level tables that wait with it.
    leaving: BTreeMap<CoreId, Vec<Retired>>,
}

/// The node's memory.
pub struct Memory<T: TableMemory> {
    physical: PhysicalMemory<Region>,
    tables: Tables<T>,
    runs: Runs,
    given: BTreeMap<PhysAddr, Holding>,
    /// Where a core's tables have a grant: at this address plus the grant's physical one.
    base: VirtAddr,
    owner: CoreId,
}

impl<T: TableMemory> Memory<T> {
    /// The memory that the boot path handed over, managed by `owner`.
    pub fn new(
        physical: PhysicalMemory<Region>,
        tables: Tables<T>,
        base: VirtAddr,
        owner: CoreId,
    ) -> Memory<T> {
        let runs = Runs::default();
        Memory { physical, tables, runs, given: BTreeMap::new(), base, owner }
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

    /// Notes a grant that an earlier incarnation of this core gave to `core`. `Invalid` if the
    /// records of frames do not say that it was given.
    pub fn adopt(&mut self, grant: Grant, core: CoreId) -> Result<(), Status> {
        if let Some(holding) = self.given.get_mut(&grant.start) {
            holding.holders.insert(core);
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
        self.adopt(grant, core)
    }

    fn enter(&mut self, start: PhysAddr, bytes: u64, origin: Origin) -> Grant {
        let (holders, leaving) = (BTreeSet::new(), BTreeMap::new());
        self.given.insert(start, Holding { bytes, origin, holders, leaving });
        Grant { start, bytes }
    }

    /// Enters a grant in a core's tables, for reading and writing; nothing happens if it is there.
    /// When it does not fit, what was entered is leaving again.
    pub fn share(&mut self, grant: Grant, core: CoreId) -> Result<(), Status> {
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        if holding.leaving.contains_key(&core) {
            return Err(Status::Busy);
        }
        if !holding.holders.insert(core) {
            return Ok(());
        }
        let largest = match holding.origin {
            Origin::Run => PageSize::Small,
            Origin::Frame(size) => size,
        };
        let space = self.tables.spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        let at = VirtAddr(self.base.0 + grant.start.0);
        for mapping in
            Mapping::cover(at, grant.start, grant.bytes, largest, Permissions::READ_WRITE)
        {
            if let Err(error) = space.map(&mut self.tables.memory, &mut self.tables.pool, mapping) {
                self.unshare(grant, core)?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Takes a grant out of a core's tables; the core then says [`Memory::acknowledge`].
    /// `NotFound` if the core does not have it.
    pub fn unshare(&mut self, grant: Grant, core: CoreId) -> Result<Grant, Status> {
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        if !holding.holders.remove(&core) {
            return Err(Status::NotFound);
        }
        let size = match holding.origin {
            Origin::Run => PageSize::Small,
            Origin::Frame(size) => size,
        };
        let space = self.tables.spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        let mut retired = Vec::new();
        for offset in (0..holding.bytes).step_by(size.bytes() as usize) {
            let virt = VirtAddr(self.base.0 + grant.start.0 + offset);
            let page = Page { virt, size };
            let unmapped = space.unmap(&mut self.tables.memory, &mut self.tables.pool, page);
            // A page that is not mapped is one that a failed `share` did not come to.
            retired.extend(unmapped.ok().and_then(|unmapped| unmapped.retired));
        }
        holding.leaving.insert(core, retired);
        Ok(Grant { start: grant.start, bytes: holding.bytes })
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
        if !holding.holders.is_empty() || !holding.leaving.is_empty() {
            return Ok(());
        }
        match holding.origin {
            Origin::Frame(size) => self.physical.free(grant.start, size)?,
            Origin::Run => {
                let frames = (holding.bytes / PageSize::Small.bytes()) as usize;
                let unused = self.runs.give(grant.start, frames).map_err(|_| Status::Invalid)?;
                if let Some(collection) = unused {
                    self.physical.free(collection, PageSize::Large)?;
                }
            }
        }
        self.given.remove(&grant.start);
        Ok(())
    }

    /// Whether `core` has yet to say that it has forgotten the grant.
    pub fn is_leaving(&self, grant: Grant, core: CoreId) -> bool {
        self.given.get(&grant.start).is_some_and(|held| held.leaving.contains_key(&core))
    }

    /// Every grant that `core` has mapped, or has left without saying so.
    pub fn held_by(&self, core: CoreId) -> Vec<Grant> {
        let held = self.given.iter().filter(|(_, holding)| {
            holding.holders.contains(&core) || holding.leaving.contains_key(&core)
        });
        held.map(|(start, holding)| Grant { start: *start, bytes: holding.bytes }).collect()
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
            regions: Vec::new(),
        }
    }
}
