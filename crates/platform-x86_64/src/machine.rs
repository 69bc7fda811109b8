//! [`Machine`]: what the kernel sees of all this. What the managing core may do besides is in
//! `manager`.

mod manager;
mod not_opened;
mod timers;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::hint;
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Generation, Instant, PageSize, PhysAddr, Role, Status, VirtAddr};
use nile_platform::domains::{Bridge, LoopInterface};
use nile_platform::{
    AttachError, Attack, Board, CorePhase, Disk, Fault, Gate, Grant, Interface, Line, Machine,
    Misbehave, Seated, Sleeper, TimerSource, Tried, WakeMode,
};
use nile_ring::{PoolMemory, Region, Signal, Sleep};

use crate::apic::{ApicId, LocalApic};
use crate::disk::ahci::controller::MAX_PORTS;
use crate::disk::ahci::port::{self, Port};
use crate::disk::ahci::{self, AhciDisk};
use crate::disk::block::VirtioBlock;
use crate::disk::{Controller, DiskEntry};
use crate::domain::parts;
use crate::network::{InterfaceEntry, VirtioNet};
use crate::node::{Frames, Node, region};
use crate::pci::msix;
use crate::user::UserHalf;
use crate::vector::Vector;
use crate::virtio::{Device, DeviceRegisters};
use crate::{
    attacks, checksum, devices, domain, entropy, images, interrupts, layout, lines, privileged,
    restart, samples, serial, space, timer, user,
};

pub use manager::NodeManager;
use not_opened::NotOpened;

/// Grants of more pages than this are forgotten by forgetting everything.
const MAX_INVALIDATIONS: u64 = 32;

/// The core that has it, in its own space.
pub struct Core {
    id: CoreId,
    generation: Generation,
    node: &'static Node,
    board: &'static Board,
    apic: LocalApic,
    manager: Option<NodeManager>,
    /// Whether its interfaces were asked for.
    opened: Cell<bool>,
    /// Whether its right to the pool was.
    pooled: Cell<bool>,
    /// Whether its disks were.
    disks_opened: Cell<bool>,
}

impl Core {
    /// The core that calls this.
    ///
    /// # Safety
    /// The caller runs as `id` in its own space, and its interrupt handlers are installed.
    pub(crate) unsafe fn new(
        id: CoreId,
        generation: Generation,
        node: &'static Node,
        board: &'static Board,
        apic: LocalApic,
    ) -> Core {
        let manager = (id == CoreId::BOOT).then_some(NodeManager::new(node));
        let [opened, disks_opened, pooled] = [const { Cell::new(false) }; 3];
        Core { id, generation, node, board, apic, manager, opened, disks_opened, pooled }
    }

    /// Whether it drives the device with this number.
    fn drives(&self, number: usize) -> bool {
        devices::line(number).is_some_and(|line| self.own(line).is_some())
    }

    /// The line, if it drives its device.
    fn own(&self, line: Line) -> Option<Line> {
        (self.board.driver(line) == Some(self.id)).then_some(line)
    }

    /// Opens this core's interface with this number, once in an incarnation; [`Self::interfaces`]
    /// sees to that.
    fn open(&self, index: usize, entry: &InterfaceEntry) -> Result<VirtioNet, NotOpened> {
        // SAFETY: the interface is this core's, which has not opened it yet.
        let registers = unsafe { self.virtio(index, &entry.device)? };
        let log = |address| {
            serial::log(format_args!("interface {address}: the device misbehaves, it is stopped"));
        };
        // SAFETY: as above.
        unsafe { VirtioNet::open(registers, entry.memory, log) }.map_err(NotOpened::Interface)
    }

    /// A supervisor's first interface has the loops of its domains.
    fn bridged(&self, network: VirtioNet) -> Box<dyn Interface> {
        let is_first = domain::drives_loops(self.node) == Some(self.id);
        match &self.node.supervised {
            Some(supervised) if is_first => {
                let (own, wake) = self.waking();
                let loops = domain::loops(supervised);
                let clock = &self.node.clock;
                let now = || clock.now();
                Box::new(Bridge::new(Box::new(network), loops, own, wake, now))
            }
            _ => Box::new(network),
        }
    }

    /// This core's name in the machine, and what interrupts the core of such a name, of another
    /// node, that waits for frames.
    fn waking(&self) -> (u32, impl Fn(u32) + use<>) {
        let apic = self.apic;
        (self.node.core(self.id).apic.0, move |name| apic.send_fixed(ApicId(name), Vector::LOOP))
    }

