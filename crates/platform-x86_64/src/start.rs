//! The boot order: [`boot`] on the boot path, then [`core_start`] on every core.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering;

use nile_abi::{CoreId, Generation, Instant, MAX_CORES, PageSize, PhysAddr, RoleSet, VirtAddr};
use nile_memory::{MemoryKind, MemoryMap, MemoryRegion};
use nile_platform::{Board, CorePhase, Outcome};

use crate::acpi::Platform;
use crate::apic::{ApicId, IoApic, Line, LocalApic, io, local as local_apic, pic};
use crate::assemble::{self, AssembleError, Found};
use crate::bootinfo::{self, BootInfoError};
use crate::clock::{CalibrateError, Clock, Hpet, calibrate};
use crate::cpu::{self, Features};
use crate::devices;
use crate::domain::Supervised;
use crate::domain::parts::DiskParts;
use crate::images::choice::Placed;
use crate::iommu::{self, Iommu};
use crate::layout::{self, image};
use crate::ledger::Ledger;
use crate::local::{self, Local};
use crate::machine::Core;
use crate::mmio::Mmio;
use crate::node::{BootStep, Frames, MAX_STEPS, Node};
use crate::pci::{ConfigurationSpace, Registers};
use crate::power::{self, Ending, Power};
use crate::timer::shared::Shared;
use crate::vector::Vector;
use crate::{
    calendar, entry, gdt, heap, idt, images, privileged, restart, serial, smp, space, user,
};

/// What a node's parts are for.
pub struct Plan {
    /// Each core's roles, by id.
    pub roles: Vec<RoleSet>,
    /// Bytes of memory that all cores share for buffers, whole 2 MiB.
    pub pool: u64,
    /// If the node supervises its machine: the other cores, which get no roles, and what there is
    /// besides is for domains.
    pub keeps: Option<Keeps>,
    /// If the node is a domain: whether a guard keeps it to what it has.
    pub is_guarded: bool,
}

/// What a supervisor keeps of its machine, besides the cores that have roles.
pub struct Keeps {
    /// Bytes of memory.
    pub memory: u64,
    /// Disks; all if nothing is said.
    pub disks: Option<usize>,
    /// How many parts of its last disk are for domains, and bytes of each.
    pub parts: Option<(u16, u64)>,
}

