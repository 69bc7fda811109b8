//! The address space of a core: what it maps, and how a core gets there.
//!
//! The boot path builds every core's space before it starts any. A core, whether the first one,
//! an application core or a core that restarts, always enters its space by [`enter`], which gives
//! it private data as fresh as the loader left it and an empty stack. So there is one way a core
//! begins its life, and nothing of the boot path or of an earlier incarnation is left in it.
//! [`leave`] is the way out, for cores that are away.
//!
//! | what                                 | the core itself | the managing core | others |
//! | ------------------------------------ | --------------- | ----------------- | ------ |
//! | the way in and out                   | r-x             | r-x               | r-x    |
//! | text; constants, pristine data       | r-x; r--        | r-x; r--          | same   |
//! | shared page, doorbells               | rw-             | rw-               | rw-    |
//! | private data, stack, heap, ledger    | rw-             |                   |        |
//! | descriptors                          | rw-; r-- (guarded) |                |        |
//! | its record                           | rw-             | r--; rw- (domain) | r--    |
//! | the pool of buffers                  | rw-             | rw-               | rw-    |
//! | its control region                   | rw-             | rw-               |        |
//! | receiver map, the node's page        | r--             | rw-               | r--    |
//! | the node                             | r--             | r--               | r--    |
//! | which image each core has            | r--             | rw-               | r--    |
//! | tables; records of frames            |                 | rw-, r-- (guarded); rw- |  |
//! | guard's page, ledger (a guarded domain's) | r--        | r--               | r--    |
//! | local APIC; I/O APICs                | rw-; no; r-- (guarded) | rw-; rw-   |        |
//! | devices that it drives               | rw-             |                   |        |
//! | whom they interrupt (a guarded domain's) | r--         |                   |        |
//! | disks for domains (a supervisor's)   |                 | rw-               |        |
//! | parked cores (not a domain's)        |                 | rw-               |        |
//! | seats, ledger, IOMMU (a supervisor's) |                | rw-               |        |
//! | the seat (a domain's)                |                 | rw-               |        |
//! | loops of seats, a supervisor's ledger (the network core) | rw- | rw-        |        |
//! | links of disks, a supervisor's ledger (the disk core) | rw- | rw-           |        |
//!
//! Grants come and go in the shared zone, and a package's memory in its slot of the user half,
//! which is the only part with the user bit. A space has a root that reaches all of it, and one a
//! slot ([`SlotRoots`]) that reaches no other slot: on that the core runs while the slot's package
//! does.

use alloc::vec::Vec;

use nile_abi::call::{USER_BASE, UserSlot};
use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use nile_memory::paging::{MapError, Plan, VirtRange};
use nile_memory::{AddressSpace, Mapping, Permissions, TablePool};

use crate::acpi::Platform;
use crate::devices;
use crate::disk::DiskEntry;
use crate::guard;
use crate::images::head::Head;
use crate::layout::{self, IST_STACKS, Span, image};
use crate::network::InterfaceEntry;
use crate::node::{Frames, SharedPlaces};
use crate::pci::Registers;
use crate::smp::Start;
use crate::tables::TableFrames;
use crate::timer::shared::Shared;

#[cfg(freestanding)]
core::arch::global_asm!(
    include_str!("space.s"),
    abi = const crate::images::ABI,
    core_start = sym crate::start::core_start,
    domain_begin = sym crate::domain::begin,
);

unsafe extern "C" {
    /// Makes the core that calls it `core`: loads `root`, switches to the stack that ends at
    /// `stack_top`, and goes on at `entry` with `core` and `node`. See space.s.
    ///
    /// # Safety
    /// `root` is a space whose stack ends there, and `entry` where an image begins in it, which
    /// finds at `node` what it expects. Interrupts are masked. What is on the present stack is not
    /// needed any more, and nobody else runs in the space.
    #[link_name = "enter_space"]
    fn enter_at(core: u64, node: VirtAddr, root: PhysAddr, stack_top: VirtAddr, entry: u64) -> !;

    static begin_domain: u8;

    /// Leaves this core's space for the boot tables, where it is parked: see [`crate::smp`].
    ///
    /// # Safety
    /// Nothing that this core has is needed any more.
    #[link_name = "leave_space"]
    pub fn leave() -> !;
}

/// Where the first core of a domain begins in the boot space.
pub fn beginning_of_domain() -> u64 {
    (&raw const begin_domain).addr() as u64
}

