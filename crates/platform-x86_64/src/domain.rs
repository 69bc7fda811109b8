//! Domains of a PC: parts of it that are nodes of their own (RainForest 4.2 and 5.3).
//!
//! A supervisor's node keeps some cores and some memory, and parks the others ([`crate::smp`]).
//! A domain is put together as the node itself was: its first core does, in the boot space, by
//! [`crate::assemble`] on the memory that it is given, and then enters its own space like every
//! core. So nothing of a domain is ever mapped in the supervisor's space but its seat. One domain
//! is put together at a time: there is one boot space with one stack and one set of statics.
//!
//! * [`Order`]: what the supervisor wants, in memory that both see.
//! * [`begin`]: the first core of a domain.
//! * [`Supervised`]: what a supervisor's node has to give; the managing core's [`Domains`].
//! * [`parts`]: the parts of its disk.

pub mod parts;

use core::fmt;

use heapless::Vec;
use nile_abi::{CoreId, Generation, MAX_CORES, PageSize, PhysAddr, Role, Status, VirtAddr};
use nile_domain::{Sizes, Way};
use nile_memory::{MemoryKind, MemoryMap, MemoryRegion};
use nile_platform::board::driver;
use nile_platform::domains::{
    FrameLoop, LOOP_BYTES, LOOP_OFFSET, LedgerWords, SEAT_BYTES, Stray, Toll,
};
use nile_platform::{CorePhase, Domains, Entry, Fault, Grant, Seat, SeatPhase, Seated, Wanted};
use nile_ring::{PoolError, PoolMemory, Region};

use crate::acpi::Platform;
use crate::apic::{ApicId, LocalApic, local as local_apic};
use crate::assemble::{self, AssembleError, Found};
use crate::devices::Devices;
use crate::disk::{Controller, DiskEntry, MAX_DISKS, wipe};
use crate::iommu::{self, Iommu};
use crate::machine::{NodeManager, frames_of};
use crate::mmio::Mmio;
use crate::node::{Frames, Node, region};
use crate::power::Power;
use crate::smp::{self, Parking, Start};
use crate::start::{self, IMAGE};
use crate::timer::shared::Shared;
use crate::vector::Vector;
use crate::virtio::DeviceRegisters;
use crate::{bootinfo, devices, entry, gdt, guard, heap, idt, layout, serial, space};

/// Pieces of memory that a domain can consist of at first, and what may be between them.
const MOST_PIECES: usize = 64;
pub(crate) const MOST_GAPS: usize = MOST_PIECES + 1;
/// The name of no core: a place in a domain's node that has no hardware.
pub(crate) const NO_CORE: ApicId = ApicId(u32::MAX);
/// Bytes of what it is told: its command line, its configuration.
const MOST_LINE: usize = 1024;
const MOST_CONFIG: usize = 4096;

/// What a supervisor's node has to give.
#[derive(Clone, Debug)]
pub struct Supervised {
    /// The parked cores: the hardware cores of its ledger.
    pub parked: Vec<ApicId, MAX_CORES>,
    /// The memory for domains.
    pub memory: Frames,
    /// The disks for them: each a device of the ledger.
    pub disks: Vec<DiskEntry, MAX_DISKS>,
    /// Parts of its own last disk, further devices.
    pub parts: Option<parts::DiskParts>,
    /// What keeps them to the memory of their domains, where the machine has one.
    pub iommu: Option<Iommu>,
    /// A seat for each domain that there can be.
    pub seats: Frames,
    /// For the ledger.
    pub ledger: Frames,
    /// Where every core sees its local APIC.
    pub local_apic: PhysAddr,
}

impl Supervised {
    /// Bytes of the seats of as many domains as there are cores to give.
    pub fn seats_bytes(parked: usize) -> u64 {
        (parked.min(MOST_DOMAINS) * SEAT_BYTES) as u64
    }

    /// Bytes of the ledger, whole pages.
    pub fn ledger_bytes(&self) -> u64 {
        let units = (self.memory.bytes / PageSize::Large.bytes()) as u32;
        let (cores, devices) = (self.parked.len() as u16, self.given_disks());
        let words = Sizes { cores, units, devices }.words();
        ((words * size_of::<u64>()) as u64).next_multiple_of(PageSize::Small.bytes())
    }