/// What an image binds to this platform, as the static `NILE_IMAGE`.
pub struct Image {
    /// What the configuration in a boot module makes of so many cores and so many bytes of usable
    /// memory, or what is wrong with the module or with the program that is asked for. Called on
    /// the boot path.
    pub plan: fn(&'static [u8], program: &str, cores: usize, memory: u64) -> Result<Plan, String>,
    /// One core's whole life: its machine, the boot module, the program.
    pub run: fn(core: Core, module: &'static [u8], program: &str) -> Outcome,
}

unsafe extern "Rust" {
    #[link_name = "NILE_IMAGE"]
    pub(crate) safe static IMAGE: Image;
}

/// Memory below this is left to firmware, and to the start of application cores.
const LOW_MEMORY: PhysAddr = PhysAddr(1 << 20);

/// Why the node does not start.
enum StartError {
    BootInfo(BootInfoError),
    NoStartPage,
    Clock(CalibrateError),
    Config(String),
    TooLittleMemory { usable: u64, cores: usize },
    NothingToGive,
    Assemble(AssembleError),
}

/// The first Rust function: boot order, one line a step. `eax` and `info` are what the loader
/// left, `first_tsc` is the time-stamp of the first instruction.
///
/// # Safety
/// Called once, by the entry in assembly, on the boot stack over the boot tables.
pub unsafe extern "C" fn boot(eax: u32, info: u32, first_tsc: u64) -> ! {
    // Faults from here on are told; they end the node.
    // SAFETY: the boot path's own stacks, which nothing else uses; interrupts are masked.
    unsafe {
        gdt::install(&entry::interrupt_stack_tops());
        idt::install();
    }
    serial::init();
    // SAFETY: nothing else uses this part of the image.
    unsafe { heap::claim(entry::early_heap_start(), entry::EARLY_HEAP_BYTES) };
    match prepare(eax, PhysAddr(u64::from(info)), first_tsc) {
        Ok(node) => enter_first_core(node),
        Err(error) => {
            serial::log(format_args!("the node does not start: {error}"));
            power::off(error.ending())
        }
    }
}

/// Everything up to the moment when the other cores are on their way.
fn prepare(eax: u32, info: PhysAddr, first_tsc: u64) -> Result<&'static Node, StartError> {
    let mut steps = heapless::Vec::<_, MAX_STEPS>::new();
    let mut step_done = |step| {
        // There are fewer steps than the list has room for.
        let _ = steps.push((step, privileged::read_tsc()));
    };
    step_done(BootStep::Entry);

    // What the loader says, first of all how to end; then which memory nobody has claimed.
    let features = Features::detect();
    let reach = identity_reach(&features);
    let read = |at, bytes| read_physical(at, bytes, reach);
    let info = bootinfo::read(eax, info, &read).map_err(StartError::BootInfo)?;
    let debug_exit = bootinfo::option(info.command_line, "exit") == Some("debug");
    power::install(Power { debug_exit, ..Power::NONE });
    let (mut memory, start_page) = memory_map(&info.claims)?;
    step_done(BootStep::MemoryMap);

    // Cores and controllers. Without tables it is a machine of one core.
    let platform =
        Platform::find(info.rsdp, &read).unwrap_or_else(|_| Platform::alone(cpu::apic_id()));
    let power = Power { debug_exit, soft_off: platform.soft_off, domain: None };
    power::install(power);
    step_done(BootStep::Acpi);

    // Every source of interrupts is silenced before any core lets one in. The timers are measured
    // together, before anything needs to wait.
    // SAFETY: the boot path sees device registers where they are.
    let apic = LocalApic::new(&features, unsafe {
        registers(platform.local_apic, local_apic::REGISTER_BYTES)
    });
    apic.enable();
    pic::silence();
    for io_apic in &platform.io_apics {
        // SAFETY: as above.
        IoApic::new(unsafe { registers(io_apic.base, io::REGISTER_BYTES) }).mask_all();
    }
    // SAFETY: as above.
    let hpet = platform.hpet.map(|base| unsafe { registers(base, Hpet::REGISTER_BYTES) });
    let timer = (!features.tsc_deadline).then_some(&apic);
    let measured =
        calibrate::measure_by_best(hpet, platform.pm_timer, timer).map_err(StartError::Clock)?;
    let clock = Clock::new(first_tsc, measured);
    step_done(BootStep::Clock);

    // Which core does what: the image knows what the configuration means.
    let module = info.module.unwrap_or_default();
    let ids = core_order(&platform, &apic);
    let (program, usable) = (bootinfo::program(info.command_line), memory.total_usable());
    let plan = (IMAGE.plan)(module, program, ids.len(), usable).map_err(StartError::Config)?;
    let parked = ids.iter().copied().skip(plan.roles.len()).collect();
    let none = Frames { start: PhysAddr(0), bytes: 0 };
    let mut supervised = match &plan.keeps {
        Some(keeps) => Some(Supervised {
            parked,
            memory: give(&mut memory, keeps.memory, reach).ok_or(StartError::NothingToGive)?,
            disks: heapless::Vec::new(),
            parts: keeps.parts.map(|(count, bytes)| DiskParts { count, bytes, links: none }),
            iommu: None,
            seats: none,
            ledger: none,
            local_apic: platform.local_apic,
        }),
        None => None,
    };
    let cores: Vec<_> = ids.into_iter().zip(plan.roles).collect();
    let route = |line: u32, core, trigger, polarity| {
        let behind = platform.io_apics.iter().filter(|it| it.first_line <= line);
        let Some(at) = behind.max_by_key(|it| it.first_line) else { return false };
        // SAFETY: as above.
        let io_apic = IoApic::new(unsafe { registers(at.base, io::REGISTER_BYTES) });
        let line = Line(line - at.first_line);
        io_apic.route(line, Vector::TIMER, core, trigger, polarity).is_ok()
    };
    let counting = hpet.filter(|_| clock.is_by_hpet());
    let names = cores.iter().map(|(apic, _)| *apic);
    let timers = Shared::find(&platform, counting, names, &route);
    step_done(BootStep::Configuration);

    // What hangs on the buses, and what day it is.
    let look = |found: Registers| {
        let end = found.start.checked_add(found.bytes)?;
        // SAFETY: this is the boot path, which sees registers where they are.
        (end <= reach).then(|| unsafe { registers(found.start, found.bytes as usize) })
    };
    // SAFETY: this is the boot path, which sees configuration space where it is.
    let space = unsafe { ConfigurationSpace::find(platform.ecam, reach) };
    let mut devices = devices::find(space, &cores, &look);
    if let Some(supervised) = &mut supervised
        && let Some(keeps) = plan.keeps.and_then(|it| it.disks)
    {
        supervised.disks = devices.give(keeps);
        if !platform.iommus.is_empty() && !supervised.disks.is_empty() {
            let (disks, memory) = (&supervised.disks, supervised.memory);
            let found = Iommu::find(&platform.iommus, disks, memory, &look);
            supervised.iommu = found.inspect_err(tell_unused).ok();
        }
    }
    let today = calendar::read();
    let started = today.map(|today| today.saturating_sub(clock.now().since(Instant::START)));
    step_done(BootStep::Devices);

    // Every table of every core is built before any of them starts.
    let found = Found {
        memory,
        reach,
        platform: &platform,
        cores: &cores,
        pool: plan.pool,
        command_line: info.command_line,
        module,
        machine: cpu::Kind::detect(),
        features,
        clock,
        timers,
        power,
        started,
        devices: &devices,
        supervised,
        start_page,
        domain: None,
    };
    // SAFETY: this is the boot path, and `memory_map` leaves out all that is in use.
    let node = unsafe { assemble::assemble(found) }.map_err(|error| match error {
        AssembleError::TooLittleMemory => {
            StartError::TooLittleMemory { usable, cores: cores.len() }
        }
        other => StartError::Assemble(other),
    })?;
    step_done(BootStep::Tables);
    node.steps = steps;
    if let Some(supervised) = &mut node.supervised {
        begin_iommu(supervised);
    }

    // The others enter their own spaces and begin; so does this one, without waiting for them.
    let node = &*node;
    let mut starts = prepare_others(node);
    let parked = node.supervised.iter().flat_map(|it| &it.parked);
    let parked = parked.chain([&node.core(CoreId::BOOT).apic]);
    starts.extend(parked.map(|apic| smp::Start::parked(*apic)));
    // SAFETY: this is the boot path, and the spaces of these cores are built.
    unsafe { smp::start(&starts, start_page, platform.local_apic, &apic, &node.clock) }
    node.cores_started.store(privileged::read_tsc(), Ordering::Release);
    Ok(node)
}

/// How far the boot tables map memory where it is; see `entry.s`.
pub(crate) fn identity_reach(features: &Features) -> PhysAddr {
    PhysAddr(if features.huge_pages { 512 << 30 } else { 4 << 30 })
}

fn read_physical(at: PhysAddr, bytes: usize, reach: PhysAddr) -> Option<&'static [u8]> {
    let end = at.checked_add(bytes as u64)?;
    let readable = at.0 != 0 && end <= reach;
    // SAFETY: the boot tables map it where it is, and what firmware and loader left there does
    // not change while it is read.
    readable.then(|| unsafe { core::slice::from_raw_parts(at.0 as *const u8, bytes) })
}