/// Makes the core that calls it begin so.
///
/// # Safety
/// What `start` says is so. Interrupts are masked. What is on the present stack is not needed any
/// more, and nobody else runs as this core.
pub unsafe fn enter(start: &Start) -> ! {
    let Start { core, node, root, stack_top, entry, .. } = *start;
    // SAFETY: the caller's promise.
    unsafe { enter_at(u64::from(core), node, root, stack_top, entry) }
}

/// Bytes of private memory that a core has besides its heap.
pub fn private_bytes() -> u64 {
    parts(CoreId::BOOT).iter().map(layout::bytes).sum()
}

/// Where the ledger is in that memory: it must be zero when the core first starts.
pub const LEDGER_OFFSET: u64 = 0;

/// What a core has privately, besides its heap; in the order in which it lies in the core's frames.
fn parts(core: CoreId) -> Vec<Span> {
    let Head { descriptors, private, .. } = Head::own();
    let mut parts = Vec::from([layout::ledger(core), descriptors, private, layout::stack(core)]);
    parts.extend((0..IST_STACKS).map(|index| layout::ist(core, index)));
    parts
}

/// Where each of these is.
fn places(core: CoreId, frames: Frames) -> impl Iterator<Item = (Span, Frames)> {
    let mut offset = 0;
    parts(core).into_iter().map(move |span| {
        let part = frames.part(offset, layout::bytes(&span));
        offset += part.bytes;
        (span, part)
    })
}

fn is_of_image(span: &Span) -> bool {
    let own = Head::own();
    [own.descriptors, own.private].contains(span)
}

/// What the tables of a core have of the image that the machine was booted with, but for the way in
/// and a domain's page of the guard. `frames` are the core's private ones, without its heap; if it
/// is guarded, it only reads its descriptors.
pub fn own_image(core: CoreId, frames: Frames, is_guarded: bool) -> Vec<Mapping> {
    let own = Head::own();
    let whole = |span: &Span| {
        let frames = Frames { start: image::physical(span.start), bytes: layout::bytes(span) };
        (span.clone(), frames)
    };
    let mut all = Vec::from([
        (whole(&own.text), Permissions::READ_EXECUTE),
        (whole(&own.constants), Permissions::READ),
        (whole(&own.pristine), Permissions::READ),
        (whole(&own.shared), Permissions::READ_WRITE),
    ]);
    if !is_guarded {
        all.push((whole(&own.guard), Permissions::READ));
    }
    for (span, frames) in places(core, frames).filter(|(span, _)| is_of_image(span)) {
        let is_kept = is_guarded && span == own.descriptors;
        let permissions = if is_kept { Permissions::READ } else { Permissions::READ_WRITE };
        all.push(((span, frames), permissions));
    }
    let cover = |((span, frames), permissions): ((Span, Frames), Permissions)| {
        Mapping::cover(span.start, frames.start, frames.bytes, PageSize::Large, permissions)
    };
    all.into_iter().flat_map(cover).collect()
}

/// The frames of the way into a space, of the image that the machine was booted with.
pub fn way_in() -> Frames {
    let gate = image::gate();
    Frames { start: image::physical(gate.start), bytes: layout::bytes(&gate) }
}