    /// Opens what this core has at the disk device with this number, once in an incarnation;
    /// [`Self::disks`] sees to that.
    fn open_disks(
        &self,
        index: usize,
        entry: &DiskEntry,
        disks: &mut Vec<Box<dyn Disk>>,
    ) -> Result<(), NotOpened> {
        let log = || serial::log(format_args!("a disk misbehaves, it is stopped"));
        let number = devices::number_of_disk(index);
        let device = match &entry.controller {
            Controller::Virtio(device) => device,
            Controller::Ahci(ahci) => {
                // SAFETY: the controller is this core's, which has it in its space for ever, and
                // has not opened it yet.
                let registers = unsafe { ahci.mapped(number) };
                let ports = ahci::controller::reset(registers).map_err(NotOpened::Ahci)?;
                for port in (0..MAX_PORTS).filter(|port| ports & 1 << port != 0) {
                    let memory = entry.memory.part(port as u64 * port::BYTES, port::BYTES);
                    let name = format!("ahci {} port {port}", ahci.at);
                    // SAFETY: as above; each port has a part of the memory for itself.
                    let port = unsafe { Port::new(registers, port, memory) };
                    let opened = AhciDisk::open(port, name, log);
                    let opened = opened.map(|it| it.by(devices::line(number)));
                    disks.extend(opened.map(|it| Box::new(it) as Box<dyn Disk>));
                }
                return Ok(());
            }
        };
        // SAFETY: the disk is this core's, which has not opened it yet.
        let registers = unsafe { self.virtio(number, device)? };
        let name = format!("virtio-blk {}", device.at);
        // SAFETY: as above.
        let disk = unsafe { VirtioBlock::open(registers, entry.memory, name, log) };
        disks.push(Box::new(disk.map_err(NotOpened::Disk)?));
        Ok(())
    }

    /// The registers of the device with this number, which from now on interrupts this core.
    ///
    /// # Safety
    /// The device is this core's, so that it has it in its space for ever, and nobody else of this
    /// incarnation has its registers.
    unsafe fn virtio(&self, number: usize, device: &Device) -> Result<DeviceRegisters, NotOpened> {
        let apic = self.node.apic_of(self.board, self.id);
        if !msix::reaches(apic) {
            return Err(NotOpened::OutOfReach(apic));
        }
        // SAFETY: the caller's promise.
        let registers = unsafe { DeviceRegisters::mapped(number, device) };
        lines::route(registers.messages, apic, number).map_err(NotOpened::Guard)?;
        Ok(registers)
    }
}

/// Where a core has a grant: at this plus the grant's physical address.
fn base_of(node: &Node, grant: Grant) -> VirtAddr {
    let huge = grant.is_huge() && node.features.huge_pages;
    if huge { layout::HUGE_BASE } else { layout::SHARED_BASE }
}

impl Signal for Core {
    fn signal(&self, core: CoreId) {
        self.apic.send_fixed(self.node.apic_of(self.board, core), Vector::SIGNAL);
    }
}

impl Machine for Core {
    type Manager = NodeManager;
    type User = UserHalf;