/// # Safety
/// A device's registers, or nothing, are at `base`, which the boot path sees where it is.
unsafe fn registers(base: PhysAddr, bytes: usize) -> Mmio {
    // SAFETY: the caller's promise; the memory type registers of the processor make it uncached.
    unsafe { Mmio::new(VirtAddr(base.0), bytes) }
}

/// The memory that nobody has claimed, and a page below 1 MiB where application cores begin.
fn memory_map(claims: &[MemoryRegion]) -> Result<(MemoryMap, PhysAddr), StartError> {
    let claim = |from: PhysAddr, to: PhysAddr, kind| MemoryRegion::new(from, to.0 - from.0, kind);
    let image = image::loaded();
    let mut claims = claims.to_vec();
    claims.push(claim(image.start, image.end, MemoryKind::Kernel));
    // Further than this no address of the shared zone reaches.
    let end = PhysAddr(layout::PHYSICAL_REACH);
    if claims.iter().any(|claim| claim.kind == MemoryKind::Usable && claim.end() > end) {
        claims.push(claim(end, PhysAddr(u64::MAX), MemoryKind::Reserved));
    }
    let page = MemoryMap::from_claims(&claims)
        .take(1, nile_abi::PageSize::Small, LOW_MEMORY)
        .filter(|page| page.0 != 0)
        .ok_or(StartError::NoStartPage)?;
    claims.push(claim(PhysAddr(0), LOW_MEMORY, MemoryKind::Reserved));
    Ok((MemoryMap::from_claims(&claims), page))
}