    /// How many disks there are to give, parts among them.
    fn given_disks(&self) -> u16 {
        self.disks.len() as u16 + self.parts.map_or(0, |it| it.count)
    }

    fn places(&self) -> u8 {
        (self.seats.bytes / SEAT_BYTES as u64) as u8
    }

    fn seat(&self, slot: u8) -> Option<Frames> {
        let index = slot.checked_sub(1).filter(|_| slot <= self.places())?;
        Some(self.seats.part(u64::from(index) * SEAT_BYTES as u64, SEAT_BYTES as u64))
    }

    /// What the core that drives the network has of all seats.
    pub fn loops(&self) -> impl Iterator<Item = Frames> + '_ {
        (1..=self.places()).filter_map(|slot| self.seat(slot)).map(loop_of)
    }
}

/// The loop in a seat.
pub fn loop_of(seat: Frames) -> Frames {
    seat.part(LOOP_OFFSET as u64, LOOP_BYTES as u64)
}

/// The most domains of a machine, as the ledger has places for them.
const MOST_DOMAINS: usize = 62;

/// What a domain's node keeps of how it was made.
#[derive(Clone, Copy, Debug)]
pub struct DomainEntry {
    /// Its place.
    pub slot: u8,
    /// Its generation among those of the place.
    pub generation: Generation,
    /// Its seat.
    pub seat: Frames,
    /// All memory that its supervisor has to give: what it has not, it may get later.
    pub given: Frames,
    /// Bytes that it may have at most.
    pub most_memory: u64,
    /// The supervisor's ledger.
    pub ledger: Frames,
    /// Whether a guard keeps it to what it has.
    pub is_guarded: bool,
    /// The link of a part of its supervisor's disk, if it has one.
    pub link: Option<Frames>,
}

impl DomainEntry {
    /// What of that memory is not among these regions, in rising order: whole 2 MiB.
    pub fn others(&self, own: &[MemoryRegion]) -> Vec<Frames, MOST_GAPS> {
        let mut others = Vec::new();
        let mut at = self.given.start;
        let end = MemoryRegion::new(self.given.end(), 0, MemoryKind::Reserved);
        let inside = |it: &&MemoryRegion| self.given.start <= it.start && it.start < end.start;
        for region in own.iter().filter(inside).chain([&end]) {
            if at < region.start {
                // Between so many pieces there are no more gaps.
                let _ = others.push(Frames { start: at, bytes: region.start.0 - at.0 });
            }
            at = region.end();
        }
        others
    }
}

/// What the supervisor wants, as the first core of the domain finds it.
#[derive(Debug)]
#[repr(C)]
pub struct Order {
    domain: DomainEntry,
    /// The supervisor's node.
    node: PhysAddr,
    cores: Vec<ApicId, MAX_CORES>,
    /// Their numbers among those that there are to give.
    numbers: Vec<u16, MAX_CORES>,
    /// How many cores the node can have.
    most: usize,
    memory: Vec<Frames, MOST_PIECES>,
    /// A disk, by its number among those that there are to give.
    disk: Option<u16>,
    line: Vec<u8, MOST_LINE>,
    config: Vec<u8, MOST_CONFIG>,
}

const _: () = assert!(size_of::<Order>() <= 8192 - 64);

/// Why a domain is not put together.
enum NotBuilt {
    Config(alloc::string::String),
    Assemble(AssembleError),
}

impl fmt::Display for NotBuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBuilt::Config(message) => f.write_str(message),
            NotBuilt::Assemble(AssembleError::TooLittleMemory) => {
                f.write_str("too little memory for so many cores; give it more, or a smaller pool")
            }
            NotBuilt::Assemble(error) => write!(f, "its spaces cannot be built ({error:?})"),
        }
    }
}

/// The first core of a domain begins, in the boot space.
///
/// # Safety
/// Called by `enter_space` alone (space.s), over the boot tables and on the boot stack, with the
/// address of an order, whose cores are parked and whose memory nobody uses.
pub unsafe extern "C" fn begin(_: u64, order: &'static Order) -> ! {
    // SAFETY: the boot path's own stacks and heap, which nobody uses now; its statics are fresh.
    unsafe {
        gdt::install(&entry::interrupt_stack_tops());
        idt::install();
        heap::claim(entry::early_heap_start(), entry::EARLY_HEAP_BYTES);
    }
    // SAFETY: the seat is mapped where it is, and reached as atomics.
    let seat = Seat::new(unsafe { region(order.domain.seat, VirtAddr(0)) });
    let seat = seat.expect("a seat has its size");
    // SAFETY: the caller's promise.
    match unsafe { build(order) } {
        Ok(node) => {
            seat.set_phase(SeatPhase::Started);
            start::enter_first_core(node)
        }
        Err(why) => {
            seat.say(format_args!("{why}"));
            seat.set_phase(SeatPhase::NotBuilt);
            // SAFETY: nothing of this was begun.
            unsafe { space::leave() }
        }
    }
}

