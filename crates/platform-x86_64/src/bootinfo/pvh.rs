//! PVH's start info, version 1: a fixed header that points at everything else.
//!
//! | offset | size | header                |   | offset | size | map entry, 24 bytes    |
//! | ------ | ---- | --------------------- | - | ------ | ---- | ---------------------- |
//! | 0      | 4    | magic                 |   | 0      | 8    | first byte             |
//! | 4      | 4    | version               |   | 8      | 8    | bytes                  |
//! | 12     | 4    | modules               |   | 16     | 4    | kind                   |
//! | 16     | 8    | address of modules    |   |        |      |                        |
//! | 24     | 8    | address of command line | |        |      | **module, 32 bytes**   |
//! | 32     | 8    | address of RSDP       |   | 0      | 8    | first byte             |
//! | 40     | 8    | address of memory map |   | 8      | 8    | bytes                  |
//! | 48     | 4    | memory map entries    |   |        |      |                        |

use nile_abi::PhysAddr;
use nile_memory::{MemoryKind, MemoryRegion};

use super::{
    BootInfo, BootInfoError, MAX_COMMAND_LINE, MAX_ENTRIES, ReadPhysical, kind, module, text,
    u32_at, u64_at,
};

/// The first word of the start info.
pub const MAGIC: u32 = 0x336e_c578;

const HEADER_BYTES: usize = 56;
const ENTRY_BYTES: usize = 24;
const MODULE_BYTES: usize = 32;

/// Reads the start info at `info`.
pub fn read<'m>(
    info: PhysAddr,
    memory: ReadPhysical<'_, 'm>,
) -> Result<BootInfo<'m>, BootInfoError> {
    let header = memory(info, HEADER_BYTES).ok_or(BootInfoError::Unreadable)?;
    if u32_at(header, 0) != Some(MAGIC) {
        return Err(BootInfoError::UnknownLoader);
    }
    if u32_at(header, 4).unwrap_or(0) < 1 {
        return Err(BootInfoError::NoMemoryMap);
    }
    let address = |offset| u64_at(header, offset).filter(|at| *at != 0).map(PhysAddr);

    let mut found = BootInfo { rsdp: address(32), ..BootInfo::default() };
    let entries = u32_at(header, 48).unwrap_or(0) as usize;
    let map = address(40)
        .and_then(|at| memory(at, entries.min(MAX_ENTRIES) * ENTRY_BYTES))
        .ok_or(BootInfoError::Unreadable)?;
    for entry in map.chunks_exact(ENTRY_BYTES) {
        if let (Some(start), Some(bytes), Some(number)) =
            (u64_at(entry, 0), u64_at(entry, 8), u32_at(entry, 16))
        {
            found.claims.push(MemoryRegion::new(PhysAddr(start), bytes, kind(number)));
        }
    }
    let mut claim = |at: PhysAddr, bytes: usize| {
        found.claims.push(MemoryRegion::new(at, bytes as u64, MemoryKind::Kernel));
    };
    claim(info, HEADER_BYTES);
    if let Some(at) = address(24) {
        // The line's length is in the line.
        let byte = |i: usize| at.checked_add(i as u64).and_then(|at| memory(at, 1));
        let length =
            (0..=MAX_COMMAND_LINE).take_while(|i| byte(*i).is_some_and(|byte| byte != [0])).count();
        found.command_line = text(memory(at, length).ok_or(BootInfoError::Unreadable)?)?;
        byte(length).ok_or(BootInfoError::Unreadable)?;
        claim(at, length);
    }
    if u32_at(header, 12).unwrap_or(0) > 0 {
        let entry = address(16).and_then(|at| memory(at, MODULE_BYTES));
        let said = entry.and_then(|entry| Some((u64_at(entry, 0)?, u64_at(entry, 8)?)));
        let (start, bytes) = said.ok_or(BootInfoError::Unreadable)?;
        let contents = module(PhysAddr(start), bytes, memory)?;
        found.module = Some(contents);
        claim(PhysAddr(start), contents.len());
    }
    Ok(found)
}
