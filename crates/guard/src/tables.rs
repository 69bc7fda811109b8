//! Changes of page tables.

use nile_abi::PhysAddr;
use nile_memory::paging::{Entry, EntryKind, Level};

use crate::Violation;

/// A frame that holds a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its level.
    pub level: Level,
    /// Whether it has entries that stay, so that it stays linked.
    pub stays: bool,
}

impl Table {
    const STAYS: u8 = 0x10;

    /// As one byte, not zero.
    pub const fn to_byte(self) -> u8 {
        let level = match self.level {
            Level::Pt => 1,
            Level::Pd => 2,
            Level::Pdpt => 3,
            Level::Pml4 => 4,
        };
        if self.stays { level | Table::STAYS } else { level }
    }

    /// What a byte says; `None` if it says nothing.
    pub const fn from_byte(byte: u8) -> Option<Table> {
        let level = match byte & !Table::STAYS {
            1 => Level::Pt,
            2 => Level::Pd,
            3 => Level::Pdpt,
            4 => Level::Pml4,
            _ => return None,
        };
        Some(Table { level, stays: byte & Table::STAYS != 0 })
    }
}

/// What a domain has, as nobody in it can change it.
pub trait Description {
    /// The table in a frame; `None` if there is none of the domain's.
    fn table(&self, at: PhysAddr) -> Option<Table>;

    /// Whether nothing in these bytes is needed by the guard, or by the domain's cores from their
    /// beginning to their end: what the domain itself gives to whom it likes, if it has it.
    fn is_loose(&self, start: PhysAddr, bytes: u64) -> bool;

    /// Whether all of these bytes are the domain's now.
    fn has(&self, start: PhysAddr, bytes: u64) -> bool;
}

/// Whether the entry `old` of the table in the frame `table` may become `new`.
pub fn entry(
    description: &impl Description,
    table: PhysAddr,
    old: Entry,
    new: Entry,
) -> Result<(), Violation> {
    let Table { level, .. } = description.table(table).ok_or(Violation::NoTable(table))?;
    if level == Level::Pml4 {
        return Err(Violation::Upper(table));
    }
    match old.kind(level) {
        EntryKind::Empty | EntryKind::Retired(_) => {}
        EntryKind::Link(_) if level != Level::Pd => return Err(Violation::Upper(table)),
        EntryKind::Link(below) if description.table(below).is_none_or(|it| it.stays) => {
            return Err(Violation::Stays(below));
        }
        EntryKind::Link(_) => {}
        EntryKind::Leaf(phys) => {
            let bytes = level.leaf_size().map_or(0, |it| it.bytes());
            if !description.is_loose(phys, bytes) {
                return Err(Violation::Stays(phys));
            }
        }
    }
    match new.kind(level) {
        EntryKind::Empty | EntryKind::Retired(_) => Ok(()),
        EntryKind::Link(below) => {
            let is_last = description.table(below).is_some_and(|it| it.level == Level::Pt);
            let fits = level == Level::Pd && is_last;
            fits.then_some(()).ok_or(Violation::NoLink(below))
        }
        EntryKind::Leaf(phys) => {
            let size = level.leaf_size().ok_or(Violation::Upper(table))?;
            if !new.permissions().is_write_xor_execute() {
                return Err(Violation::WriteAndExecute(phys));
            }
            memory(description, phys, size.bytes())
        }
    }
}

/// Whether the table in this frame may be emptied. Nothing can be reached through what is empty.
pub fn clear(description: &impl Description, table: PhysAddr) -> Result<(), Violation> {
    match description.table(table) {
        None => Err(Violation::NoTable(table)),
        Some(Table { level: Level::Pt, stays: false }) => Ok(()),
        Some(Table { level: Level::Pt, stays: true }) => Err(Violation::Stays(table)),
        Some(_) => Err(Violation::Upper(table)),
    }
}

/// Whether a core of the domain may have this memory in its tables, or have it zeroed.
pub fn memory(
    description: &impl Description,
    start: PhysAddr,
    bytes: u64,
) -> Result<(), Violation> {
    if !description.has(start, bytes) {
        return Err(Violation::NotOwn(start));
    }
    match description.is_loose(start, bytes) {
        true => Ok(()),
        false => Err(Violation::Guarded(start)),
    }
}
