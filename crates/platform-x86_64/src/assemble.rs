//! Takes from the machine's memory what the node itself needs, and builds in it the node, every
//! core's space and the records of all other frames. Nothing runs in what is built here yet.
//!
//! Everything taken lies where the boot path can reach it; the node is given the rest.

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, MAX_CORES, PageSize, PhysAddr, Role, RoleSet, VirtAddr};
use nile_memory::paging::{MapError, Plan};
use nile_memory::{AddressSpace, MemoryKind, MemoryMap, PhysicalMemory, TablePool};
use nile_platform::board::driver;

use crate::acpi::Platform;
use crate::apic::ApicId;
use crate::clock::Clock;
use crate::cpu::{Features, Kind};
use crate::devices::Devices;
use crate::disk::{DiskEntry, MAX_DISKS};
use crate::domain::parts::DiskParts;
use crate::domain::{DomainEntry, Supervised, loop_of};
use crate::network::{self, InterfaceEntry, MAX_INTERFACES};
use crate::node::{CoreEntry, Fact, Frames, MAX_FACTS, MAX_REGIONS, Node, SharedPlaces, region};
use crate::power::Power;
use crate::space::{self, Ingredients, PrivateFrames};
use crate::tables::TableFrames;
use crate::timer::shared::Shared;
use crate::{guard, heap, images, layout, smp};

/// The boot path sees memory where it is.
const IDENTITY: VirtAddr = VirtAddr(0);

/// What frame records may take more than was counted, because the memory map is cut into a few
/// more regions afterwards.
const WORDS_SLACK: u64 = 64 << 10;

/// Last-level tables for parked cores in the managing core's space, and for the ledger and the ends
/// of seats there and in the network core's.
const DOMAIN_TABLES: usize = 10;

/// The same for parked cores in the managing core's space alone.
const PARKING_TABLES: usize = 2;

/// What is known of the machine when its memory is divided.
pub struct Found<'a> {
    /// All memory; usable where nobody has claimed it.
    pub memory: MemoryMap,
    /// Addresses below this can be reached by the boot path.
    pub reach: PhysAddr,
    /// Controllers.
    pub platform: &'a Platform,
    /// Name and roles of each core, by id.
    pub cores: &'a [(ApicId, RoleSet)],
    /// Bytes that all cores share for buffers, whole 2 MiB.
    pub pool: u64,
    /// The command line.
    pub command_line: &'a str,
    /// The boot module.
    pub module: &'a [u8],
    /// Which machine this is.
    pub machine: Kind,
    /// What the processors can do.
    pub features: Features,
    /// The time.
    pub clock: Clock,
    /// Timers beside those of the cores.
    pub timers: Shared,
    /// How the machine is switched off.
    pub power: Power,
    /// The time since 1970 at the node's first instruction, if the machine has a calendar.
    pub started: Option<Duration>,
    /// What cores are to drive.
    pub devices: &'a Devices,
    /// What there is to give to domains; the seats are still to be taken.
    pub supervised: Option<Supervised>,
    /// The page below 1 MiB in which cores begin; none of a domain's.
    pub start_page: PhysAddr,
    /// How the node is made, if it is a domain.
    pub domain: Option<DomainEntry>,
}

/// Why the node was not built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssembleError {
    /// There is less memory than the cores need.
    TooLittleMemory,
    /// A space could not be mapped as the address map says.
    Map(MapError),
}

impl From<MapError> for AssembleError {
    fn from(error: MapError) -> AssembleError {
        AssembleError::Map(error)
    }
}

/// What is taken from the memory map.
struct Taken {
    buffers: Option<Frames>,
    private: Vec<PrivateFrames>,
    shared: SharedPlaces,
    words: Frames,
    plans: Vec<Plan>,
    tables: Frames,
    guard: Option<guard::Places>,
    pool: Frames,
    image_tables: Option<Frames>,
    interfaces: heapless::Vec<InterfaceEntry, MAX_INTERFACES>,
    disks: heapless::Vec<DiskEntry, MAX_DISKS>,
}