/// The cores by id: the boot core, then the others that its interrupt controller can reach.
fn core_order(platform: &Platform, apic: &LocalApic) -> Vec<ApicId> {
    let boot = apic.id();
    let others = platform.cores.iter().copied().filter(|id| *id != boot && apic.reaches(*id));
    core::iter::once(boot).chain(others).take(MAX_CORES).collect()
}

/// Takes the memory that domains get: what there is beyond `keeps` bytes, in one piece of whole
/// 2 MiB.
fn give(memory: &mut MemoryMap, keeps: u64, reach: PhysAddr) -> Option<Frames> {
    let whole = |bytes: u64| bytes & !(PageSize::Large.bytes() - 1);
    // A region has less than 2 MiB at each end that no large page has.
    let largest = memory.usable().map(|region| region.bytes).max()?;
    let most = largest.saturating_sub(2 * PageSize::Large.bytes());
    let bytes = whole(memory.total_usable().saturating_sub(keeps).min(most));
    let start = (bytes > 0).then(|| memory.take(bytes, PageSize::Large, reach))??;
    Some(Frames { start, bytes })
}

/// Has a supervisor's IOMMU begin, or goes on without it.
fn begin_iommu(supervised: &mut Supervised) {
    let Some(iommu) = &supervised.iommu else { return };
    // SAFETY: this is the boot path, and the tables were taken for this.
    let seen = unsafe { iommu.at_boot() };
    if let Err(why) = seen.begin() {
        seen.end();
        tell_unused(&why);
        supervised.iommu = None;
    }
}

fn tell_unused(why: &iommu::NotUsed) {
    serial::log(format_args!("the IOMMU is not used: {why}"));
}

/// Makes the board ready, and says how all cores but the first begin.
pub(crate) fn prepare_others(node: &Node) -> Vec<smp::Start> {
    // Cores address each other's incarnation from their first moment on, in whichever order they
    // begin.
    // SAFETY: the boot path sees memory where it is, and the regions live for ever.
    let board = unsafe { node.shared.board(VirtAddr(0), node.cores.len()) };
    board.core_ids().for_each(|core| board.record(core).set_generation(Generation::FIRST));
    let roles: Vec<_> = node.cores.iter().map(|core| core.roles).collect();
    board.deal(&roles, node.interfaces.len(), node.disks.len());

    board.core_ids().skip(1).map(|core| beginning(node, core, None)).collect()
}

/// How a core begins in its own space, with an image or with the machine's own.
pub(crate) fn beginning(node: &Node, core: CoreId, image: Option<&Placed>) -> smp::Start {
    let apic = node.core(core).apic;
    let (seen, stack_top) = (layout::shared(node.shared.node.start), layout::stack(core).end);
    let root = images::roots(node, core, image).root;
    let mut start = smp::Start::new(apic, u32::from(core.0), seen, root, stack_top);
    if let Some(image) = image {
        start.entry = image.head.begin.0;
    }
    start
}

/// The boot path ends: this core becomes core 0.
pub(crate) fn enter_first_core(node: &Node) -> ! {
    // SAFETY: the space was built for this core; nothing of the boot path is needed any more.
    unsafe { space::enter(&beginning(node, CoreId::BOOT, None)) }
}