/// Puts a domain together, and sends its other cores on their way.
///
/// # Safety
/// As for [`begin`].
unsafe fn build(order: &'static Order) -> Result<&'static Node, NotBuilt> {
    // SAFETY: the supervisor's node stays for ever, and is mapped where it is. Its texts are not.
    let supervisor = unsafe { &*(order.node.0 as *const Node) };
    let Some(supervised) = &supervisor.supervised else {
        return Err(NotBuilt::Config("nobody supervises this machine".into()));
    };
    let usable =
        |frames: &Frames| MemoryRegion::new(frames.start, frames.bytes, MemoryKind::Usable);
    let claims: Vec<MemoryRegion, MOST_PIECES> = order.memory.iter().map(usable).collect();
    let memory = MemoryMap::from_claims(&claims);
    let text = |bytes: &'static [u8]| str::from_utf8(bytes).unwrap_or_default();
    let (line, config): (_, &'static [u8]) = (text(&order.line), &order.config);
    let most = order.most.max(order.cores.len());
    let plan = (IMAGE.plan)(config, bootinfo::program(line), most, memory.total_usable());
    let plan = plan.map_err(NotBuilt::Config)?;
    let names = order.cores.iter().copied().chain(core::iter::repeat(NO_CORE));
    let cores: alloc::vec::Vec<_> = names.zip(plan.roles).collect();
    let mut platform = Platform::alone(order.cores[0]);
    platform.local_apic = supervised.local_apic;
    let disk = order.disk.and_then(|it| supervised.disks.get(usize::from(it)));
    let disks = disk.map(|it| it.controller).into_iter().collect();
    let devices = Devices { disks, ..Devices::default() };
    let found = Found {
        memory,
        reach: start::identity_reach(&supervisor.features),
        platform: &platform,
        cores: &cores,
        pool: plan.pool,
        command_line: line,
        module: config,
        machine: supervisor.machine,
        features: supervisor.features,
        clock: supervisor.clock,
        timers: Shared::default(),
        power: Power { domain: Some(layout::shared(order.domain.seat.start)), ..Power::NONE },
        started: supervisor.started,
        devices: &devices,
        supervised: None,
        start_page: PhysAddr(0),
        domain: Some(DomainEntry { is_guarded: plan.is_guarded, ..order.domain }),
    };
    // SAFETY: the caller's promise: this is the boot space, and the memory is nobody's.
    let node: &Node = unsafe { assemble::assemble(found) }.map_err(NotBuilt::Assemble)?;
    // SAFETY: as above; nothing of the domain runs yet.
    unsafe { guard::describe(node, supervisor) }
    let registers = supervised.local_apic;
    // SAFETY: the boot space has device registers where they are.
    let registers = unsafe { Mmio::new(VirtAddr(registers.0), local_apic::REGISTER_BYTES) };
    let apic = LocalApic::new(&node.features, registers);
    // SAFETY: the boot space has it where it is.
    let parking = unsafe { Parking::at(VirtAddr(smp::shared().start.0)) };
    let starts = start::prepare_others(node);
    set_places(order, node);
    for start in starts.iter().filter(|it| it.apic != NO_CORE) {
        // SAFETY: the space was built for this core, which is parked.
        unsafe { parking.begin(start, &apic) }
    }
    Ok(node)
}

/// Says on which hardware each core of a new domain runs, and which are away.
fn set_places(order: &Order, node: &Node) {
    // SAFETY: this is the boot space, which has the board where it is, and the domain's seat.
    let board = unsafe { node.shared.board(VirtAddr(0), node.cores.len()) };
    // SAFETY: as above.
    let seat = Seat::new(unsafe { region(order.domain.seat, VirtAddr(0)) });
    for (id, core) in board.core_ids().zip(&node.cores) {
        if core.apic == NO_CORE {
            board.record(id).set_phase(CorePhase::Away);
            board.record(CoreId::BOOT).set_away(id, true);
            continue;
        }
        board.record(id).set_hardware_id(core.apic.0.into());
        let number = order.numbers.get(id.index()).copied();
        seat.iter().for_each(|seat| seat.set_hardware(id.0, number));
    }
}

/// Asks the supervisor to let the hardware in that the domain has for this core, which is away.
pub fn ask_in(node: &Node, core: CoreId) {
    let Some(Seated { seat, .. }) = seated(node) else { return };
    let Some(hardware) = seat.hardware(core.0) else { return };
    seat.ask_in(&Entry {
        hardware,
        core: core.0,
        root: node.core(core).root,
        stack_top: layout::stack(core).end,
        node: layout::shared(node.shared.node.start),
    });
}

/// Says of a domain's core, whose hardware was taken, that it is away, and gives the pool what it
/// had of it. `NotFound` if that cannot be.
pub fn lose(node: &Node, core: CoreId) -> Result<(), Status> {
    if node.domain.is_none() || core == CoreId::BOOT || core.index() >= node.cores.len() {
        return Err(Status::NotFound);
    }
    let board = node.board();
    let record = board.record(core);
    record.set_fault(Fault { kind: Fault::KILLED, code: 0, at: 0, address: 0 });
    // SAFETY: its hardware is parked, and enters no space of this node until it is called back.
    let given = unsafe { give_back_buffers(node, core) };
    record.set_phase(CorePhase::Away);
    given.map_err(|_| Status::Failed)
}

/// Gives the pool what a core has of it.
///
/// # Safety
/// Nothing of the core's incarnation runs any more.
pub unsafe fn give_back_buffers(node: &Node, core: CoreId) -> Result<(), PoolError> {
    let Some(buffers) = node.buffers else { return Ok(()) };
    // SAFETY: every core has the pool in its space for ever; the caller's promise.
    unsafe { PoolMemory::new(region(buffers, layout::SHARED_BASE), core).give_back() }
}

/// The core that drives the node's first interface: a domain's loop, or a supervisor's network.
pub fn drives_loops(node: &Node) -> Option<CoreId> {
    driver(0, Role::Network, node.cores.iter().map(|it| it.roles))
}

/// The loop of a domain, on the core that drives it.
pub fn own_loop(node: &Node) -> Option<FrameLoop> {
    // SAFETY: that core has the loop in its space for ever; it is reached as atomics.
    FrameLoop::new(unsafe { region(loop_of(node.domain?.seat), layout::SHARED_BASE) })
}

/// The loops of all domains, by place and each with its toll, on the supervisor's core that drives
/// them.
pub fn loops(supervised: &Supervised) -> impl Iterator<Item = (FrameLoop, Toll)> + '_ {
    // SAFETY: as in `own_loop`; that core has the ledger, too.
    let seen = |frames| unsafe { region(frames, layout::SHARED_BASE) };
    let ledger = LedgerWords(seen(supervised.ledger));
    let tolls = (1..).map_while(move |slot| ledger.toll(Way::Network, slot));
    supervised.loops().filter_map(move |it| FrameLoop::new(seen(it))).zip(tolls)
}

/// What a domain's managing core shares with its supervisor.
pub fn seated(node: &Node) -> Option<Seated> {
    let DomainEntry { slot, generation, seat, given, .. } = node.domain?;
    // SAFETY: a domain's managing core has its seat in its space for ever.
    let seat = Seat::new(unsafe { region(seat, layout::SHARED_BASE) })?;
    let memory = Grant { start: given.start, bytes: given.bytes };
    Some(Seated { slot, seat, generation, memory })
}

impl NodeManager {
    fn supervised(&self) -> Option<&'static Supervised> {
        self.node().supervised.as_ref()
    }

    /// The machine's IOMMU, if it has one that is used.
    fn iommu(&self) -> Option<iommu::Seen<'static>> {
        let iommu = self.supervised()?.iommu.as_ref()?;
        // SAFETY: this is a supervisor's managing core, and nobody else has it.
        Some(unsafe { iommu.managed() })
    }

    /// A disk that there is to give.
    fn given_disk(&self, disk: u16) -> Option<(&'static DiskEntry, DeviceRegisters)> {
        let disk = usize::from(disk);
        let entry = self.supervised()?.disks.get(disk)?;
        let Controller::Virtio(device) = &entry.controller else { return None };
        let number = devices::number_of_disk(self.node().disks.len() + disk);
        // SAFETY: a supervisor's managing core has these disks in its space for ever. A domain that
        // has one has its registers, too: none is reset before that has ended.
        Some((entry, unsafe { DeviceRegisters::mapped(number, device) }))
    }
}