    fn core(&self) -> CoreId {
        self.id
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn now(&self) -> Instant {
        self.node.clock.now()
    }

    fn board(&self) -> &Board {
        self.board
    }

    fn wake_mode(&self) -> WakeMode {
        match self.node.features.waits_by_monitor() {
            true => WakeMode::Monitored,
            false => WakeMode::Signalled,
        }
    }

    fn set_tick(&self, period: Option<Duration>) {
        timer::set_tick(period);
    }

    fn sample(&self, ring: Option<&'static Region>) -> bool {
        samples::note_in(ring);
        true
    }

    fn timer_sources(&self) -> Vec<TimerSource> {
        self.timers().map(|(_, it)| it).collect()
    }

    fn timer_source(&self) -> usize {
        let taken = timer::source();
        self.timers().position(|(source, _)| source == taken).unwrap_or_default()
    }

    fn take_timer_source(&self, place: usize) -> Result<(), Status> {
        let (source, _) = self.timers().nth(place).ok_or(Status::NotFound)?;
        timer::take(source);
        Ok(())
    }

    fn relax(&self) {
        hint::spin_loop();
    }

    fn control(&self, peer: CoreId) -> Region {
        // SAFETY: the control region is in the space of its core and of the managing core for
        // ever; both ends reach it as atomics.
        unsafe { region(self.node.shared.control(peer), layout::SHARED_BASE) }
    }

    fn attach(&self, grant: Grant) -> Result<Region, AttachError> {
        let frames = frames_of(grant);
        if !self.node.has(frames) {
            return Err(AttachError::OutOfRange);
        }
        // SAFETY: the management core has entered the grant in this core's tables at this place,
        // and takes it out when this core no longer holds the region.
        Ok(unsafe { region(frames, base_of(self.node, grant)) })
    }

    /// Where the kernel had it, that is; what a package had is forgotten as a whole, see
    /// [`crate::user`].
    fn detach(&self, grant: Grant) {
        let first = VirtAddr(base_of(self.node, grant).0 + grant.start.0);
        let pages = grant.bytes.div_ceil(PageSize::Small.bytes());
        if pages > MAX_INVALIDATIONS {
            return privileged::invalidate_all();
        }
        for page in 0..pages {
            privileged::invalidate_page(VirtAddr(first.0 + page * PageSize::Small.bytes()));
        }
    }

    fn flush(&self) {
        privileged::invalidate_all();
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        serial::log(line);
    }

    fn compute(&self, span: Duration) {
        let ticks = self.node.clock.ticks_for(span);
        let begun = privileged::read_tsc();
        while privileged::read_tsc().wrapping_sub(begun) < ticks {}
    }

    fn user(&self, slot: UserSlot) -> Result<UserHalf, Status> {
        UserHalf::new(self.node, self.id, slot)
    }

    fn interfaces(&self) -> Vec<Box<dyn Interface>> {
        if self.opened.replace(true) {
            return Vec::new();
        }
        let mut interfaces = Vec::<Box<dyn Interface>>::new();
        let all = self.node.interfaces.iter().enumerate();
        for (index, entry) in all.filter(|(index, _)| self.drives(*index)) {
            match self.open(index, entry) {
                Ok(interface) if index == 0 => interfaces.push(self.bridged(interface)),
                Ok(interface) => interfaces.push(Box::new(interface)),
                Err(why) => self.log(format_args!("interface {index} is not used: {why}")),
            }
        }
        if domain::drives_loops(self.node) == Some(self.id)
            && let Some(frames) = domain::own_loop(self.node)
        {
            let (own, wake) = self.waking();
            let interface = LoopInterface::open(&frames, own, wake);
            interfaces.extend(interface.map(|it| Box::new(it) as Box<dyn Interface>));
        }
        interfaces
    }

    fn pool(&self) -> Option<(PhysAddr, PoolMemory)> {
        let buffers = self.node.buffers.filter(|_| !self.pooled.replace(true))?;
        // SAFETY: every core has the pool in its shared zone for ever, and reaches it only so. What
        // the last incarnation had was in statics, stack and heap that this one began with anew;
        // it has one value of this type, which is asked once.
        let memory = unsafe { PoolMemory::new(region(buffers, layout::SHARED_BASE), self.id) };
        Some((buffers.start, memory))
    }

    fn disks(&self) -> Vec<Box<dyn Disk>> {
        if self.disks_opened.replace(true) {
            return Vec::new();
        }
        let mut disks = Vec::<Box<dyn Disk>>::new();
        let all = self.node.disks.iter().enumerate();
        for (index, entry) in all.filter(|(index, _)| self.drives(devices::number_of_disk(*index)))
        {
            let before = disks.len();
            if let Err(why) = self.open_disks(index, entry, &mut disks) {
                self.log(format_args!("disk {index} is not used: {why}"));
            }
            if index + 1 < self.node.disks.len() {
                continue;
            }
            if disks.len() == before {
                parts::close(self.node);
            } else {
                let clock = &self.node.clock;
                let last = disks.pop();
                disks.extend(
                    last.map(|it| parts::shared(self.node, it, self.waking(), || clock.now())),
                );
            }
        }
        if parts::drives_parts(self.node) == Some(self.id) {
            disks.extend(parts::own(self.node, self.waking()));
        }
        disks
    }

    fn checksum(&self) -> Option<fn(u32, &[u8]) -> u32> {
        self.node.features.crc32.then_some(checksum::crc32c as fn(u32, &[u8]) -> u32)
    }

    fn entropy(&self, bytes: &mut [u8]) -> bool {
        self.node.features.rdrand && entropy::fill(bytes)
    }

    fn route(&self, line: Line, core: CoreId) -> Result<(), Status> {
        // SAFETY: this core drives the device.
        let found = self.own(line).and_then(|line| unsafe { lines::find(self.node, line) });
        let apic = self.node.apic_of(self.board, core);
        found.ok_or(Status::NotFound)?.route(line, apic, core == self.id)
    }

    fn mask(&self, line: Line, is_masked: bool) {
        // SAFETY: as above.
        if let Some(found) = self.own(line).and_then(|it| unsafe { lines::find(self.node, it) }) {
            found.mask(is_masked);
        }
    }

    /// As the machine's clock said when the node started, and the time since then; so it drifts
    /// like [`now`](Machine::now) does.
    fn calendar(&self) -> Option<Duration> {
        Some(self.node.started? + self.now().since(Instant::START))
    }

    fn seated(&self) -> Option<Seated> {
        self.manager.as_ref().and_then(|_| domain::seated(self.node))
    }

    fn leave(&self) -> ! {
        timer::clear_deadline();
        let record = self.board.record(self.id);
        record.set_fault(Fault::LEFT);
        if self.board.record(CoreId::BOOT).is_away(self.id) {
            // SAFETY: nothing of this incarnation runs any more.
            if let Err(error) = unsafe { domain::give_back_buffers(self.node, self.id) } {
                self.log(format_args!("its buffers are not given back: {error}"));
            }
            // What it had is others' before it comes back.
            privileged::invalidate_all();
            record.set_phase(CorePhase::Away);
            self.board.notifier().doorbells().wake(CoreId::BOOT, self);
            // A domain's hardware is its supervisor's again; and this core's space may be changed.
            privileged::disable_interrupts();
            // SAFETY: nothing of this incarnation runs any more.
            unsafe { space::leave() }
        }
        if self.manager.is_some() {
            images::own::enter_prepared(self.node, &self.apic);
        }
        restart::after_leaving()
    }

    fn manager(&self) -> Option<&NodeManager> {
        self.manager.as_ref()
    }
}

impl Misbehave for Core {
    /// What the device's message does, unless its driver holds that back.
    fn interrupt_for_nothing(&self, line: Line) {
        let state = self.board.driver(line).and_then(|it| self.board.record(it).line(line));
        if let Some(state) = state.filter(|it| it.gate == Gate::Open) {
            let vector = devices::vector(devices::number(line));
            self.apic.send_fixed(self.node.core(state.core).apic, vector);
        }
    }

