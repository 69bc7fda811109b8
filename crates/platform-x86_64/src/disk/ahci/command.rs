//! Commands as they lie in memory (AHCI 1.3.1, 4.2; Serial ATA 3.0, 10.3.4), and the 512 bytes by
//! which a disk says what it is (ATA8-ACS, 7.16).

use alloc::string::String;

use nile_platform::disk::MAX_PIECES;

/// Bytes of a command's header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of its table: the command itself, then the memory.
pub const TABLE_BYTES: usize = 512;

/// Where the memory's list is in a table, and bytes of one entry of it.
const LIST: usize = 0x80;
const ENTRY_BYTES: usize = 16;

/// Bytes of one entry's memory, at most.
const MOST: u64 = 4 << 20;

/// Entries of a list: a long piece takes more than one.
pub const ENTRIES: usize = MAX_PIECES + 2;
const _: () = assert!(LIST + ENTRIES * ENTRY_BYTES <= TABLE_BYTES);
const _: () = assert!(nile_platform::disk::MAX_BYTES <= 2 * MOST);

const FROM_HOST: u8 = 0x27;
const IS_COMMAND: u8 = 1 << 7;
const BY_SECTOR: u8 = 1 << 6;
const COMMAND_WORDS: u32 = 5;
const WRITES: u32 = 1 << 6;

/// What a disk is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Action {
    /// READ DMA EXT.
    Read = 0x25,
    /// WRITE DMA EXT.
    Write = 0x35,
    /// FLUSH CACHE EXT.
    Flush = 0xea,
    /// IDENTIFY DEVICE.
    Identify = 0xec,
}

/// A command: `sectors` sectors from `sector` on, and the memory by address and length.
pub fn build(
    action: Action,
    sector: u64,
    sectors: u16,
    table_at: u64,
    memory: impl Iterator<Item = (u64, u64)>,
) -> ([u8; HEADER_BYTES], [u8; TABLE_BYTES]) {
    let mut table = [0; TABLE_BYTES];
    let place = sector.to_le_bytes();
    table[0] = FROM_HOST;
    table[1] = IS_COMMAND;
    table[2] = action as u8;
    table[4..7].copy_from_slice(&place[..3]);
    table[7] = BY_SECTOR;
    table[8..11].copy_from_slice(&place[3..6]);
    table[12..14].copy_from_slice(&sectors.to_le_bytes());
    let mut entries = 0;
    for (at, bytes) in memory {
        let mut done = 0;
        while done < bytes && entries < ENTRIES {
            let part = MOST.min(bytes - done);
            let entry = &mut table[LIST + entries * ENTRY_BYTES..][..ENTRY_BYTES];
            entry[..8].copy_from_slice(&(at + done).to_le_bytes());
            entry[12..].copy_from_slice(&(part as u32 - 1).to_le_bytes());
            entries += 1;
            done += part;
        }
    }
    let writes = if action == Action::Write { WRITES } else { 0 };
    let first = COMMAND_WORDS | writes | (entries as u32) << 16;
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&first.to_le_bytes());
    header[8..16].copy_from_slice(&table_at.to_le_bytes());
    (header, table)
}

/// What a disk says of itself: its serial number, its sectors, and bytes of each. `None` if it can
/// not be addressed as all disks of today can.
pub fn identity(said: &[u8; 512]) -> Option<(String, u64, u32)> {
    let word = |index: usize| u16::from_le_bytes([said[2 * index], said[2 * index + 1]]);
    let number = |first: usize, words: usize| {
        (first..first + words).rev().fold(0, |number, it| number << 16 | u64::from(word(it)))
    };
    if word(83) & 1 << 10 == 0 {
        return None;
    }
    // Two letters a word, the first in the upper half.
    let letters = (10..20).flat_map(|index| word(index).to_be_bytes());
    let serial: String = letters.filter(u8::is_ascii_graphic).map(char::from).collect();
    let is_said = word(106) >> 14 == 0b01 && word(106) & 1 << 12 != 0;
    let bytes = if is_said { number(117, 2).checked_mul(2)? } else { 512 };
    let bytes = u32::try_from(bytes).ok().filter(|it| it.is_power_of_two() && *it >= 512)?;
    Some((serial, number(100, 4), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_place_and_memory() {
        let memory = [(0x1000, 512), (0x8000_0000_0000, (4 << 20) + 64)];
        let built = build(Action::Write, 0x1234_5678_9abc, 0x201, 0x5000, memory.into_iter());
        let (header, table) = built;
        assert_eq!(header[..4], [0x45, 0, 3, 0]);
        assert_eq!(header[8..16], 0x5000u64.to_le_bytes());
        assert_eq!(table[..3], [0x27, 0x80, 0x35]);
        assert_eq!(table[4..14], [0xbc, 0x9a, 0x78, 0x40, 0x56, 0x34, 0x12, 0, 0x01, 0x02]);
        let entry = |index: usize| {
            let entry = &table[0x80 + 16 * index..][..16];
            let at = u64::from_le_bytes(*entry.first_chunk().unwrap());
            (at, u32::from_le_bytes(*entry.last_chunk().unwrap()))
        };
        assert_eq!(entry(0), (0x1000, 511));
        assert_eq!(entry(1), (0x8000_0000_0000, (4 << 20) - 1));
        assert_eq!(entry(2), (0x8000_0040_0000, 63));
        let (header, _) = build(Action::Flush, 0, 0, 0, core::iter::empty());
        assert_eq!(header[..4], [5, 0, 0, 0]);
    }

    #[test]
    fn a_disk_says_its_size_and_serial_number() {
        let mut said = [0; 512];
        said[20..28].copy_from_slice(b"INEL 070");
        assert_eq!(identity(&said), None, "it has too few bits for sectors");
        said[167] = 1 << 2;
        said[200..203].copy_from_slice(&[1, 2, 3]);
        assert_eq!(identity(&said), Some(("NILE007".into(), 0x3_0201, 512)));
        said[213] = 0b0101_0000;
        said[234..238].copy_from_slice(&2048u32.to_le_bytes());
        assert_eq!(identity(&said), Some(("NILE007".into(), 0x3_0201, 4096)));
        said[234] = 1;
        assert_eq!(identity(&said), None);
    }
}