/// Builds the node. Its steps are still empty.
///
/// # Safety
/// Called once, by the boot path: all usable memory below `found.reach` is mapped where it is,
/// and nobody uses it.
pub unsafe fn assemble(mut found: Found<'_>) -> Result<&'static mut Node, AssembleError> {
    let later = found.domain.map(|it| it.others(found.memory.regions())).unwrap_or_default();
    let taken = take_all(&mut found, &later)?;
    let Taken { shared, .. } = taken;
    // SAFETY: all of these were just taken, are mapped where they are, and nobody uses them. The
    // first core begins to use its heap when the boot path has ended, which may have it so long.
    unsafe {
        let heap = taken.private[0].heap;
        heap::claim(heap.start.0 as *mut u8, heap.bytes as usize);
        clear(shared.all);
        if let Some(buffers) = taken.buffers {
            // Fresh memory is dear: only what says that the pool is not formatted.
            clear(buffers.part(0, PageSize::Small.bytes()));
        }
        if let Some(supervised) = &found.supervised {
            clear(supervised.seats);
            clear(supervised.ledger);
            supervised.parts.iter().for_each(|it| clear(it.links));
        }
        if let Some(guard) = taken.guard {
            // What a table holds at first, nobody has judged.
            clear(taken.tables);
            clear(guard.all);
        }
        for private in &taken.private {
            clear(private.small.part(space::LEDGER_OFFSET, PageSize::Small.bytes()));
        }
    }
    let cores = build_spaces(&found, &taken)?;
    let words = record_frames(&found.memory, &later, taken.words)?;
    // SAFETY: the texts' place is the end of the node's frames, which were taken for them.
    let (command_line, module) = unsafe {
        let texts = PhysAddr(shared.node.start.0 + size_of::<Node>() as u64);
        let after = PhysAddr(texts.0 + found.command_line.len() as u64);
        (place_text(texts, found.command_line), place(after, found.module))
    };
    let node = Node {
        machine: found.machine,
        image_bytes: layout::image::file_bytes(),
        features: found.features,
        clock: found.clock,
        timers: found.timers,
        power: found.power,
        started: found.started,
        facts: facts(&found, &taken),
        interfaces: taken.interfaces,
        disks: taken.disks,
        cores,
        memory: found.memory.regions().iter().copied().take(MAX_REGIONS).collect(),
        words,
        all_words: taken.words,
        shared,
        buffers: taken.buffers,
        tables: taken.tables,
        guard: taken.guard,
        pool: taken.pool,
        image_tables: taken.image_tables,
        parking: smp::shared(),
        supervised: found.supervised,
        start_page: found.start_page,
        domain: found.domain,
        command_line,
        module,
        steps: heapless::Vec::new(),
        cores_started: AtomicU64::new(0),
    };
    let place = shared.node.start.0 as *mut Node;
    // SAFETY: the frames are the node's, large and aligned enough, and nobody uses them; they
    // stay the node's for ever.
    unsafe {
        place.write(node);
        Ok(&mut *place)
    }
}

/// Takes what the node needs out of the memory map, large pieces first. What is taken next lies
/// below; so all that the boot path writes to, from the first page tables down, lies together,
/// and a host that gives memory in large pages at first touch has to give few.
fn take_all(found: &mut Found<'_>, later: &[Frames]) -> Result<Taken, AssembleError> {
    let for_domains = domain_tables(found);
    let has_images = found.domain.is_none() && found.supervised.is_none();
    let Found { memory, reach, .. } = found;
    let cores = found.cores.len();
    let roles = found.cores.iter().map(|(_, roles)| *roles);
    let ids = || (0..cores as u16).map(CoreId);
    let total = memory.total_usable();
    let ends = memory.usable().map(|region| region.end());
    // A domain's seat is its supervisor's memory, which has more to give.
    let others = found.domain.iter().flat_map(|it| {
        let link = it.link.map(|link| link.end());
        [it.seat.end(), it.given.end()].into_iter().chain(link)
    });
    let memory_end = ends.chain(others).max().unwrap_or_default();
    let most_memory = found.domain.map_or(total, |it| it.most_memory.max(total));
    let take = |memory: &mut MemoryMap, bytes: u64| {
        let large = bytes >= PageSize::Large.bytes();
        let align = if large { PageSize::Large } else { PageSize::Small };
        let bytes = bytes.next_multiple_of(PageSize::Small.bytes());
        let start = memory.take(bytes, align, *reach);
        start.map(|start| Frames { start, bytes }).ok_or(AssembleError::TooLittleMemory)
    };

    let buffers = match found.pool {
        0 => None,
        bytes => Some(take(memory, bytes)?),
    };
    let heaps = ids()
        .map(|core| take(memory, layout::heap_bytes(core, cores, total)))
        .collect::<Result<Vec<_>, _>>()?;

    let frame = PageSize::Small.bytes();
    let texts = found.command_line.len() + found.module.len();
    let shared_bytes = SharedPlaces::bytes(cores, texts).next_multiple_of(frame);
    let plans: Vec<_> = ids().map(|core| space::plan(core, memory_end, buffers)).collect();
    let roots = cores * UserSlot::COUNT;
    let upper = plans.iter().map(|plan| plan.tables()).sum::<usize>() + roots;
    let for_images = if has_images { images::own::TABLES as u64 * frame } else { 0 };
    let before_images = upper as u64 * frame;
    let upper = before_images + for_images;
    let last = TablePool::tables_for(most_memory)
        + cores * space::last_levels(shared_bytes)
        + for_domains
        + (found.devices.network.len() + found.devices.disks.len()) * network::memory::TABLES;
    let last = last as u64 * frame;
    let bytes = upper + last;
    let is_guarded = found.domain.is_some_and(|it| it.is_guarded);
    let places = if is_guarded { guard::Places::bytes(bytes) } else { 0 };
    let taken = take(memory, bytes + places)?;
    let tables = taken.part(0, bytes);
    let guard = is_guarded.then(|| guard::Places { all: taken.part(bytes, places) });

    let small =
        ids().map(|_| take(memory, space::private_bytes())).collect::<Result<Vec<_>, _>>()?;
    let private =
        heaps.into_iter().zip(small).map(|(heap, small)| PrivateFrames { small, heap }).collect();

    let shared = take(memory, shared_bytes)?;
    let shared = SharedPlaces::at(shared.start, cores, texts);
    let for_later: u64 = later.iter().map(|it| record_bytes(it.start, it.bytes)).sum();
    let words = words_bytes(memory) + WORDS_SLACK + for_later;
    let words = take(memory, words)?;
    if let Some(supervised) = &mut found.supervised {
        let parked = supervised.parked.len();
        supervised.seats = take(memory, Supervised::seats_bytes(parked))?;
        supervised.ledger = take(memory, supervised.ledger_bytes())?;
        if let Some(parts) = &mut supervised.parts {
            parts.links = take(memory, DiskParts::links_bytes(parts.count))?;
        }
        for disk in &mut supervised.disks {
            disk.memory = take(memory, disk.controller.shared_bytes())?;
        }
        if let Some(iommu) = &mut supervised.iommu {
            iommu.tables = take(memory, iommu.bytes())?;
        }
    }
    let mut interfaces = heapless::Vec::new();
    for (index, device) in found.devices.network.iter().enumerate() {
        let memory = take(memory, network::memory::BYTES)?;
        // Every node has a network core, and there are no more devices than interfaces.
        let Some(core) = driver(index, Role::Network, roles.clone()) else { break };
        let _ = interfaces.push(InterfaceEntry { core, device: *device, memory });
    }
    let mut disks = heapless::Vec::new();
    for (index, controller) in found.devices.disks.iter().enumerate() {
        let memory = take(memory, controller.shared_bytes())?;
        // As above, for disk cores.
        let Some(core) = driver(index, Role::Disk, roles.clone()) else { break };
        let _ = disks.push(DiskEntry { core, controller: *controller, memory });
    }
    let pool = tables.part(upper, last);
    let image_tables = has_images.then(|| tables.part(before_images, for_images));
    Ok(Taken {
        buffers,
        private,
        shared,
        words,
        plans,
        tables,
        guard,
        pool,
        image_tables,
        interfaces,
        disks,
    })
}

/// Last-level tables that parked cores and domains take besides.
fn domain_tables(found: &Found<'_>) -> usize {
    match (&found.supervised, &found.domain) {
        (None, None) => PARKING_TABLES,
        (supervised, _) => {
            let parked = supervised.as_ref().map_or(1, |it| it.parked.len());
            let seats = Supervised::seats_bytes(parked) / PageSize::Large.bytes();
            let disks = supervised.as_ref().map_or(0, |it| it.disks.len());
            let iommu = supervised.as_ref().and_then(|it| it.iommu.as_ref());
            let iommu = iommu.map_or(0, |it| TablePool::tables_for(it.bytes()) + 1);
            let parts = supervised.as_ref().and_then(|it| it.parts);
            let own = found.domain.and_then(|it| it.link);
            let links = parts.map(|it| DiskParts::links_bytes(it.count)).or(own.map(|it| it.bytes));
            // On the managing core, and on the one that drives the disk.
            let links = links.map_or(0, |bytes| 2 * (TablePool::tables_for(bytes) + 1));
            DOMAIN_TABLES + 2 * seats as usize + disks * network::memory::TABLES + iommu + links
        }
    }
}

/// Builds and fills every core's space.
fn build_spaces(
    found: &Found<'_>,
    taken: &Taken,
) -> Result<heapless::Vec<CoreEntry, MAX_CORES>, AssembleError> {
    let (domains, loops, links): (Vec<Frames>, Vec<Frames>, Vec<Frames>) =
        match (&found.supervised, &found.domain) {
            (Some(supervised), _) => {
                let managed = [smp::shared(), supervised.seats, supervised.ledger];
                let tables = supervised.iommu.as_ref().map(|it| it.tables);
                let links = supervised.parts.map(|it| it.links);
                let managed = managed.into_iter().chain(tables).chain(links);
                let loops = supervised.loops().chain([supervised.ledger]);
                let links = links.into_iter().flat_map(|links| [links, supervised.ledger]);
                (managed.collect(), loops.collect(), links.collect())
            }
            (None, Some(domain)) => {
                let managed = [domain.seat].into_iter().chain(domain.link);
                (
                    managed.collect(),
                    [loop_of(domain.seat)].into(),
                    domain.link.into_iter().collect(),
                )
            }
            (None, None) => ([smp::shared()].into(), Vec::new(), Vec::new()),
        };
    let roles = found.cores.iter().map(|(_, roles)| *roles);
    let last = taken.disks.len().saturating_sub(1);
    let driven = [
        (driver(0, Role::Network, roles.clone()), &loops[..]),
        (driver(last, Role::Disk, roles), &links),
    ];
    let iommus = found.supervised.as_ref().and_then(|it| it.iommu.as_ref());
    let ingredients = Ingredients {
        shared: &taken.shared,
        tables: taken.tables,
        words: taken.words,
        platform: found.platform,
        timers: found.timers,
        cores: found.cores.len(),
        interfaces: &taken.interfaces,
        buffers: taken.buffers,
        disks: &taken.disks,
        iommus: iommus.map_or(&[], |it| &it.units),
        given: found.supervised.as_ref().map_or(&[], |it| &it.disks),
        domains: &domains,
        ledger: found.domain.map(|it| it.ledger),
        guard: taken.guard,
        driven,
    };
    // SAFETY: the frames were taken for tables and are mapped where they are; this value is the
    // only one that stores to them.
    let mut memory = unsafe { TableFrames::new(taken.tables, IDENTITY) };
    let mut pool = TablePool::new();
    pool.grow(taken.pool.as_extent()).expect("the frames for the pool were just taken");

    let mut upper =
        (taken.tables.start.0..).step_by(PageSize::Small.bytes() as usize).map(PhysAddr);
    let mut entries = heapless::Vec::new();
    let cores = (0u16..).map(CoreId).zip(found.cores);
    for (((id, (apic, roles)), plan), private) in cores.zip(&taken.plans).zip(&taken.private) {
        let frames: Vec<_> = upper.by_ref().take(plan.tables()).collect();
        let mut space = AddressSpace::build(&mut memory, id, plan, &frames)
            .expect("as many frames were taken as the plans say");
        let slots = core::array::from_fn(|_| upper.next().expect("addresses have no end"));
        space::add_slots(&space, &mut memory, slots);
        ingredients.map(&mut space, &mut memory, &mut pool, private)?;
        let entry = CoreEntry {
            apic: *apic,
            roles: *roles,
            root: space.root(),
            slots,
            heap_bytes: private.heap.bytes,
            private: private.small,
        };
        // A node has at most as many cores as an entry list has room for.
        let _ = entries.push(entry);
    }
    Ok(entries)
}

/// Lines on the machine, for the report.
fn facts(found: &Found<'_>, taken: &Taken) -> heapless::Vec<Fact, MAX_FACTS> {
    let mut facts = heapless::Vec::new();
    let mut say = |line: fmt::Arguments<'_>| {
        let mut fact = Fact::new();
        // A line that is too long is left out as a whole.
        if core::fmt::write(&mut fact, line).is_ok() {
            let _ = facts.push(fact);
        }
    };
    say(format_args!("{}", found.features));
    say(format_args!("{}", found.clock));
    for (index, InterfaceEntry { core, device, memory }) in taken.interfaces.iter().enumerate() {
        say(format_args!(
            "interface {index}: virtio-net at {}, driven by {core}, {} KiB of buffers",
            device.at,
            memory.bytes >> 10
        ));
    }
    for (index, DiskEntry { core, controller, .. }) in taken.disks.iter().enumerate() {
        let (kind, at) = (controller.kind(), controller.at());
        say(format_args!("disk {index}: {kind} at {at}, driven by {core}"));
    }
    facts
}

