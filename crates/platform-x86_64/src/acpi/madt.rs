//! The MADT: a row of entries, each with a type and a length, that name the cores and the
//! interrupt controllers (ACPI specification, 5.2.12).

use nile_abi::PhysAddr;

use super::Platform;
use super::table::{HEADER_BYTES, Table};
use crate::apic::ApicId;

/// How a line says that it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// By a change.
    Edge,
    /// By staying active until it is served.
    Level,
}

/// Which voltage means active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polarity {
    /// The high one.
    ActiveHigh,
    /// The low one.
    ActiveLow,
}

/// One I/O APIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoApicEntry {
    /// Its registers.
    pub base: PhysAddr,
    /// The global number of its first line.
    pub first_line: u32,
}

/// An ISA interrupt that does not arrive, edge-triggered and active high, on the line of its own
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterruptOverride {
    /// The ISA interrupt.
    pub irq: u8,
    /// The global line on which it arrives.
    pub line: u32,
    /// How it interrupts.
    pub trigger: Trigger,
    /// Which voltage means active.
    pub polarity: Polarity,
}

/// The local APIC's address and the flags stand before the entries.
const ENTRIES_AT: usize = HEADER_BYTES + 8;

const LOCAL_APIC: u8 = 0;
const IO_APIC: u8 = 1;
const OVERRIDE: u8 = 2;
const LOCAL_APIC_ADDRESS: u8 = 5;
const LOCAL_X2APIC: u8 = 9;

/// "Enabled" in a core's flags. A core that could only be added later has another bit.
const CORE_ENABLED: u32 = 1;

/// Adds what the table says to `platform`. A malformed entry ends the walk.
pub fn read(table: &Table<'_>, platform: &mut Platform) {
    if let Some(base) = table.u32(HEADER_BYTES).filter(|base| *base != 0) {
        platform.local_apic = PhysAddr(base.into());
    }
    let mut entries = table.content().get(ENTRIES_AT - HEADER_BYTES..).unwrap_or_default();
    while let [kind, length, ..] = *entries {
        let length = usize::from(length);
        let Some((entry, rest)) = entries.split_at_checked(length).filter(|_| length >= 2) else {
            return;
        };
        // An entry shorter than its type asks for says nothing.
        let _ = read_entry(kind, entry, platform);
        entries = rest;
    }
}

fn read_entry(kind: u8, entry: &[u8], platform: &mut Platform) -> Option<()> {
    match kind {
        LOCAL_APIC if u32_at(entry, 4)? & CORE_ENABLED != 0 => {
            platform.add_core(ApicId((*entry.get(3)?).into()));
        }
        LOCAL_X2APIC if u32_at(entry, 8)? & CORE_ENABLED != 0 => {
            platform.add_core(ApicId(u32_at(entry, 4)?));
        }
        IO_APIC => {
            let base = PhysAddr(u32_at(entry, 4)?.into());
            let _ = platform.io_apics.push(IoApicEntry { base, first_line: u32_at(entry, 8)? });
        }
        OVERRIDE => {
            let flags = u16_at(entry, 8)?;
            let _ = platform.overrides.push(InterruptOverride {
                irq: *entry.get(3)?,
                line: u32_at(entry, 4)?,
                trigger: if flags >> 2 & 3 == 3 { Trigger::Level } else { Trigger::Edge },
                polarity: if flags & 3 == 3 { Polarity::ActiveLow } else { Polarity::ActiveHigh },
            });
        }
        LOCAL_APIC_ADDRESS => {
            let base = entry.get(4..)?.first_chunk().copied().map(u64::from_le_bytes)?;
            platform.local_apic = PhysAddr(base);
        }
        _ => {}
    }
    Some(())
}

pub(super) fn u16_at(entry: &[u8], at: usize) -> Option<u16> {
    entry.get(at..)?.first_chunk().copied().map(u16::from_le_bytes)
}

fn u32_at(entry: &[u8], at: usize) -> Option<u32> {
    entry.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}