impl Domains for NodeManager {
    fn cores(&self) -> u16 {
        self.supervised().map_or(0, |it| it.parked.len() as u16)
    }

    fn memory(&self) -> Grant {
        let memory = self.supervised().map(|it| it.memory);
        let (start, bytes) = memory.map_or((0, 0), |it| (it.start.0, it.bytes));
        Grant { start: PhysAddr(start), bytes }
    }

    fn most(&self) -> u8 {
        self.supervised().map_or(0, Supervised::places)
    }

    fn seat(&self, slot: u8) -> Option<Seat> {
        let frames = self.supervised()?.seat(slot)?;
        // SAFETY: a supervisor's managing core has all seats in its space for ever.
        Seat::new(unsafe { region(frames, layout::SHARED_BASE) })
    }

    fn build(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        let supervised = self.supervised().ok_or(Status::NotFound)?;
        let (parking, apic) = self.parking().ok_or(Status::NotFound)?;
        let seat = supervised.seat(wanted.slot).ok_or(Status::Invalid)?;
        let cores = wanted.cores.iter().map(|core| supervised.parked.get(usize::from(*core)));
        let cores: Vec<ApicId, MAX_CORES> =
            cores.map(|it| it.copied().ok_or(Status::Invalid)).collect::<Result<_, _>>()?;
        let memory: Vec<Frames, MOST_PIECES> = (wanted.memory.len() <= MOST_PIECES)
            .then(|| wanted.memory.iter().map(|it| frames_of(*it)).collect())
            .ok_or(Status::Invalid)?;
        let inside = |it: &Frames| {
            let whole = |at: PhysAddr| at.is_aligned(PageSize::Large);
            let is_given =
                supervised.memory.start <= it.start && it.end() <= supervised.memory.end();
            it.bytes > 0 && whole(it.start) && whole(it.end()) && is_given
        };
        let first = *cores.first().ok_or(Status::Invalid)?;
        let is_there = |disk| match self.part_of(disk) {
            Some(part) => part.is_there(),
            None => self.given_disk(disk).is_some_and(|(_, it)| wipe::is_able(&it)),
        };
        if memory.is_empty() || !memory.iter().all(inside) || !wanted.disk.is_none_or(is_there) {
            return Err(Status::Invalid);
        }
        let is_building =
            |slot| Domains::seat(self, slot).is_some_and(|it| it.phase() == SeatPhase::Building);
        if !cores.iter().all(|core| parking.is_parked(*core))
            || (1..=supervised.places()).any(is_building)
        {
            return Err(Status::Busy);
        }
        let line = alloc::format!("program={}", wanted.program);
        let order = Order {
            domain: DomainEntry {
                slot: wanted.slot,
                generation: wanted.generation,
                seat,
                given: supervised.memory,
                most_memory: wanted.most_memory,
                ledger: supervised.ledger,
                is_guarded: true,
                link: wanted.disk.and_then(|disk| supervised.link_of(disk)),
            },
            node: self.node().shared.node.start,
            cores,
            numbers: Vec::from_slice(wanted.cores).map_err(|_| Status::Invalid)?,
            most: wanted.most.into(),
            memory,
            disk: wanted.disk,
            line: Vec::from_slice(line.as_bytes()).map_err(|_| Status::Invalid)?,
            config: Vec::from_slice(wanted.config.as_bytes()).map_err(|_| Status::Invalid)?,
        };
        let shared = Domains::seat(self, wanted.slot).ok_or(Status::Invalid)?;
        shared.clear();
        shared.set_phase(SeatPhase::Building);
        let (root, stack_top) = smp::boot_space();
        // The boot space has the order where it is.
        let low = VirtAddr(parking.order() as u64 - layout::SHARED_BASE.0);
        let mut start = Start::new(first, 0, low, root, stack_top);
        start.entry = space::beginning_of_domain();
        let is_device = |disk: &u16| self.given_disk(*disk).is_some();
        if let Some(disk) = wanted.disk.filter(is_device).filter(|_| wanted.confines_disk)
            && let Some(iommu) = self.iommu()
        {
            iommu.give(disk, &order.memory);
        }
        // SAFETY: no domain is being put together, so nobody reads the order; the core is parked,
        // and the boot space is nobody's.
        unsafe {
            parking.order().write(order);
            parking.begin(&start, &apic);
        }
        Ok(())
    }