    fn stray_write(&self, at: VirtAddr, value: u64) {
        // SAFETY: none can be given, and that is the point: the tables of this core, not its
        // code, keep what is not its own. The caller gives up what the write may hit.
        unsafe { (at.0 as *mut u64).write_volatile(value) }
    }

    fn shut_out(&self) {
        privileged::disable_interrupts();
    }

    fn attack(&self, attack: Attack, aim: u64) -> Tried {
        let attempt = |it| attacks::attempt(it, &self.apic, attack, aim);
        self.manager.as_ref().map_or(Tried::Unknown, attempt)
    }

    fn overrun_stack(&self) {
        nile_platform::recurse_for_ever(0);
    }
}

impl Sleeper for Core {
    fn sleep(&self, sleep: &Sleep<'_>, until: Option<Instant>) {
        let passed = || until.is_some_and(|until| self.now() >= until);
        timer::set_deadline(until);
        // From here to the wait an interrupt stays pending, and ends the wait at once: neither a
        // signal nor the deadline is lost between the check and the wait.
        privileged::disable_interrupts();
        let by_monitor = self.wake_mode() == WakeMode::Monitored;
        if by_monitor {
            privileged::monitor(sleep.line());
        }
        // SAFETY: this core's interrupt handlers are installed (`new`).
        unsafe {
            if sleep.is_over() || passed() {
                privileged::enable_interrupts();
            } else {
                interrupts::set_asleep(true);
                if by_monitor {
                    privileged::enable_interrupts_and_mwait();
                } else {
                    privileged::enable_interrupts_and_halt();
                }
                interrupts::set_asleep(false);
            }
        }
        // A deadline that was not reached must not interrupt what a worker does now; and what a
        // signal was about is looked for now, before any package runs.
        if self.board.record(self.id).roles().contains(Role::Worker) {
            timer::clear_deadline();
        }
        user::turn::forget_signal();
    }
}

/// The frames of a grant.
pub(crate) fn frames_of(grant: Grant) -> Frames {
    // A grant that wraps around is made empty, and refused as such.
    let fits = grant.start.checked_add(grant.bytes).is_some();
    Frames { start: PhysAddr(grant.start.0), bytes: if fits { grant.bytes } else { 0 } }
}
