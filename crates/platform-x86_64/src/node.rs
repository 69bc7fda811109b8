//! The node, as the boot path found it, written once and then only read: plain data in a region
//! that every core has mapped read-only at one address, and that survives the restart of any.
//!
//! It holds no pointer but into its own region, which all cores see at the same addresses: a core
//! may run another image, which has other constants ([`crate::images`]).

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use heapless::{String, Vec};
use nile_abi::{CoreId, MAX_CORES, PageSize, PhysAddr, RoleSet, VirtAddr};
use nile_memory::paging::{Extent, Mapping};
use nile_memory::{MemoryKind, MemoryRegion};
use nile_platform::board::{NODE_BYTES, RECEIVER_BYTES};
use nile_platform::machine::CONTROL_BYTES;
use nile_platform::record::RECORD_BYTES;
use nile_platform::{Board, Line};
use nile_ring::{Doorbells, Region};

use crate::apic::ApicId;
use crate::clock::Clock;
use crate::cpu::{Features, Kind};
use crate::devices;
use crate::disk::{DiskEntry, MAX_DISKS};
use crate::domain::{DomainEntry, Supervised};
use crate::guard;
use crate::images::choice::CHOICE_BYTES;
use crate::layout;
use crate::network::{InterfaceEntry, MAX_INTERFACES};
use crate::power::Power;
use crate::space::SlotRoots;
use crate::timer::shared::Shared;

/// What the boot path does, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BootStep {
    /// From the first instruction to the first line of Rust.
    Entry,
    /// What the loader says of memory.
    MemoryMap,
    /// The firmware's tables.
    Acpi,
    /// Time is measured.
    Clock,
    /// What each core is for.
    Configuration,
    /// What hangs on the buses.
    Devices,
    /// Every core's space.
    Tables,
}

impl BootStep {
    /// As the boot report calls it.
    pub const fn name(self) -> &'static str {
        match self {
            BootStep::Entry => "entry",
            BootStep::MemoryMap => "memory map",
            BootStep::Acpi => "acpi",
            BootStep::Clock => "clock",
            BootStep::Configuration => "configuration",
            BootStep::Devices => "devices",
            BootStep::Tables => "tables",
        }
    }
}

/// The most memory regions that are told apart; what is past them is left unused.
pub const MAX_REGIONS: usize = 128;

/// Steps of the start that are timed.
pub const MAX_STEPS: usize = 12;

/// Lines that the boot report has on the machine, and their length in bytes.
pub const MAX_FACTS: usize = 20;
const FACT_BYTES: usize = 120;

/// One line on the machine.
pub type Fact = String<FACT_BYTES>;

/// Consecutive frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// The first one.
    pub start: PhysAddr,
    /// Bytes, a multiple of 4 KiB.
    pub bytes: u64,
}

impl Frames {
    /// The first address after them.
    pub const fn end(&self) -> PhysAddr {
        PhysAddr(self.start.0 + self.bytes)
    }

    /// The `bytes` bytes at `offset`, which are inside.
    #[must_use]
    pub const fn part(&self, offset: u64, bytes: u64) -> Frames {
        debug_assert!(offset + bytes <= self.bytes);
        Frames { start: PhysAddr(self.start.0 + offset), bytes }
    }

    /// The same as frames for tables.
    pub const fn as_extent(&self) -> Extent {
        Extent { start: self.start, tables: (self.bytes / PageSize::Small.bytes()) as usize }
    }
}

/// One core of the node.
#[derive(Clone, Copy, Debug)]
pub struct CoreEntry {
    /// Its name in the machine.
    pub apic: ApicId,
    /// What it is for at first.
    pub roles: RoleSet,
    /// The root of its page tables.
    pub root: PhysAddr,
    /// Those that reach one slot of its user half alone.
    pub slots: SlotRoots,
    /// Bytes of its heap.
    pub heap_bytes: u64,
    /// What else it has for itself, as [`crate::space`] divides it.
    pub private: Frames,
}

/// Where the regions that cores share are, in one run of frames.
#[derive(Clone, Copy, Debug)]
pub struct SharedPlaces {
    /// All of them.
    pub all: Frames,
    /// A doorbell a core.
    pub bells: Frames,
    /// How each receiver is woken.
    pub receivers: Frames,
    /// A record a core.
    pub records: Frames,
    /// The node's own page.
    pub page: Frames,
    /// A control region a core.
    pub controls: Frames,
    /// Which image each core has.
    pub images: Frames,
    /// [`Node`] and the texts that it points at.
    pub node: Frames,
}