    fn admit(&self, entry: &Entry) -> Result<(), Status> {
        let supervised = self.supervised().ok_or(Status::Invalid)?;
        let (parking, apic) = self.parking().ok_or(Status::NotFound)?;
        let core = supervised.parked.get(usize::from(entry.hardware)).ok_or(Status::Invalid)?;
        let given = supervised.memory.start..supervised.memory.end();
        if !given.contains(&entry.root) {
            return Err(Status::Invalid);
        }
        if !parking.is_parked(*core) {
            return Err(Status::Busy);
        }
        let Entry { core: number, root, stack_top, node, .. } = *entry;
        let start = Start::new(*core, number.into(), node, root, stack_top);
        // SAFETY: the core is parked; what it enters is the domain's own, as far as this can be
        // known: a domain says itself where its spaces are.
        unsafe { parking.begin(&start, &apic) }
        Ok(())
    }

    fn interrupt(&self, core: u16) {
        let named = self.supervised().and_then(|it| it.parked.get(usize::from(core)));
        if let (Some(name), Some((_, apic))) = (named, self.parking()) {
            apic.send_fixed(*name, Vector::LOOP);
        }
    }

    fn is_parked(&self, core: u16) -> bool {
        let apic = self.supervised().and_then(|it| it.parked.get(usize::from(core)));
        let parking = self.parking();
        apic.zip(parking).is_some_and(|(core, (parking, _))| parking.is_parked(*core))
    }

