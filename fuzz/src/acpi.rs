//! The firmware's tables.

use std::cell::Cell;
use std::collections::HashSet;

use nile_abi::{MAX_CORES, PhysAddr};
use nile_platform_x86_64::acpi::{MAX_TABLES, Platform};

/// The place and size of the area in which PC firmware keeps the root pointer: the input's memory.
const BASE: u64 = 0xe_0000;
const AREA_BYTES: usize = 0x2_0000;

/// The most reads of memory that tables are worth: each takes two, and brings another at most.
const MOST_READS: usize = 4 * MAX_TABLES + 16;

/// The signatures that the walk looks for.
const TABLES: [&[u8; 4]; 8] =
    [b"XSDT", b"RSDT", b"APIC", b"FACP", b"HPET", b"DSDT", b"MCFG", b"DMAR"];

/// The bytes as the firmware's area, first as they are, then with every checksum made right. The
/// root pointer is searched for unless it comes first. Accepted: the second time they describe a
/// machine.
pub fn acpi(bytes: &[u8]) -> bool {
    let rsdp = bytes.starts_with(b"RSD PTR ").then_some(PhysAddr(BASE));
    let mut area = bytes.to_vec();
    if rsdp.is_none() {
        area.resize(AREA_BYTES, 0);
    }
    find(&area, rsdp);
    mend(&mut area, bytes.len());
    find(&area, rsdp)
}

fn find(memory: &[u8], rsdp: Option<PhysAddr>) -> bool {
    let reads = Cell::new(0);
    let map = |at: PhysAddr, len: usize| {
        reads.set(reads.get() + 1);
        let start = usize::try_from(at.0.checked_sub(BASE)?).ok()?;
        memory.get(start..start.checked_add(len)?)
    };
    let found = Platform::find(rsdp, &map);
    assert!(reads.get() <= MOST_READS);
    let Ok(platform) = found else { return false };

    let ids: HashSet<_> = platform.cores.iter().collect();
    assert!((1..=MAX_CORES).contains(&ids.len()) && ids.len() == platform.cores.len());
    assert!(platform.iommus.iter().all(|at| at.0 != 0 && at.0.is_multiple_of(4096)));
    assert!(platform.soft_off.is_none_or(|off| off.type_a < 8 && off.type_b < 8));
    true
}

/// Corrects the checksum of everything in the first `end` bytes that looks like a table or a root
/// pointer, without which changed bytes would never reach the readers behind it.
fn mend(area: &mut [u8], end: usize) {
    for at in (0..end).step_by(4) {
        let Some(signature) = area[at..].first_chunk::<4>() else { return };
        if TABLES.contains(&signature) {
            let length = area[at + 4..].first_chunk().copied().map_or(0, u32::from_le_bytes);
            correct(area, at, length as usize, 9);
        } else if signature == b"RSD " {
            correct(area, at, 20, 8);
            correct(area, at, 36, 32);
        }
    }
}

/// Sets the byte at `place` so that the `length` bytes from `at` add up to zero.
fn correct(area: &mut [u8], at: usize, length: usize, place: usize) {
    let Some(bytes) = area[at..].get_mut(..length) else { return };
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    if let Some(byte) = bytes.get_mut(place) {
        *byte = byte.wrapping_sub(sum);
    }
}