/// What every space is made of.
pub struct Ingredients<'a> {
    /// Where the regions are that cores share.
    pub shared: &'a SharedPlaces,
    /// Every page table: the upper ones, then the pool's.
    pub tables: Frames,
    /// The records of frames.
    pub words: Frames,
    /// The controllers' addresses.
    pub platform: &'a Platform,
    /// Timers that some cores share.
    pub timers: Shared,
    /// How many cores there are.
    pub cores: usize,
    /// The network interfaces.
    pub interfaces: &'a [InterfaceEntry],
    /// The pool of buffers.
    pub buffers: Option<Frames>,
    /// The disks.
    pub disks: &'a [DiskEntry],
    /// Those that domains are given, which the managing core makes as new.
    pub given: &'a [DiskEntry],
    /// The units of a supervisor's IOMMU.
    pub iommus: &'a [PhysAddr],
    /// What the managing core has for parked cores and domains: seats, or its own, the ledger.
    pub domains: &'a [Frames],
    /// The ledger of its supervisor, if the node is a domain.
    pub ledger: Option<Frames>,
    /// What its guard stands on, if it has one: then its tables are read-only.
    pub guard: Option<guard::Places>,
    /// The cores that drive loops and links of disks, with these and a supervisor's ledger.
    pub driven: [(Option<CoreId>, &'a [Frames]); 2],
}

/// The frames of one core's private memory.
#[derive(Clone, Copy, Debug)]
pub struct PrivateFrames {
    /// Everything but the heap; [`private_bytes`].
    pub small: Frames,
    /// The heap.
    pub heap: Frames,
}

/// Which upper tables a core needs, if memory ends at `memory_end`. The shared zone and the user
/// half reach all memory, so that any frame can be given to any core later, and to its package;
/// packages may have the pool of buffers besides.
pub fn plan(core: CoreId, memory_end: PhysAddr, buffers: Option<Frames>) -> Plan {
    let zone = layout::private_zone(core);
    let mut ranges = Vec::from([
        VirtRange::new(zone.start, layout::bytes(&zone)),
        VirtRange::new(layout::SHARED_BASE, memory_end.0),
        VirtRange::huge(layout::HUGE_BASE, memory_end.0),
        VirtRange::new(layout::LOCAL_APIC, PageSize::Huge.bytes()),
        VirtRange::new(layout::KERNEL_BASE, PageSize::Huge.bytes()),
    ]);
    if core == CoreId::BOOT {
        ranges.push(VirtRange::new(layout::TABLES_BASE, memory_end.0));
    }
    for slot in UserSlot::all() {
        let user = layout::user(slot, memory_end);
        ranges.push(VirtRange::new(user.start, layout::bytes(&user)));
        ranges.extend(buffers.map(|buffers| VirtRange::new(slot.pool(), buffers.bytes)));
    }
    Plan::new(&ranges).expect("the ranges of the address map exist and are not empty")
}

/// The roots of a core's space by slots.
pub type SlotRoots = [PhysAddr; UserSlot::COUNT];

/// Makes these frames the roots by slots of a space whose upper tables are built.
pub fn add_slots(space: &AddressSpace, memory: &mut TableFrames, frames: SlotRoots) {
    for (slot, frame) in UserSlot::all().zip(frames) {
        let own = slot.base()..slot.end();
        space.add_root(memory, frame, |virt| {
            (USER_BASE..UserSlot::END).contains(&virt.0) && !own.contains(&virt)
        });
    }
}

impl Ingredients<'_> {
    /// Maps what `core` has from the start.
    pub fn map(
        &self,
        space: &mut AddressSpace,
        memory: &mut TableFrames,
        pool: &mut TablePool,
        private: &PrivateFrames,
    ) -> Result<(), MapError> {
        let core = space.core();
        let manages = core == CoreId::BOOT;
        own_image(core, private.small, self.guard.is_some())
            .into_iter()
            .try_for_each(|mapping| space.map(memory, pool, mapping))?;
        let mut map = |at: VirtAddr, frames: Frames, permissions: Permissions| {
            Mapping::cover(at, frames.start, frames.bytes, PageSize::Large, permissions)
                .try_for_each(|mapping| space.map(memory, pool, mapping))
        };

        map(image::gate().start, way_in(), Permissions::READ_EXECUTE)?;
        for (span, frames) in places(core, private.small).filter(|(span, _)| !is_of_image(span)) {
            map(span.start, frames, Permissions::READ_WRITE)?;
        }
        let heap = layout::heap(core, private.heap.bytes);
        map(heap.start, private.heap, Permissions::READ_WRITE)?;

        let or_read = |writes| if writes { Permissions::READ_WRITE } else { Permissions::READ };
        let mut share = |frames: Frames, permissions: Permissions| {
            map(layout::shared(frames.start), frames, permissions)
        };
        share(self.shared.bells, Permissions::READ_WRITE)?;
        share(self.shared.receivers, or_read(manages))?;
        share(self.shared.page, or_read(manages))?;
        share(self.shared.node, Permissions::READ)?;
        share(self.shared.images, or_read(manages))?;
        if let Some(buffers) = self.buffers {
            share(buffers, Permissions::READ_WRITE)?;
        }
        for other in (0..self.cores as u16).map(CoreId) {
            // The managing core of a domain says of a core that was taken that it is away.
            let writes = other == core || manages && self.ledger.is_some();
            share(self.shared.record(other), or_read(writes))?;
            if manages || other == core {
                share(self.shared.control(other), Permissions::READ_WRITE)?;
            }
        }

        let page = |start: PhysAddr| Frames {
            start: start.align_down(PageSize::Small),
            bytes: PageSize::Small.bytes(),
        };
        let write = self.guard.is_none();
        let own_registers = Permissions { write, ..Permissions::DEVICE };
        map(layout::LOCAL_APIC, page(self.platform.local_apic), own_registers)?;
        if self.timers.has_comparator(core) {
            map(layout::HPET, page(self.timers.hpet), Permissions::DEVICE)?;
        }
        if let Some(guard) = self.guard {
            map(image::guard().start, guard.page(), Permissions::READ)?;
        }
        if self.guard.is_some()
            && let Some(ledger) = self.ledger
        {
            map(layout::shared(ledger.start), ledger, Permissions::READ)?;
        }
        if manages {
            map(layout::shared(self.words.start), self.words, Permissions::READ_WRITE)?;
            map(layout::table(self.tables.start), self.tables, or_read(self.guard.is_none()))?;
            if let Some(guard) = self.guard {
                map(layout::table(guard.all.start), guard.all, Permissions::READ)?;
            }
            for frames in self.domains {
                map(layout::shared(frames.start), *frames, Permissions::READ_WRITE)?;
            }
            for (index, io_apic) in self.platform.io_apics.iter().enumerate() {
                map(layout::io_apic(index), page(io_apic.base), Permissions::DEVICE)?;
            }
            for (index, at) in self.iommus.iter().enumerate() {
                map(layout::iommu(index), page(*at), Permissions::DEVICE)?;
            }
        }
        let driven = self.driven.iter().filter(|(by, _)| !manages && *by == Some(core));
        let driven: Vec<&Frames> = driven.flat_map(|(_, frames)| *frames).collect();
        for (at, frames) in driven.iter().enumerate() {
            // One core may drive both.
            if !driven[..at].iter().any(|it| it.start == frames.start) {
                map(layout::shared(frames.start), **frames, Permissions::READ_WRITE)?;
            }
        }
        let interfaces = self.interfaces.iter().enumerate().filter(|(_, it)| it.core == core);
        let interfaces = interfaces.flat_map(|(at, it)| it.mappings(at));
        let disks = self.disks.iter().chain(self.given).enumerate();
        let disks = disks.filter(|(_, it)| it.core == core);
        let is_guarded = self.guard.is_some();
        let disks = disks.flat_map(|(at, it)| it.mappings(devices::number_of_disk(at), is_guarded));
        interfaces.chain(disks).try_for_each(|mapping| space.map(memory, pool, mapping))
    }
}

