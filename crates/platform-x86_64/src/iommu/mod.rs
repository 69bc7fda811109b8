//! The IOMMU of a supervisor's machine (Intel VT-d specification, legacy mode): what a disk of a
//! domain reads and writes is its domain's memory and nothing else.
//!
//! A *unit* stands between some devices and memory. It finds a device by its *source*, the bus and
//! the function that it is, in a *root table* that has a *context table* for each bus. An entry of
//! that one lets the device *pass*, as if there was no IOMMU, or has it see a *window*: page tables
//! that say which memory it reaches, here each page at its own address.
//!
//! All units have the same root table. Whatever is not a disk for domains passes: their cores'
//! kernels are this node's. So does such a disk while no domain has it, since its supervisor zeroes
//! it. While a domain has it, its window shows what the domain has, in pages of 2 MiB.
//!
//! * [`tables`]: the tables, which outlive every incarnation of the managing core and are all that
//!   is to be known.
//! * [`unit`]: the registers of a unit.
//!
//! What a device writes to the addresses of interrupts is an interrupt, and no window is asked
//! (3.14). Units translate these with tables of their own, which are not used here.

pub mod tables;
#[cfg(test)]
mod tests;
pub mod unit;

use core::fmt;

use heapless::Vec;
use nile_abi::{PageSize, PhysAddr, VirtAddr};
use nile_platform::domains::Stray;
use virtio_drivers::transport::Transport;
use virtio_drivers::transport::pci::bus::DeviceFunction;

use crate::acpi::MAX_IOMMUS;
use crate::disk::{Controller, DiskEntry, MAX_DISKS};
use crate::layout;
use crate::mmio::Mmio;
use crate::node::Frames;
use crate::pci::Registers;
use crate::virtio::DeviceRegisters;
use crate::virtio::registers::ACCESS_PLATFORM;
use tables::{Depth, Tables};
use unit::{REGISTER_BYTES, Unfit, Unit};

/// Disks by their numbers among those for domains: the source that a window is for. None of one
/// that goes to memory past every unit.
pub type Sources = Vec<Option<u16>, MAX_DISKS>;

/// The units and the tables, which every space of the node sees elsewhere.
#[derive(Clone, Debug)]
pub struct Iommu {
    /// Where the registers of each unit are.
    pub units: Vec<PhysAddr, MAX_IOMMUS>,
    /// The disks that have windows.
    pub sources: Sources,
    /// What a window can show: the memory for domains.
    pub memory: Frames,
    /// For the tables.
    pub tables: Frames,
    depth: Depth,
}

/// Why a machine's IOMMU is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotUsed {
    /// A unit cannot be used.
    Unit(PhysAddr, Unfit),
    /// No depth of tables is common to all units.
    NoDepth,
    /// No disk of those for domains goes through it.
    NoDisk,
}

impl fmt::Display for NotUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotUsed::Unit(at, why) => write!(f, "its unit at {at} {why}"),
            NotUsed::NoDepth => f.write_str("its units have no depth of tables in common"),
            NotUsed::NoDisk => f.write_str("no disk for domains goes through it"),
        }
    }
}

impl Iommu {
    /// The IOMMU of a machine with these units, for these disks and this memory. Its tables are
    /// still to be taken. `look` shows the boot path registers.
    pub fn find(
        units: &Vec<PhysAddr, MAX_IOMMUS>,
        disks: &[DiskEntry],
        memory: Frames,
        look: &dyn Fn(Registers) -> Option<Mmio>,
    ) -> Result<Iommu, NotUsed> {
        let sources: Sources = disks.iter().map(|it| source(&it.controller, look)).collect();
        if sources.iter().all(Option::is_none) {
            return Err(NotUsed::NoDisk);
        }
        let mut depths = Depth::ALL.to_vec();
        for at in units {
            let failed = |why| NotUsed::Unit(*at, why);
            let seen = look(Registers { start: *at, bytes: REGISTER_BYTES as u64 });
            let unit = Unit::new(seen.ok_or(failed(Unfit::OutOfReach))?);
            let has = unit.depths().map_err(failed)?;
            depths.retain(|it| has.contains(it));
        }
        let (units, tables) = (units.clone(), Frames { start: PhysAddr(0), bytes: 0 });
        let depth = *depths.first().ok_or(NotUsed::NoDepth)?;
        Ok(Iommu { units, sources, memory, tables, depth })
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        tables::bytes(self.sources.len(), self.memory)
    }

