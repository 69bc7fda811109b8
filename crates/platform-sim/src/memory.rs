//! The node's memory: emulated page tables, an emulated MMU for each core, and a vector for each
//! grant. Every use of a grant is checked against what the core's MMU can reach, caches included;
//! a frame that is cleared for somebody new while a core can still reach it ends the run. The
//! memory of a domain is [units](crate::units) of its machine's; a translation that ends in memory
//! which the ledger does not give to the domain ends the run, too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use nile_memory::paging::{
    AddressSpace, EmulatedMemory, Entry, Extent, Mmu, Page, Plan, TableIndex, TableMemory,
    TablePool, VirtRange,
};
use nile_memory::{MemoryKind, MemoryMap, MemoryRegion, PhysicalMemory};
use nile_platform::user::Access;
use nile_platform::{AttachError, Grant, Tables};
use nile_ring::Region;

use crate::units::Own;

/// The first byte of the node's memory. Not zero, so that a forgotten address shows.
pub const BASE: PhysAddr = PhysAddr(1 << 20);

/// Where the emulated page tables are: far above the memory that they map.
const TABLES: PhysAddr = PhysAddr(1 << 46);

/// Where a core's tables have a grant.
pub const SHARED_BASE: VirtAddr = VirtAddr(0xffff_a000_0000_0000);

/// Where they have a grant that is one huge page.
pub const HUGE_BASE: VirtAddr = VirtAddr(0xffff_b000_0000_0000);

/// Page tables that outlive the management core's incarnations.
#[derive(Clone)]
pub struct SharedTables(Rc<RefCell<EmulatedMemory>>);

impl TableMemory for SharedTables {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        self.0.borrow().read(table, index)
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        self.0.borrow_mut().write(table, index, entry);
    }

    fn clear(&mut self, table: PhysAddr) {
        self.0.borrow_mut().clear(table);
    }
}

/// The node's memory.
pub struct SimMemory {
    map: MemoryMap,
    /// Where the pool of buffers is.
    pool_start: PhysAddr,
    tables: SharedTables,
    roots: Vec<PhysAddr>,
    upper_tables: u64,
    pool: Extent,
    /// The physical memory service's records.
    records: Region,
    mmus: Vec<Mmu>,
    contents: BTreeMap<PhysAddr, Region>,
    /// Where each core's packages have, or had, which memory.
    users: BTreeMap<(CoreId, VirtAddr), Grant>,
    /// What of its machine's memory the node has, which is a domain.
    own: Option<Own>,
    /// A translation that must not be.
    pub violation: Option<String>,
}

impl SimMemory {
    /// Memory of `bytes` bytes, rounded down to whole frames, with tables for `cores` cores, which
    /// can show a pool of so many bytes besides: behind it, where large pages can begin.
    pub fn new(cores: usize, bytes: u64, pool_bytes: u64) -> SimMemory {
        let bytes = PhysAddr(bytes).align_down(PageSize::Small).0;
        let all = Grant { start: BASE, bytes };
        let records = records_of(all);
        PhysicalMemory::new()
            .add_region(BASE, bytes, records.clone())
            .expect("the records have the size that was asked for");
        let pool_start = (BASE.0 + bytes).next_multiple_of(PageSize::Large.bytes());
        let pool = Grant { start: PhysAddr(pool_start), bytes: pool_bytes };
        SimMemory::with(cores, all, TABLES, pool, records)
    }

    /// The memory of a domain: what is free of it is the node's, and all else that there is to
    /// give is away.
    pub fn of_domain(cores: usize, given: Grant, own: Own) -> SimMemory {
        let records = records_of(given);
        let mut physical = PhysicalMemory::new();
        physical
            .add_away(given.start, given.bytes, records.clone())
            .expect("the records have the size that was asked for");
        for piece in &own.free {
            let came = physical.call_back(piece.start, piece.bytes);
            came.expect("a domain's memory is whole units of what there is to give");
        }
        let mut memory = SimMemory::with(cores, given, own.tables.start, own.pool, records);
        let usable = |it: &Grant| MemoryRegion::new(it.start, it.bytes, MemoryKind::Usable);
        let claims: Vec<MemoryRegion> = own.free.iter().map(usable).collect();
        memory.map = MemoryMap::from_claims(&claims);
        memory.own = Some(own);
        memory
    }

