//! Multiboot2's information: a total length, then tags, each with type and length, 8-byte aligned.
//!
//! | type   | tag                | content after type and length                             |
//! | ------ | ------------------ | --------------------------------------------------------- |
//! | 0      | end                |                                                           |
//! | 1      | command line       | text                                                      |
//! | 3      | module             | start (4), end (4), text                                  |
//! | 6      | memory map         | entry size (4), version (4), start (8) bytes (8) kind (4) |
//! | 14, 15 | ACPI 1, ACPI 2     | a copy of the root pointer                                |

use nile_abi::PhysAddr;
use nile_memory::{MemoryKind, MemoryRegion};

use super::{
    BootInfo, BootInfoError, MAX_ENTRIES, ReadPhysical, kind, module, text, u32_at, u64_at,
};

/// What the loader leaves in EAX.
pub const LOADER_MAGIC: u32 = 0x36d7_6289;

/// The most bytes of information that are looked at.
const MAX_BYTES: usize = 1 << 20;

/// The tag behind all others.
const END: u32 = 0;

const HEADER_BYTES: usize = 8;
const TAG_BYTES: usize = 8;
const ENTRY_BYTES: usize = 20;

/// Reads the information at `info`.
pub fn read<'m>(
    info: PhysAddr,
    memory: ReadPhysical<'_, 'm>,
) -> Result<BootInfo<'m>, BootInfoError> {
    let header = memory(info, HEADER_BYTES).ok_or(BootInfoError::Unreadable)?;
    let total = u32_at(header, 0).unwrap_or(0) as usize;
    if !(HEADER_BYTES..=MAX_BYTES).contains(&total) {
        return Err(BootInfoError::Unreadable);
    }
    let all = memory(info, total).ok_or(BootInfoError::Unreadable)?;

    let mut found = BootInfo::default();
    found.claims.push(MemoryRegion::new(info, total as u64, MemoryKind::Kernel));
    let mut offset = HEADER_BYTES;
    while let (Some(tag), Some(bytes)) = (u32_at(all, offset), u32_at(all, offset + 4)) {
        if tag == END {
            break;
        }
        let bytes = bytes as usize;
        // Behind a tag that contradicts itself the next one cannot be found: a module, maybe.
        let content = all.get(offset + TAG_BYTES..offset.saturating_add(bytes));
        let content = content.ok_or(BootInfoError::Unreadable)?;
        match tag {
            1 => found.command_line = text(content)?,
            3 if found.module.is_none() => add_module(&mut found, content, memory)?,
            6 => add_map(&mut found, content),
            // The newer copy has the wider address; it counts wherever it stands.
            14 if found.rsdp.is_some() => {}
            14 | 15 => found.rsdp = info.checked_add((offset + TAG_BYTES) as u64),
            _ => {}
        }
        offset += bytes.next_multiple_of(8);
    }
    Ok(found)
}

fn add_module<'m>(
    found: &mut BootInfo<'m>,
    content: &[u8],
    memory: ReadPhysical<'_, 'm>,
) -> Result<(), BootInfoError> {
    let (Some(start), Some(end)) = (u32_at(content, 0), u32_at(content, 4)) else {
        return Err(BootInfoError::Unreadable);
    };
    let at = PhysAddr(u64::from(start));
    let bytes = u64::from(end.checked_sub(start).ok_or(BootInfoError::Unreadable)?);
    found.module = Some(module(at, bytes, memory)?);
    found.claims.push(MemoryRegion::new(at, bytes, MemoryKind::Kernel));
    Ok(())
}

fn add_map(found: &mut BootInfo<'_>, content: &[u8]) {
    let (Some(entry_bytes), Some(entries)) = (u32_at(content, 0), content.get(8..)) else {
        return;
    };
    let entry_bytes = entry_bytes as usize;
    if entry_bytes < ENTRY_BYTES {
        return;
    }
    let room = MAX_ENTRIES.saturating_sub(found.claims.len());
    for entry in entries.chunks_exact(entry_bytes).take(room) {
        if let (Some(start), Some(bytes), Some(number)) =
            (u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))
        {
            found.claims.push(MemoryRegion::new(PhysAddr(start), bytes, kind(number)));
        }
    }
}
