//! The gate of the guard: the one way in which a domain's kernel changes its page tables,
//! interrupts cores and writes to ports (RainForest 4.2; what may be done, [`nile_guard`] judges).
//!
//! A domain's tables are mapped read-only in all its spaces, and so is everything by which the gate
//! knows what the domain has: the ledger of its supervisor, its node, and a [`Page`] of its own at
//! one address in every space. A processor whose CR0 has WP set keeps the kernel from writing
//! there.
//! The gate asks the judge, lifts that for one store, with interrupts masked, and sets it again.
//! Whatever ends an incarnation in between begins the next one with WP set (space.s).
//!
//! This holds against mistakes: stray stores, wrong addresses and lengths, requests that make no
//! sense. Code that a domain was made to run can lift the protection as the gate does.
//!
//! So it is with the descriptors of each core (segments, interrupt table, task state), which an
//! exception needs to end in a handler and not in a reset of the machine, and with the registers of
//! its interrupt controller, by which it would reset, start or stop any core.
//!
//! A node that is no domain has a page that says so, and so does the boot space, in which a domain
//! is put together.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nile_abi::{MAX_CORES, PageSize, PhysAddr, VirtAddr};
use nile_domain::{DomainId, Thing, has};
use nile_guard::{Cores, Description, Table, Violation};
use nile_memory::MemoryKind;
use nile_memory::TableMemory;
use nile_memory::paging::{ENTRIES, Entry, EntryKind, Level, TableIndex};
use nile_platform::domains::LedgerWords;

use crate::apic::ApicId;
use crate::domain::parts::drives_parts;
use crate::domain::{DomainEntry, NO_CORE, drives_loops};
use crate::layout;
use crate::node::{CoreEntry, Frames, Node, region};
use crate::privileged;
use crate::tables::TableFrames;
use crate::vector::Vector;

/// Where a core finds by what it is judged.
#[repr(C, align(4096))]
pub struct Page {
    /// Where it sees its node; zero if nobody guards it.
    node: AtomicU64,
    /// The supervisor's cores that wait for frames and for requests of disks.
    waits: [AtomicU32; 2],
    /// How many hardware cores there are to give, and their names, by number.
    count: AtomicU32,
    names: [AtomicU32; MAX_CORES],
}

/// In a guarded domain's spaces another frame is at this address; so it is read as what changes.
#[unsafe(link_section = ".guard")]
static PAGE: Page = Page {
    node: AtomicU64::new(0),
    waits: [const { AtomicU32::new(0) }; 2],
    count: AtomicU32::new(0),
    names: [const { AtomicU32::new(0) }; MAX_CORES],
};

/// What the gate of a domain stands on, in the domain's own memory: the page, then a byte for each
/// table.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Behind the tables, and mapped with them.
    pub all: Frames,
}

impl Places {
    /// Bytes for so many bytes of tables.
    pub const fn bytes(tables: u64) -> u64 {
        let kinds = tables / PageSize::Small.bytes();
        PageSize::Small.bytes() + kinds.next_multiple_of(PageSize::Small.bytes())
    }

    /// The page.
    pub const fn page(&self) -> Frames {
        self.all.part(0, PageSize::Small.bytes())
    }

    fn kinds(&self) -> PhysAddr {
        self.page().end()
    }
}

/// A domain that is guarded, as its cores see it.
#[derive(Clone, Copy)]
struct Guarded {
    node: &'static Node,
    domain: &'static DomainEntry,
    /// Where the kinds of tables are seen.
    kinds: VirtAddr,
}

/// A word of the page, which has another value than the compiler sees.
fn word(word: &AtomicU32) -> u32 {
    // SAFETY: the page is there in every space.
    unsafe { word.as_ptr().read_volatile() }
}

/// The domain that this core is of, if it is guarded.
fn guarded() -> Option<Guarded> {
    // SAFETY: the page is there in every space.
    let at = unsafe { PAGE.node.as_ptr().read_volatile() };
    if at == 0 {
        return None;
    }
    // SAFETY: the page says where every space of the domain has its node, for ever.
    let node = unsafe { &*core::ptr::with_exposed_provenance::<Node>(at as usize) };
    let places = node.guard?;
    let domain = node.domain.as_ref()?;
    Some(Guarded { node, domain, kinds: layout::table(places.kinds()) })
}

/// Changes an entry of a page table, if this core may.
pub(crate) fn store(
    tables: &TableFrames,
    table: PhysAddr,
    index: TableIndex,
    entry: Entry,
) -> Result<(), Violation> {
    let at = tables.place(table, index);
    // SAFETY: the entry is a table's (`place`); volatile, as the processor that walks the table is
    // another reader.
    let write = || unsafe { at.write_volatile(entry.bits()) };
    let Some(guarded) = guarded() else {
        write();
        return Ok(());
    };
    nile_guard::entry(&guarded, table, tables.read(table, index), entry)?;
    open(write);
    Ok(())
}

