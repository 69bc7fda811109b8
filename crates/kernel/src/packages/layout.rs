//! Where in a package's slot everything is, and the entry table's bytes.
//!
//! ```text
//! base of the slot            the gate's code, where the gate is code
//!           +      0x1000     the entry table
//!           +      0x2000     the argument, up to 64 KiB
//!           +   0x20_0000     the stack; nothing below it, nothing above it
//!           +  0x100_0000     the image, up to 512 MiB
//!           + 0x4000_0000     the arena, then what the package asks for later
//! ```

use nile_abi::call::{EntryTable, USER_BYTES};

/// Bytes of a page.
pub(super) const PAGE: u64 = nile_abi::PageSize::Small.bytes();

// From the base of the slot on.
pub(super) const GATE: u64 = 0;
pub(super) const TABLE: u64 = PAGE;
pub(super) const ARGUMENT: u64 = 2 * PAGE;
pub(super) const STACK: u64 = 0x20_0000;
pub(super) const IMAGE: u64 = 0x100_0000;
pub(super) const HEAP: u64 = 0x4000_0000;

/// The end of its own memory.
pub(super) const END: u64 = USER_BYTES;

/// The most bytes of an argument.
pub(super) const ARGUMENT_BYTES: u64 = 64 * 1024;

/// The most bytes of a stack: there is room for it and unmapped pages before the image.
pub(super) const MOST_STACK: u64 = 8 << 20;

// No part reaches into the next, and around the stack is room for pages that are not there.
const _: () = assert!(ARGUMENT + ARGUMENT_BYTES <= STACK - PAGE);
const _: () = assert!(STACK + MOST_STACK <= IMAGE - PAGE);
const _: () = assert!(IMAGE + nile_package::MAX_IMAGE_BYTES <= HEAP);
const _: () = assert!(HEAP < END);

/// The table as the package finds it. Every field is little-endian, as on every machine that runs
/// packages.
pub(super) fn encode(table: &EntryTable) -> [u8; size_of::<EntryTable>()] {
    let ids = u64::from(table.generation.0) << 32 | u64::from(table.core.0);
    let words = [
        table.magic,
        table.bytes,
        ids,
        table.gate,
        table.arena[0],
        table.arena[1],
        table.argument[0],
        table.argument[1],
        table.stack[0],
        table.stack[1],
    ];
    let mut bytes = [0; size_of::<EntryTable>()];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;
    use nile_abi::{CoreId, Generation};

    #[test]
    fn the_table_is_where_its_layout_says() {
        let table = EntryTable {
            magic: EntryTable::MAGIC,
            bytes: 80,
            core: CoreId(3),
            generation: Generation(5),
            gate: 7,
            arena: [11, 13],
            argument: [17, 19],
            stack: [23, 29],
        };
        let bytes = encode(&table);
        let at = |offset: usize| u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap());
        assert_eq!(at(offset_of!(EntryTable, magic)), EntryTable::MAGIC);
        assert_eq!(at(offset_of!(EntryTable, bytes)), 80);
        assert_eq!(bytes[offset_of!(EntryTable, core)..][..2], [3, 0]);
        assert_eq!(bytes[offset_of!(EntryTable, generation)..][..4], [5, 0, 0, 0]);
        assert_eq!(at(offset_of!(EntryTable, gate)), 7);
        assert_eq!(at(offset_of!(EntryTable, arena) + 8), 13);
        assert_eq!(at(offset_of!(EntryTable, argument) + 8), 19);
        assert_eq!(at(offset_of!(EntryTable, stack)), 23);
        assert_eq!(at(offset_of!(EntryTable, stack) + 8), 29);
    }
}