impl InterfaceEntry {
    /// What maps the interface with this number among all devices on the core that drives it.
    pub fn mappings(&self, number: usize) -> Vec<Mapping> {
        device(number, self.memory, &self.device.windows(), false)
    }
}

impl DiskEntry {
    /// The same of a disk. Of a domain that `is_guarded` the core only reads whom it interrupts.
    pub fn mappings(&self, number: usize, is_guarded: bool) -> Vec<Mapping> {
        device(number, self.memory, &self.controller.windows(), is_guarded)
    }
}

fn device(number: usize, memory: Frames, windows: &[Registers], is_guarded: bool) -> Vec<Mapping> {
    let cover = |at, frames: Frames, permissions| {
        Mapping::cover(at, frames.start, frames.bytes, PageSize::Large, permissions)
    };
    let windows = windows.iter().enumerate().flat_map(|(kind, registers)| {
        let write = !is_guarded || kind != layout::MESSAGES_WINDOW;
        let permissions = Permissions { write, ..Permissions::DEVICE };
        cover(layout::device_window(number, kind), registers.pages(), permissions)
    });
    let shared = cover(layout::shared(memory.start), memory, Permissions::READ_WRITE);
    shared.chain(windows).collect()
}

/// The most last-level tables that one core's space takes besides those that map memory densely,
/// if the regions that cores share take `shared` bytes: one each for the private zone, the heap,
/// the statics and the devices; two, for both ends, of the image, the records of frames and the
/// tables; and the ends of what each package has: its gate and arguments, stack, code and arena.
pub fn last_levels(shared: u64) -> usize {
    4 + 2 * 3 + 4 * UserSlot::COUNT + TablePool::tables_for(shared) + 1
}