impl SharedPlaces {
    /// Bytes that the regions of `cores` cores take, with `texts` bytes of texts.
    pub fn bytes(cores: usize, texts: usize) -> u64 {
        SharedPlaces::at(PhysAddr(0), cores, texts).all.bytes
    }

    /// The regions, one after the other from `start` on.
    pub fn at(start: PhysAddr, cores: usize, texts: usize) -> SharedPlaces {
        let mut next = start;
        let mut place = |bytes: usize| {
            let bytes = (bytes as u64).next_multiple_of(PageSize::Small.bytes());
            let frames = Frames { start: next, bytes };
            next = frames.end();
            frames
        };
        let bells = place(Doorbells::region_len(cores));
        let receivers = place(RECEIVER_BYTES);
        let records = place(cores * RECORD_BYTES);
        let page = place(NODE_BYTES);
        let controls = place(cores * CONTROL_BYTES);
        let images = place(cores * CHOICE_BYTES);
        let node = place(size_of::<Node>() + texts);
        let all = Frames { start, bytes: next.0 - start.0 };
        SharedPlaces { all, bells, receivers, records, page, controls, images, node }
    }

    /// The record of `core`.
    pub fn record(&self, core: CoreId) -> Frames {
        self.records.part((core.index() * RECORD_BYTES) as u64, RECORD_BYTES as u64)
    }

    /// The control region of `core`.
    pub fn control(&self, core: CoreId) -> Frames {
        self.controls.part((core.index() * CONTROL_BYTES) as u64, CONTROL_BYTES as u64)
    }

    /// The board of `cores` cores, where physical memory is seen from `base` on.
    ///
    /// # Safety
    /// The regions are mapped there for as long as the board lives: readable, and writable where
    /// this core writes.
    pub unsafe fn board(&self, base: VirtAddr, cores: usize) -> Board {
        let region = |frames: Frames| {
            // SAFETY: the caller vouches for the mapping; the regions are made of whole pages,
            // and cores reach them through the board's atomics only.
            unsafe { region(frames, base) }
        };
        let board = Board::attach(
            region(self.bells),
            region(self.receivers),
            region(self.records),
            region(self.page),
            cores,
        );
        board.expect("the regions have the sizes that the board asks for, see `at`")
    }
}

/// The region of `frames`, where physical memory is seen from `base` on.
///
/// # Safety
/// As for [`Region::from_raw`], for the address `base` plus the frames' own.
pub unsafe fn region(frames: Frames, base: VirtAddr) -> Region {
    let at = NonNull::new((base.0 + frames.start.0) as *mut u8);
    // SAFETY: the caller's promise.
    unsafe { Region::from_raw(at.expect("frame zero is never used"), frames.bytes as usize) }
}

/// The node.
#[derive(Debug)]
pub struct Node {
    /// Which machine this is, for the report.
    pub machine: Kind,
    /// Bytes of the image that the loader read.
    pub image_bytes: u64,
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
    /// The network interfaces.
    pub interfaces: Vec<InterfaceEntry, MAX_INTERFACES>,
    /// The disks.
    pub disks: Vec<DiskEntry, MAX_DISKS>,
    /// The cores, by id.
    pub cores: Vec<CoreEntry, MAX_CORES>,
    /// All memory, as the boot path left it.
    pub memory: Vec<MemoryRegion, MAX_REGIONS>,
    /// The records of the usable regions' frames, one a region, in the order of the regions; then
    /// those of memory that the node may get later.
    pub words: Vec<Frames, MAX_REGIONS>,
    /// All of them.
    pub all_words: Frames,
    /// The regions that cores share.
    pub shared: SharedPlaces,
    /// The pool of buffers.
    pub buffers: Option<Frames>,
    /// Every table: the upper ones, then the pool's.
    pub tables: Frames,
    /// The pool of last-level tables.
    pub pool: Frames,
    /// Tables for images of the managing core ([`crate::images::own`]), unless the node is a domain
    /// or has some.
    pub image_tables: Option<Frames>,
    /// What parked cores look at ([`crate::smp`]).
    pub parking: Frames,
    /// What there is to give to domains, if this node supervises its machine.
    pub supervised: Option<Supervised>,
    /// The page below 1 MiB in which cores begin; none of a domain's.
    pub start_page: PhysAddr,
    /// How it was made, if it is a domain.
    pub domain: Option<DomainEntry>,
    /// What its guard stands on, if it has one.
    pub guard: Option<guard::Places>,
    /// What was asked for on the command line.
    pub command_line: &'static str,
    /// The boot module.
    pub module: &'static [u8],
    /// Lines on the machine.
    pub facts: Vec<Fact, MAX_FACTS>,
    /// The steps of the start, each with the time-stamp of its end.
    pub steps: Vec<(BootStep, u64), MAX_STEPS>,
    /// The time-stamp when the other cores were on their way: the end of the last step.
    pub cores_started: AtomicU64,
}