    /// Bytes of the tables of so many cores, which can map this memory and show a pool.
    pub fn table_bytes(cores: usize, all: Grant, pool_bytes: u64) -> u64 {
        let tables = cores * plan(all, pool_bytes).tables() + TablePool::tables_for(all.bytes);
        tables as u64 * PageSize::Small.bytes()
    }

    fn with(
        cores: usize,
        all: Grant,
        tables: PhysAddr,
        buffers: Grant,
        records: Region,
    ) -> SimMemory {
        let plan = plan(all, buffers.bytes);
        let upper = cores * plan.tables();
        let pool_tables = TablePool::tables_for(all.bytes);
        let mut memory = EmulatedMemory::new(tables, upper + pool_tables);
        let pool = Extent { start: memory.frame(upper), tables: pool_tables };
        let roots: Vec<PhysAddr> = (0..cores)
            .map(|core| {
                let first = core * plan.tables();
                let frames: Vec<PhysAddr> =
                    (first..first + plan.tables()).map(|table| memory.frame(table)).collect();
                AddressSpace::build(&mut memory, CoreId(core as u16), &plan, &frames)
                    .expect("the plan got the frames that it asked for")
                    .root()
            })
            .collect();
        let usable = MemoryRegion::new(all.start, all.bytes, MemoryKind::Usable);
        SimMemory {
            map: MemoryMap::from_claims(&[usable]),
            pool_start: buffers.start,
            tables: SharedTables(Rc::new(RefCell::new(memory))),
            mmus: roots.iter().map(|root| Mmu::new(*root)).collect(),
            roots,
            upper_tables: upper as u64,
            pool,
            records,
            contents: BTreeMap::new(),
            users: BTreeMap::new(),
            own: None,
            violation: None,
        }
    }

    /// Where the pool of buffers is.
    pub fn pool_start(&self) -> PhysAddr {
        self.pool_start
    }

    /// The root of a core's tables.
    pub fn root(&self, core: CoreId) -> PhysAddr {
        self.roots[core.index()]
    }

    /// The map that a boot path would hand over.
    pub fn map(&self) -> MemoryMap {
        self.map.clone()
    }

    /// What of its machine's memory the node has, which is a domain.
    pub fn own(&self) -> Option<&Own> {
        self.own.as_ref()
    }

    /// The physical memory service's state, as its records tell it.
    pub fn physical(&self) -> PhysicalMemory<Region> {
        PhysicalMemory::recover([self.records.clone()])
            .expect("only the physical memory service writes its records")
    }

    /// The virtual memory service's state, as the tables tell it.
    pub fn tables(&self) -> Tables<SharedTables> {
        let mut memory = self.tables.clone();
        let spaces: Vec<AddressSpace> = (0u16..)
            .zip(&self.roots)
            .map(|(core, root)| AddressSpace::recover(CoreId(core), *root))
            .collect();
        let (pool, retired) = TablePool::recover(&mut memory, &[self.pool], &spaces)
            .expect("only the virtual memory service writes the tables");
        Tables { memory, pool, spaces, upper_tables: self.upper_tables, retired }
    }

    /// A grant's memory, if every frame of it is in the core's reach.
    pub fn attach(&mut self, core: CoreId, grant: Grant) -> Result<Region, AttachError> {
        for (frame, page) in pages(grant) {
            let mmu = &mut self.mmus[core.index()];
            let mapping = mmu.translate(&self.tables, page.virt).ok_or(AttachError::OutOfRange)?;
            if mapping.phys.0 + (page.virt.0 - mapping.virt.0) != frame.0 {
                return Err(AttachError::OutOfRange);
            }
        }
        self.content(core, grant)
    }