/// An incarnation of a core begins: in its own space, on an empty stack, with fresh statics.
///
/// # Safety
/// Called by [`space::enter`] alone, as `core`.
pub unsafe extern "C" fn core_start(core: u64, node: &'static Node) -> ! {
    let core = CoreId(core as u16);
    let entry = node.core(core);
    // SAFETY: the stacks are this core's own, and interrupts are masked.
    unsafe {
        gdt::install(&core::array::from_fn(|index| layout::ist_top(core, index)));
        idt::install();
    }
    restart::install(core, node);
    protect(&node.features);
    // SAFETY: its segments are installed, and `protect` has switched SMAP on.
    unsafe { user::install(&node.features) };
    let heap = layout::heap(core, entry.heap_bytes);
    // SAFETY: the heap is mapped in this space, and this incarnation has not used it yet.
    unsafe { heap::claim(heap.start.0 as *mut u8, entry.heap_bytes as usize) };

    // From here on faults end the incarnation, not the node.
    let board: &'static Board = Box::leak(Box::new(node.board()));
    let record = board.record(core);
    // SAFETY: this is the core's own space.
    let generation = unsafe { Ledger::of(core) }.begin(node.clock.now());
    // SAFETY: every core has its local APIC mapped there.
    let registers = unsafe { Mmio::new(layout::LOCAL_APIC, local_apic::REGISTER_BYTES) };
    let apic = LocalApic::new(&node.features, registers);
    if core == CoreId::BOOT {
        power::install(node.power);
    }
    let bells = board.notifier().doorbells();
    let (manager, clock, timers) = (board.record(CoreId::BOOT), node.clock, &node.timers);
    local::install(Local {
        core,
        generation,
        record,
        manager,
        bells,
        apic,
        clock,
        timers,
        node,
        board,
    });
    if core == CoreId::BOOT {
        images::own::has_begun(node, &apic);
    }
    if timers.has_comparator(core) {
        // It may be the last incarnation's.
        timers.hpet_stop(core);
    }

    record.set_generation(generation);
    board.begin(core);
    // A domain's core may be on other hardware than before.
    record.set_hardware_id(apic.id().0.into());
    record.set_phase(CorePhase::Starting);
    apic.enable();
    // SAFETY: handlers are installed, and no source is open that has none.
    unsafe { privileged::enable_interrupts() };

    // SAFETY: all of the above.
    let machine = unsafe { Core::new(core, generation, node, board, apic) };
    if generation != Generation::FIRST && core != CoreId::BOOT {
        // The managing core must look at this one's record.
        board.notifier().doorbells().wake(CoreId::BOOT, &machine);
    }
    let program = bootinfo::program(node.command_line);
    let outcome = (IMAGE.run)(machine, node.module, program);
    privileged::disable_interrupts();
    record.set_phase(CorePhase::Stopped);
    // Only the managing core knows how; the others stop alone.
    power::off(outcome.into())
}

/// Switches on what the processor has against packages, and against the kernel's own mistakes.
fn protect(features: &Features) {
    const UMIP: u64 = 1 << 11;
    const SMEP: u64 = 1 << 20;
    const SMAP: u64 = 1 << 21;
    let wanted = [(features.umip, UMIP), (features.smep, SMEP), (features.smap, SMAP)];
    let bits = wanted.iter().filter(|(has, _)| *has).fold(0, |bits, (_, bit)| bits | bit);
    // SAFETY: CPUID has them, and the kernel touches user pages in the copies of `user::memory`
    // alone, which know about SMAP.
    unsafe { privileged::set_cr4(bits) }
}

impl StartError {
    fn ending(&self) -> Ending {
        match self {
            StartError::Config(_)
            | StartError::TooLittleMemory { .. }
            | StartError::NothingToGive => Ending::WrongRequest,
            _ => Ending::Failure,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::BootInfo(BootInfoError::UnknownLoader) => {
                f.write_str("loaded by neither PVH nor Multiboot2")
            }
            StartError::BootInfo(BootInfoError::Unreadable) => {
                f.write_str("what the loader says cannot be read")
            }
            StartError::BootInfo(BootInfoError::NoMemoryMap) => {
                f.write_str("the loader says nothing about memory")
            }
            StartError::BootInfo(BootInfoError::CommandLine) => {
                f.write_str("the command line is longer than 2048 bytes, or not UTF-8 text")
            }
            StartError::NoStartPage => f.write_str("no free page below 1 MiB"),
            StartError::Clock(error) => write!(f, "no timer to measure the clock by ({error:?})"),
            StartError::Config(message) => f.write_str(message),
            StartError::TooLittleMemory { usable, cores } => write!(
                f,
                "{} MiB of usable memory, less the pool, are too little for {cores} cores; \
                 give the node more memory, a smaller pool or fewer cores",
                usable >> 20
            ),
            StartError::NothingToGive => f.write_str(
                "the supervisor keeps all memory; give the machine more, or the supervisor less",
            ),
            StartError::Assemble(error) => write!(f, "cannot build the cores' spaces ({error:?})"),
        }
    }
}