/// Empties a page table that no walk reaches, if this core may.
pub(crate) fn clear(tables: &TableFrames, table: PhysAddr) -> Result<(), Violation> {
    let Some(first) = TableIndex::all().next() else { return Ok(()) };
    let at = tables.place(table, first);
    // SAFETY: the table is whole behind its first entry.
    let write = || unsafe { at.write_bytes(0, ENTRIES) };
    match guarded() {
        None => write(),
        Some(guarded) => {
            nile_guard::clear(&guarded, table)?;
            open(write);
        }
    }
    Ok(())
}

/// Has `work` see frames through an entry that nobody else sees, if this core may have them.
pub(crate) fn show(frames: Frames, work: impl FnOnce()) -> Result<(), Violation> {
    match guarded() {
        None => work(),
        Some(guarded) => {
            nile_guard::memory(&guarded, frames.start, frames.bytes)?;
            open(work);
        }
    }
    Ok(())
}

/// Whether this core may have frames in its tables.
pub(crate) fn may_have(frames: Frames) -> bool {
    guarded().is_none_or(|it| nile_guard::memory(&it, frames.start, frames.bytes).is_ok())
}

/// Whether this core may give its interrupt controller this command for the core named `to`.
pub(crate) fn interrupt(to: ApicId, command: u32) -> Result<(), Violation> {
    guarded().map_or(Ok(()), |guarded| nile_guard::interrupt(&guarded, to.0, command))
}

/// Whether this core may write to this port.
pub(crate) fn port(port: u16) -> Result<(), Violation> {
    guarded().map_or(Ok(()), |_| nile_guard::port(port))
}

/// Whether this core may write this to a model-specific register.
pub(crate) fn register(register: u32, value: u64) -> Result<(), Violation> {
    // SAFETY: the judge asks only about a register that every processor has.
    let now = || unsafe { privileged::read_msr(register) };
    guarded().map_or(Ok(()), |_| nile_guard::register(register, value, now))
}

/// Whether this core may take its segments or interrupt gates from here.
pub(crate) fn descriptors(at: VirtAddr, bytes: usize) -> Result<(), Violation> {
    let own = layout::image::descriptors();
    guarded().map_or(Ok(()), |_| nile_guard::descriptors(&own, at, bytes as u64))
}

/// Whether this core may go on over the tables under this root.
pub(crate) fn root(root: PhysAddr) -> Result<(), Violation> {
    let Some(guarded) = guarded() else { return Ok(()) };
    let is_root = |it: &CoreEntry| it.root == root || it.slots.contains(&root);
    let is_own = guarded.node.cores.iter().any(is_root);
    is_own.then_some(()).ok_or(Violation::NoTable(root))
}

/// Changes what this core has mapped, read-only if it is guarded: its descriptors, and its
/// interrupt controller.
pub(crate) fn amend<R>(work: impl FnOnce() -> R) -> R {
    match guarded() {
        None => work(),
        Some(_) => open(work),
    }
}

/// Ends the incarnation of a core that wants what it may not.
pub(crate) fn refuse(violation: Violation) -> ! {
    panic!("the guard refuses: {violation}")
}

/// Does `work` while the kernel may write what is mapped read-only.
fn open<R>(work: impl FnOnce() -> R) -> R {
    privileged::without_interrupts(|| {
        privileged::set_write_protection(false);
        let result = work();
        privileged::set_write_protection(true);
        result
    })
}

impl Guarded {
    /// The supervisor's ledger, which a domain reads.
    fn ledger(&self) -> LedgerWords {
        // SAFETY: every core of a guarded domain has the ledger in its space for ever; it is
        // reached as atomics.
        LedgerWords(unsafe { region(self.domain.ledger, layout::SHARED_BASE) })
    }

    fn id(&self) -> DomainId {
        DomainId { slot: self.domain.slot, generation: self.domain.generation }
    }
}

impl Description for Guarded {
    fn table(&self, at: PhysAddr) -> Option<Table> {
        let tables = self.node.tables;
        if at < tables.start || at >= tables.end() {
            return None;
        }
        let number = (at.0 - tables.start.0) / PageSize::Small.bytes();
        let kind = VirtAddr(self.kinds.0 + number);
        // SAFETY: there is a byte for each table, and the managing core, which alone changes
        // tables, has them in its space for ever.
        Table::from_byte(unsafe { (kind.0 as *const u8).read_volatile() })
    }

    fn is_loose(&self, start: PhysAddr, bytes: u64) -> bool {
        is_loose(self.node, self.domain, start, bytes)
    }