    /// What is in a grant that a core reaches.
    fn content(&mut self, core: CoreId, grant: Grant) -> Result<Region, AttachError> {
        self.judge(core, grant);
        if let Some(region) = self.own.as_ref().and_then(|own| own.region(grant)) {
            return Ok(region);
        }
        let bytes = usize::try_from(grant.bytes).map_err(|_| AttachError::OutOfRange)?;
        let region = self.contents.entry(grant.start).or_insert_with(|| Region::owned(bytes));
        Ok(region.clone())
    }

    /// Whether the ledger gives a domain what its core reaches.
    fn judge(&mut self, core: CoreId, grant: Grant) {
        if let Some(own) = self.own.as_ref().filter(|own| !own.has(grant)) {
            let why = format!("I2: {core} of {} reaches {grant:?}, which is not its own", own.id());
            self.violation.get_or_insert(why);
        }
    }

    /// A core that reaches memory of this grant, by its kernel's tables or a package's, also by
    /// what it has not forgotten.
    pub fn reached_by(&self, grant: Grant) -> Option<CoreId> {
        let small = PageSize::Small.bytes();
        let pages = || (grant.start.0..grant.start.0 + grant.bytes).step_by(small as usize);
        let reaches = |mmu: &Mmu| {
            pages().any(|at| mmu.reaches(&self.tables, VirtAddr(SHARED_BASE.0 + at)))
                || mmu.reaches(&self.tables, VirtAddr(HUGE_BASE.0 + grant.start.0))
        };
        let core = self.mmus.iter().position(reaches).map(|core| CoreId(core as u16));
        core.or_else(|| self.user_of(grant))
    }

    /// Forgets a core's translations of a grant.
    pub fn detach(&mut self, core: CoreId, grant: Grant) {
        for (_, page) in pages(grant) {
            self.mmus[core.index()].invalidate(page);
        }
    }

    /// A grant's memory, if every frame of it is in the reach of the core's user mode, from `at`
    /// on and with this access.
    pub fn attach_user(
        &mut self,
        core: CoreId,
        grant: Grant,
        at: VirtAddr,
        access: Access,
    ) -> Result<Region, AttachError> {
        self.reach_user(core, grant, at, access)?;
        self.users.insert((core, at), grant);
        self.content(core, grant)
    }

    /// Has a core's unit translate every page of a package's memory, which its tables must have
    /// there with this access.
    pub fn reach_user(
        &mut self,
        core: CoreId,
        grant: Grant,
        at: VirtAddr,
        access: Access,
    ) -> Result<(), AttachError> {
        for (frame, page) in user_pages(grant, at) {
            let mmu = &mut self.mmus[core.index()];
            let mapping = mmu.translate(&self.tables, page.virt).ok_or(AttachError::OutOfRange)?;
            let may = mapping.permissions;
            let allowed = match access {
                Access::Read => may.user,
                Access::Write => may.user && may.write,
                Access::Execute => may.user && may.execute,
            };
            if !allowed || mapping.phys.0 + (page.virt.0 - mapping.virt.0) != frame.0 {
                return Err(AttachError::OutOfRange);
            }
        }
        self.judge(core, grant);
        Ok(())
    }

    /// Forgets the translations of a package's grant.
    pub fn detach_user(&mut self, core: CoreId, grant: Grant, at: VirtAddr) {
        for (_, page) in user_pages(grant, at) {
            self.mmus[core.index()].invalidate(page);
        }
    }