impl Node {
    /// The core with this id, which is one of the node's.
    pub fn core(&self, core: CoreId) -> &CoreEntry {
        &self.cores[core.index()]
    }

    /// The machine's name of the hardware on which a core runs, or ran last. It can change if the
    /// node is a domain.
    pub fn apic_of(&self, board: &Board, core: CoreId) -> ApicId {
        match self.domain {
            Some(_) => ApicId(board.record(core).hardware_id() as u32),
            None => self.core(core).apic,
        }
    }

    /// What maps the device of a line on the core that drives it; `None` if there is none, or if it
    /// cannot be driven by another core than at first.
    pub fn mappings(&self, line: Line) -> Option<alloc::vec::Vec<Mapping>> {
        let number = devices::number(line);
        let Some(disk) = number.checked_sub(devices::number_of_disk(0)) else {
            return self.interfaces.get(number).map(|it| it.mappings(number));
        };
        // Links of the parts of a disk are where they are at first.
        let has_parts = self.supervised.as_ref().is_some_and(|it| it.parts.is_some());
        let is_shared = has_parts && disk + 1 == self.disks.len();
        let disk = self.disks.get(disk)?;
        let can_move = disk.controller.can_move() && self.guard.is_none() && !is_shared;
        can_move.then(|| disk.mappings(number, false))
    }

    /// Whether these are frames of the memory that cores may be granted.
    pub fn has(&self, frames: Frames) -> bool {
        let inside = |memory: &MemoryRegion| {
            let usable = memory.kind == MemoryKind::Usable;
            usable && memory.start <= frames.start && frames.end() <= memory.end()
        };
        let whole = |at: PhysAddr| at.is_aligned(PageSize::Small);
        let sound = frames.bytes != 0 && whole(frames.start) && whole(frames.end());
        // What a domain may get later, its managing core knows.
        let later = |given: Frames| given.start <= frames.start && frames.end() <= given.end();
        let is_later = self.domain.is_some_and(|it| later(it.given));
        sound && (self.memory.iter().any(inside) || is_later)
    }

    /// The board, as every core sees it in its own space.
    pub fn board(&self) -> Board {
        // SAFETY: every core's space has the regions in its shared zone for ever, with the
        // permissions that the board's description gives (see `space`).
        unsafe { self.shared.board(layout::SHARED_BASE, self.cores.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_platform::CorePhase;

    #[test]
    fn shared_regions_are_whole_pages_one_after_the_other() {
        for cores in [1, 4, MAX_CORES] {
            let places = SharedPlaces::at(PhysAddr(0x20_0000), cores, 5000);
            let in_order = [
                places.bells,
                places.receivers,
                places.records,
                places.page,
                places.controls,
                places.images,
                places.node,
            ];
            let mut next = places.all.start;
            for frames in in_order {
                assert_eq!(frames.start, next);
                assert!(frames.bytes > 0 && PhysAddr(frames.bytes).is_aligned(PageSize::Small));
                next = frames.end();
            }
            assert_eq!(next, places.all.end());
            assert_eq!(places.all.bytes, SharedPlaces::bytes(cores, 5000));
            let last = CoreId(cores as u16 - 1);
            assert_eq!(places.record(last).end(), places.records.end());
            assert_eq!(places.control(last).end(), places.controls.end());
        }
    }

    #[test]
    fn a_board_over_the_places_holds_every_core() {
        let places = SharedPlaces::at(PhysAddr(0x1000), 3, 0);
        let memory = Region::owned(places.all.bytes as usize + 0x1000);
        let first = memory.words().as_ptr().addr() as u64;
        let base = VirtAddr(first.wrapping_sub(0x1000));
        // SAFETY: `memory` is readable, writable and outlives the board.
        let board = unsafe { places.board(base, 3) };
        board.record(CoreId(2)).set_phase(CorePhase::Starting);
        assert_eq!(board.record(CoreId(2)).phase(), CorePhase::Starting);
        assert_eq!(board.record(CoreId(1)).phase(), CorePhase::Offline);
    }
}
