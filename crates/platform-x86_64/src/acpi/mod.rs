//! ACPI, as much of it as a start needs: which cores there are, where the interrupt controllers
//! and timers stand, how the machine is switched off.
//!
//! The tables are bytes that firmware (or whoever plays firmware) left in memory. Every length is
//! checked and bounded, every checksum verified, and a table that fails is as good as absent: any
//! bytes give a [`Platform`] or an [`AcpiError`], never a panic and never an endless walk.
//!
//! * [`table`]: root pointer, root table, table headers.
//! * [`madt`]: cores and interrupt controllers.
//! * [`fadt`]: power management registers and the value that switches the machine off.
//! * [`dmar`]: the units through which devices reach memory.

pub mod dmar;
pub mod fadt;
pub mod madt;
mod table;
#[cfg(test)]
mod tests;

use heapless::Vec;
use nile_abi::{MAX_CORES, PhysAddr};

use crate::apic::ApicId;
pub use fadt::{PmTimer, SoftOff};
pub use madt::{InterruptOverride, IoApicEntry, Polarity, Trigger};
use table::{Root, Table};

/// Gives the bytes of physical memory from an address on, or `None` where they cannot be read.
pub type MapPhysical<'a, 'm> = &'a dyn Fn(PhysAddr, usize) -> Option<&'m [u8]>;

/// Where every local APIC is, unless the MADT says otherwise.
pub const DEFAULT_LOCAL_APIC: PhysAddr = PhysAddr(0xfee0_0000);

/// Tables that are looked at; firmware brings some dozens.
pub const MAX_TABLES: usize = 256;

/// I/O APICs that are looked at; a machine of ours has one or a few.
pub const MAX_IO_APICS: usize = 16;

/// Units of IOMMUs that are looked at; machines have one to some ten.
pub const MAX_IOMMUS: usize = 16;

/// ISA interrupts whose line an override can move.
pub const MAX_OVERRIDES: usize = 16;

/// Why nothing could be learned from ACPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcpiError {
    /// No root pointer was handed over and none is where firmware keeps it.
    NoRootPointer,
    /// The root pointer or the root table cannot be read or is malformed.
    BadRoot,
    /// There is no well-formed MADT.
    NoMadt,
    /// The MADT names no core that is enabled.
    NoCores,
}

/// What firmware says about the machine.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The APIC ids of the cores that are enabled, each once, in firmware's order, which need not
    /// begin with the boot core.
    pub cores: Vec<ApicId, MAX_CORES>,
    /// Where each core sees its own local APIC.
    pub local_apic: PhysAddr,
    /// The I/O APICs.
    pub io_apics: Vec<IoApicEntry, MAX_IO_APICS>,
    /// ISA interrupts that do not arrive on the line of their own number.
    pub overrides: Vec<InterruptOverride, MAX_OVERRIDES>,
    /// The registers of the first HPET.
    pub hpet: Option<PhysAddr>,
    /// The power management timer.
    pub pm_timer: Option<PmTimer>,
    /// How the machine is switched off.
    pub soft_off: Option<SoftOff>,
    /// PCI's configuration space in memory.
    pub ecam: Option<Ecam>,
    /// The registers of each unit of the IOMMU.
    pub iommus: Vec<PhysAddr, MAX_IOMMUS>,
}

/// PCI's configuration space in memory, from bus 0 on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ecam {
    /// The registers of bus 0.
    pub base: PhysAddr,
    /// The last bus that it shows.
    pub last_bus: u8,
}

impl Platform {
    /// Reads the tables that `rsdp` leads to, or, without it, those whose root pointer lies where
    /// PC firmware keeps it.
    pub fn find(rsdp: Option<PhysAddr>, map: MapPhysical<'_, '_>) -> Result<Platform, AcpiError> {
        let rsdp = rsdp.or_else(|| table::search(map)).ok_or(AcpiError::NoRootPointer)?;
        let root = Root::read(rsdp, map).ok_or(AcpiError::BadRoot)?;
        let mut platform = Platform::without_tables();
        let mut madt_seen = false;
        for at in root.entries().take(MAX_TABLES) {
            let Some(table) = Table::read(at, map) else { continue };
            match table.signature() {
                b"APIC" if !madt_seen => {
                    madt_seen = true;
                    madt::read(&table, &mut platform);
                }
                b"MCFG" if platform.ecam.is_none() => platform.ecam = ecam(&table),
                b"DMAR" if platform.iommus.is_empty() => {
                    platform.iommus = dmar::units(&table).unwrap_or_default();
                }
                b"HPET" if platform.hpet.is_none() => platform.hpet = hpet_base(&table),
                b"FACP" if platform.soft_off.is_none() => {
                    platform.pm_timer = fadt::pm_timer(&table);
                    platform.soft_off = fadt::soft_off(&table, map);
                }
                _ => {}
            }
        }
        match (madt_seen, platform.cores.is_empty()) {
            (false, _) => Err(AcpiError::NoMadt),
            (true, true) => Err(AcpiError::NoCores),
            (true, false) => Ok(platform),
        }
    }

    /// A machine without tables: one core, whose APIC id it tells itself, and nothing else known.
    pub fn alone(boot_core: ApicId) -> Platform {
        let mut platform = Platform::without_tables();
        platform.add_core(boot_core);
        platform
    }

    fn without_tables() -> Platform {
        Platform {
            cores: Vec::new(),
            local_apic: DEFAULT_LOCAL_APIC,
            io_apics: Vec::new(),
            overrides: Vec::new(),
            hpet: None,
            pm_timer: None,
            soft_off: None,
            ecam: None,
            iommus: Vec::new(),
        }
    }

    /// Adds a core unless it is known already; what is past [`MAX_CORES`] is left alone.
    fn add_core(&mut self, id: ApicId) {
        if !self.cores.contains(&id) {
            let _ = self.cores.push(id);
        }
    }
}

/// The HPET table (IA-PC HPET specification, 3.2.4): a generic address at 40, and only memory
/// space has ever been used for it.
fn hpet_base(table: &Table<'_>) -> Option<PhysAddr> {
    let in_memory = table.u8(40)? == 0;
    let base = table.u64(44)?;
    (in_memory && base != 0).then_some(PhysAddr(base))
}

/// The first entry of the MCFG (PCI Firmware specification 3.0, 4.1.2): an address at 44, the
/// number of the segment at 52, its first and last bus. Only segment 0 from bus 0 on is used,
/// which is all that most machines have.
fn ecam(table: &Table<'_>) -> Option<Ecam> {
    let base = table.u64(44)?;
    let [segment_low, segment_high, first_bus, last_bus] = table.u32(52)?.to_le_bytes();
    let is_first = segment_low == 0 && segment_high == 0 && first_bus == 0;
    (is_first && base != 0).then_some(Ecam { base: PhysAddr(base), last_bus })
}