    fn park(&self, cores: &[u16]) {
        let (Some(supervised), Some((parking, apic))) = (self.supervised(), self.parking()) else {
            return;
        };
        let named = |core: &u16| supervised.parked.get(usize::from(*core)).copied();
        let cores: Vec<ApicId, MAX_CORES> = cores.iter().filter_map(named).collect();
        // SAFETY: these are no cores of this node; the supervisor has decided that nobody needs
        // what they do.
        unsafe { parking.park(&cores, self.node().start_page, &apic, &self.node().clock) }
    }

    fn scrub(&self, memory: Grant) {
        if let Some(iommu) = self.iommu() {
            iommu.hide(frames_of(memory));
        }
        nile_platform::Manager::zero(self, memory);
    }

    fn disks(&self) -> u16 {
        self.supervised().map_or(0, Supervised::given_disks)
    }

    fn is_part(&self, disk: u16) -> bool {
        self.part_of(disk).is_some()
    }

    /// No device reaches the memory of a domain that has a part.
    fn confines(&self, disk: u16) -> bool {
        self.is_part(disk) || self.iommu().is_some_and(|it| it.confines(disk))
    }

    fn extend(&self, disk: u16, memory: Grant) {
        if let Some(iommu) = self.iommu()
            && iommu.is_given(disk)
        {
            iommu.extend(disk, frames_of(memory));
        }
    }

    fn stray(&self) -> Option<Stray> {
        self.iommu()?.stray()
    }

    fn renew(&self, disk: u16) -> bool {
        if let Some(part) = self.part_of(disk) {
            return self.renew_part(disk, &part);
        }
        let Some((entry, mut registers)) = self.given_disk(disk) else { return true };
        if let Some(iommu) = self.iommu()
            && iommu.is_given(disk)
        {
            // What does not stop goes on seeing its window; why it is not as new is said below.
            if registers.reset() {
                iommu.take(disk);
            }
        }
        // SAFETY: the managing core has both in its space for ever; the disk is no domain's.
        let renewed = unsafe { self.renewals().go_on(disk, entry.memory, registers) };
        renewed.unwrap_or_else(|why| {
            serial::log(format_args!("disk {disk} for domains is not as new: {why}"));
            false
        })
    }

    fn ledger(&self) -> Region {
        match self.supervised() {
            // SAFETY: a supervisor's managing core has it in its space for ever.
            Some(supervised) => unsafe { region(supervised.ledger, layout::SHARED_BASE) },
            None => Region::owned(0),
        }
    }
}
