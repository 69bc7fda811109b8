//! The DMAR: where the units are through which devices reach memory (Intel VT-d specification, 8.1
//! to 8.3).

use heapless::Vec;
use nile_abi::{PageSize, PhysAddr};

use super::MAX_IOMMUS;
use super::madt::u16_at;
use super::table::{HEADER_BYTES, Table};

/// The width of addresses and flags stand before the entries.
const ENTRIES_AT: usize = HEADER_BYTES + 12;

/// Bytes of an entry's kind and length.
const LEAST: usize = 4;

/// The entry of a unit: the segment whose devices it sees, and where its registers are.
const UNIT: u16 = 0;
const SEGMENT: usize = 6;
const REGISTERS: usize = 8;

/// The units of the first segment. None if the table is malformed or has more than we take: a
/// device whose unit is missing would reach all memory.
pub fn units(table: &Table<'_>) -> Option<Vec<PhysAddr, MAX_IOMMUS>> {
    let mut units = Vec::new();
    let mut entries = table.content().get(ENTRIES_AT - HEADER_BYTES..)?;
    while !entries.is_empty() {
        let (kind, length) = (u16_at(entries, 0)?, usize::from(u16_at(entries, 2)?));
        let (entry, rest) = entries.split_at_checked(length).filter(|_| length >= LEAST)?;
        if kind == UNIT && u16_at(entry, SEGMENT)? == 0 {
            let base = entry.get(REGISTERS..)?.first_chunk().copied().map(u64::from_le_bytes)?;
            let base = PhysAddr(base);
            let is_sound = base.0 != 0 && base.is_aligned(PageSize::Small);
            units.push(is_sound.then_some(base)?).ok()?;
        }
        entries = rest;
    }
    Some(units)
}