    /// A core whose user mode can still reach memory of this grant.
    fn user_of(&self, grant: Grant) -> Option<CoreId> {
        let overlaps = |other: &Grant| {
            other.start.0 < grant.start.0 + grant.bytes
                && grant.start.0 < other.start.0 + other.bytes
        };
        let mut had = self.users.iter().filter(|(_, other)| overlaps(other));
        had.find_map(|((core, at), other)| {
            // A copy, so that looking leaves no trace.
            let mut mmu = self.mmus[core.index()].clone();
            let mut pages = user_pages(*other, *at);
            let reached = pages.any(|(frame, page)| {
                // What is there now may be an overlapping grant that lives.
                let cleared = grant.start <= frame && frame.0 - grant.start.0 < grant.bytes;
                cleared
                    && mmu.translate(&self.tables, page.virt).is_some_and(|mapping| {
                        mapping.phys.0 + (page.virt.0 - mapping.virt.0) == frame.0
                    })
            });
            reached.then_some(*core)
        })
    }

    /// Empties a core's translation cache, as when its incarnation begins.
    pub fn flush(&mut self, core: CoreId) {
        self.mmus[core.index()] = Mmu::new(self.roots[core.index()]);
    }

    /// Clears a grant's frames. `Err` says which core can still reach one of them: then what it
    /// writes would land in the next owner's memory.
    pub fn zero(&mut self, grant: Grant) -> Result<(), String> {
        for (frame, page) in pages(grant) {
            for (core, mmu) in self.mmus.iter().enumerate() {
                if mmu.reaches(&self.tables, page.virt) {
                    return Err(format!("core {core} still reaches {frame}, which is cleared"));
                }
            }
        }
        if let Some(core) = self.user_of(grant) {
            return Err(format!("a package of {core} still reaches {grant:?}, which is cleared"));
        }
        match self.own.as_ref().and_then(|own| own.region(grant)) {
            Some(region) => region.words().iter().for_each(|word| word.store(0, Relaxed)),
            None => drop(self.contents.remove(&grant.start)),
        }
        Ok(())
    }
}

/// Memory for the records of this memory.
fn records_of(all: Grant) -> Region {
    let words = PhysicalMemory::<Region>::words_for(all.start, all.bytes);
    Region::owned((words * 8).next_multiple_of(64))
}

/// The tables of a core that can map this memory, and show a pool of so many bytes.
fn plan(all: Grant, pool_bytes: u64) -> Plan {
    let end = all.start.0 + all.bytes;
    let mut ranges = vec![
        VirtRange::new(VirtAddr(SHARED_BASE.0 + all.start.0), all.bytes),
        VirtRange::huge(HUGE_BASE, end),
    ];
    for slot in UserSlot::all() {
        // 1 GiB for what has its place in user memory, and as much as there is for the rest.
        ranges.push(VirtRange::new(slot.base(), (1 << 30) + end));
        if pool_bytes > 0 {
            ranges.push(VirtRange::new(slot.pool(), pool_bytes));
        }
    }
    Plan::new(&ranges).expect("the zones' addresses exist")
}

/// The frames of a grant and the pages of user memory that show them from `at` on.
fn user_pages(grant: Grant, at: VirtAddr) -> impl Iterator<Item = (PhysAddr, Page)> {
    let size = PageSize::Small;
    (0..grant.bytes / size.bytes()).map(move |number| {
        let offset = number * size.bytes();
        let page = Page { virt: VirtAddr(at.0.wrapping_add(offset)), size };
        (PhysAddr(grant.start.0 + offset), page)
    })
}

/// The frames of a grant and the pages that show them, in the size in which they are mapped.
fn pages(grant: Grant) -> impl Iterator<Item = (PhysAddr, Page)> {
    let large = grant.start.is_aligned(PageSize::Large)
        && grant.bytes.is_multiple_of(PageSize::Large.bytes());
    let (base, size) = match (grant.is_huge(), large) {
        (true, _) => (HUGE_BASE, PageSize::Huge),
        (_, true) => (SHARED_BASE, PageSize::Large),
        _ => (SHARED_BASE, PageSize::Small),
    };
    (0..grant.bytes / size.bytes()).map(move |number| {
        let frame = PhysAddr(grant.start.0 + number * size.bytes());
        (frame, Page { virt: VirtAddr(base.0 + frame.0), size })
    })
}