    /// The same as the boot path sees it.
    ///
    /// # Safety
    /// Tables and registers are mapped where they are, and nobody else uses either.
    pub unsafe fn at_boot(&self) -> Seen<'_> {
        // SAFETY: the caller's promise.
        unsafe { self.seen(VirtAddr(0), |_, at| VirtAddr(at.0)) }
    }

    /// The same as a supervisor's managing core sees it.
    ///
    /// # Safety
    /// This is such a core, and nobody else uses either.
    pub unsafe fn managed(&self) -> Seen<'_> {
        // SAFETY: its space has both there for ever.
        unsafe { self.seen(layout::SHARED_BASE, |index, _| layout::iommu(index)) }
    }

    /// # Safety
    /// The tables are mapped at `base` plus where they are, and the registers of each unit where
    /// `place` says; nobody else uses either.
    unsafe fn seen(&self, base: VirtAddr, place: impl Fn(usize, PhysAddr) -> VirtAddr) -> Seen<'_> {
        // SAFETY: the caller's promise.
        let tables = unsafe { Tables::new(self.tables, base, self.memory, self.depth) };
        let registers = |(index, at): (usize, &PhysAddr)| {
            // SAFETY: as above.
            Unit::new(unsafe { Mmio::new(place(index, *at), REGISTER_BYTES) })
        };
        Seen { iommu: self, tables, units: self.units.iter().enumerate().map(registers).collect() }
    }
}

/// The source of a disk that reaches memory through a unit: a virtio device that says so. (Others
/// are no disks for domains.)
fn source(controller: &Controller, look: &dyn Fn(Registers) -> Option<Mmio>) -> Option<u16> {
    let Controller::Virtio(device) = controller else { return None };
    let [common, notify, configuration, messages] = device.windows().map(look);
    let windows = [common?, notify?, configuration?, messages?];
    let mut registers = DeviceRegisters::new(device, windows);
    let obeys = registers.read_device_features() & ACCESS_PLATFORM != 0;
    let DeviceFunction { bus, device, function } = device.at;
    let source = u16::from(bus) << 8 | u16::from(device) << 3 | u16::from(function);
    obeys.then_some(source)
}

/// The IOMMU where some core sees it.
pub struct Seen<'a> {
    iommu: &'a Iommu,
    tables: Tables,
    units: Vec<Unit, MAX_IOMMUS>,
}

impl Seen<'_> {
    /// Fills the tables, and has the units use them from now on: everything passes.
    pub fn begin(&self) -> Result<(), NotUsed> {
        self.tables.begin(&self.iommu.sources);
        for (unit, at) in self.units.iter().zip(&self.iommu.units) {
            unit.begin(self.iommu.tables.start).map_err(|why| NotUsed::Unit(*at, why))?;
        }
        Ok(())
    }

    /// Has every device pass again, past the units.
    pub fn end(&self) {
        self.units.iter().for_each(Unit::end);
    }

    fn source(&self, disk: u16) -> Option<u16> {
        self.iommu.sources.get(usize::from(disk)).copied().flatten()
    }

    /// Whether a disk is kept to what its window shows while a domain has it.
    pub fn confines(&self, disk: u16) -> bool {
        self.source(disk).is_some()
    }

    /// A domain has the disk from now on, which touches no memory yet: its window shows this.
    pub fn give(&self, disk: u16, memory: &[Frames]) {
        let Some(source) = self.source(disk) else { return };
        self.tables.empty(disk);
        for memory in memory {
            let _ = self.tables.show(disk, *memory);
        }
        self.tables.confine(disk, source);
        self.forget();
    }

    /// A domain has the disk that is about to be given this memory.
    pub fn extend(&self, disk: u16, memory: Frames) {
        if self.confines(disk) && self.tables.show(disk, memory) {
            self.forget();
        }
    }

    /// Whether a domain has the disk, as far as units know.
    pub fn is_given(&self, disk: u16) -> bool {
        self.source(disk).is_some_and(|source| self.tables.is_confined(source))
    }

    /// No domain has the disk any more, which touches no memory now: it passes.
    pub fn take(&self, disk: u16) {
        let Some(source) = self.source(disk) else { return };
        self.tables.pass(source);
        self.tables.empty(disk);
        self.forget();
    }

    /// Nobody has this memory any more: no window shows it.
    pub fn hide(&self, memory: Frames) {
        let disks = 0..self.iommu.sources.len() as u16;
        let shown = disks.filter(|disk| self.tables.hide(*disk, memory)).count();
        if shown > 0 {
            self.forget();
        }
    }

    /// The next access that a unit stopped.
    pub fn stray(&self) -> Option<Stray> {
        let (source, at, writes) = self.units.iter().find_map(Unit::fault)?;
        let disk = self.iommu.sources.iter().position(|it| *it == Some(source));
        Some(Stray { device: source, disk: disk.map(|it| it as u16), at, writes })
    }

    /// Has all units forget what they know of the tables.
    fn forget(&self) {
        let have_all = self.units.iter().all(Unit::forget);
        assert!(have_all, "the IOMMU does not forget, so nothing may change hands");
    }
}

/// 2 MiB pages that these bytes lie in.
fn pages(memory: Frames) -> impl Iterator<Item = PhysAddr> {
    let start = memory.start.align_down(PageSize::Large).0;
    (start..memory.end().0).step_by(PageSize::Large.bytes() as usize).map(PhysAddr)
}