/// Bytes of the records of all usable regions, each a multiple of a cache line.
fn words_bytes(memory: &MemoryMap) -> u64 {
    memory.usable().map(|region| record_bytes(region.start, region.bytes)).sum()
}

fn record_bytes(start: PhysAddr, bytes: u64) -> u64 {
    let words = PhysicalMemory::<nile_ring::Region>::words_for(start, bytes);
    (words as u64 * 8).next_multiple_of(nile_ring::LINE_BYTES as u64)
}

/// Writes the records of all usable regions, and of memory that comes later, into `all_words` and
/// says where each is.
fn record_frames(
    memory: &MemoryMap,
    later: &[Frames],
    all_words: Frames,
) -> Result<heapless::Vec<Frames, MAX_REGIONS>, AssembleError> {
    let mut records = heapless::Vec::new();
    let mut physical = PhysicalMemory::new();
    let mut used = 0;
    let usable = memory.regions().iter().filter(|it| it.kind == MemoryKind::Usable);
    let usable = usable.map(|it| (Frames { start: it.start, bytes: it.bytes }, true));
    let room = MAX_REGIONS - later.len();
    for (frames, is_own) in usable.take(room).chain(later.iter().map(|it| (*it, false))) {
        let bytes = record_bytes(frames.start, frames.bytes);
        if used + bytes > all_words.bytes {
            return Err(AssembleError::TooLittleMemory);
        }
        let place = all_words.part(used, bytes);
        used += bytes;
        // SAFETY: taken for this and mapped where they are; reached as atomics only.
        let words = unsafe { region(place, IDENTITY) };
        let added = match is_own {
            true => physical.add_region(frames.start, frames.bytes, words),
            false => physical.add_away(frames.start, frames.bytes, words),
        };
        added.expect("regions are whole frames, do not overlap, and have their words");
        // There are no more of them than regions.
        let _ = records.push(place);
    }
    Ok(records)
}

/// Copies a text to `at` and gives it as the cores will see it, in the shared zone.
///
/// # Safety
/// The bytes there are mapped where they are and nobody's; they stay as they are from now on, and
/// every core has them in its shared zone before it follows the reference.
unsafe fn place(at: PhysAddr, bytes: &[u8]) -> &'static [u8] {
    let seen = layout::shared(at).0 as *const u8;
    // SAFETY: the caller vouches for the place.
    unsafe {
        (at.0 as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        core::slice::from_raw_parts(seen, bytes.len())
    }
}

/// # Safety
/// As [`place`].
unsafe fn place_text(at: PhysAddr, text: &str) -> &'static str {
    // SAFETY: the caller's promise, and the bytes are the text's, although nobody on the boot path
    // can look at them there.
    unsafe { core::str::from_utf8_unchecked(place(at, text.as_bytes())) }
}

/// Fills frames with zeros.
///
/// # Safety
/// They are mapped where they are, and nobody uses them.
unsafe fn clear(frames: Frames) {
    // SAFETY: the caller's promise.
    unsafe { (frames.start.0 as *mut u8).write_bytes(0, frames.bytes as usize) }
}