    fn has(&self, start: PhysAddr, bytes: u64) -> bool {
        let (given, id, ledger) = (self.domain.given, self.id(), self.ledger());
        let Some(end) = start.checked_add(bytes).filter(|end| *end <= given.end()) else {
            return false;
        };
        let Some(offset) = start.0.checked_sub(given.start.0) else { return false };
        let unit = PageSize::Large.bytes();
        let mut units = offset / unit..(end.0 - given.start.0).div_ceil(unit);
        units.all(|unit| has(&ledger, id, Thing::Unit(unit as u32)))
    }
}

impl Cores for Guarded {
    fn has_core(&self, name: u32) -> bool {
        let mut names = PAGE.names.iter().take(word(&PAGE.count) as usize).map(word);
        let number = names.position(|it| it == name);
        number.is_some_and(|it| has(&self.ledger(), self.id(), Thing::Core(it as u16)))
    }

    fn may_wake(&self, name: u32, vector: u8) -> bool {
        // No core is nobody: its name is that of all.
        let is_waiting = || PAGE.waits.iter().any(|waits| name == word(waits));
        name != NO_CORE.0 && is_waiting() && vector == Vector::LOOP.0
    }
}

/// Whether a domain uses these bytes as it likes: they are among what there is to give, and nothing
/// of what it was put together from is in them but the pool of buffers.
fn is_loose(node: &Node, domain: &DomainEntry, start: PhysAddr, bytes: u64) -> bool {
    let Some(end) = start.checked_add(bytes) else { return false };
    let within = |it: &Frames| it.start <= start && end <= it.end();
    let own = || {
        let mut own = node.memory.iter().filter(|it| it.start < end && start < it.end());
        own.all(|it| it.kind == MemoryKind::Usable)
    };
    within(&domain.given) && (node.buffers.as_ref().is_some_and(within) || own())
}

/// Writes down of every table what it is for, and which cores there are, before the guard begins.
/// `supervisor` is the node that gives.
///
/// # Safety
/// This is the boot space: the places are mapped where they are, and so are the tables. Nobody uses
/// the places.
pub unsafe fn describe(node: &Node, supervisor: &Node) {
    let (Some(places), Some(domain)) = (node.guard, &node.domain) else { return };
    // SAFETY: the caller's promise.
    let tables = &unsafe { TableFrames::new(node.tables, VirtAddr(0)) };
    let count = (node.tables.bytes / PageSize::Small.bytes()) as usize;
    // SAFETY: the caller's promise; there is a byte for each table.
    let kinds = unsafe {
        let first = places.kinds().0 as *mut u8;
        first.write_bytes(Table { level: Level::Pt, stays: false }.to_byte(), count);
        core::slice::from_raw_parts_mut(first, count)
    };
    for core in &node.cores {
        for root in core.slots.iter().chain([&core.root]) {
            let mut walk = Walk { node, domain, tables, kinds };
            walk.describe(*root, Level::Pml4);
        }
    }
    let seen = layout::shared(node.shared.node.start);
    // SAFETY: as above; the page is the places' first, and zero.
    let page = unsafe { &*(places.page().start.0 as *const Page) };
    let parked = supervisor.supervised.iter().flat_map(|it| &it.parked);
    for (name, apic) in page.names.iter().zip(parked) {
        name.store(apic.0, Ordering::Relaxed);
        page.count.fetch_add(1, Ordering::Relaxed);
    }
    let cores = [drives_loops(supervisor), drives_parts(supervisor)];
    for (waits, core) in page.waits.iter().zip(cores) {
        let name = core.map_or(NO_CORE, |it| supervisor.core(it).apic);
        waits.store(name.0, Ordering::Relaxed);
    }
    page.node.store(seen.0, Ordering::Release);
}

struct Walk<'a> {
    node: &'a Node,
    domain: &'a DomainEntry,
    tables: &'a TableFrames,
    kinds: &'a mut [u8],
}

impl Walk<'_> {
    fn describe(&mut self, table: PhysAddr, level: Level) {
        let number = (table.0 - self.node.tables.start.0) / PageSize::Small.bytes();
        let mut stays = false;
        for index in TableIndex::all() {
            match (self.tables.read(table, index).kind(level), level.below()) {
                (EntryKind::Link(below), Some(lower)) => self.describe(below, lower),
                (EntryKind::Leaf(phys), _) => {
                    let bytes = level.leaf_size().map_or(0, |it| it.bytes());
                    stays |= !is_loose(self.node, self.domain, phys, bytes);
                    if stays && level == Level::Pt {
                        break;
                    }
                }
                _ => {}
            }
        }
        self.kinds[number as usize] = Table { level, stays }.to_byte();
    }
}
