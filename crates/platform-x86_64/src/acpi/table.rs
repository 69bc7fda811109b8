//! The way to a table: root pointer (RSDP), root table (XSDT or RSDT), header, checksum
//! (ACPI specification, 5.2.5 to 5.2.8). Fields are read by offset, and every read can fail.

use nile_abi::PhysAddr;

use super::MapPhysical;

/// Bytes before a table's own content.
pub const HEADER_BYTES: usize = 36;

/// No table that we read is longer; a length beyond it is taken for damage.
const MAX_TABLE_BYTES: usize = 4 << 20;

const RSDP_SIGNATURE: &[u8; 8] = b"RSD PTR ";
const RSDP_V1_BYTES: usize = 20;
const RSDP_V2_BYTES: usize = 36;

/// Where the BIOS data area keeps the segment of the extended BIOS data area.
const EBDA_SEGMENT_AT: PhysAddr = PhysAddr(0x40e);
const EBDA_SEARCH_BYTES: usize = 1024;
/// The read-only BIOS area that may hold the root pointer.
const BIOS_AREA: PhysAddr = PhysAddr(0xe0000);
const BIOS_AREA_BYTES: usize = 0x20000;

fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Looks for the root pointer where PC firmware keeps it: at 16-byte steps in the first KiB of
/// the extended BIOS data area, then in the BIOS area below 1 MiB.
pub fn search(map: MapPhysical<'_, '_>) -> Option<PhysAddr> {
    let ebda = map(EBDA_SEGMENT_AT, 2)
        .and_then(|bytes| field(bytes, 0))
        .map(|segment| PhysAddr(u64::from(u16::from_le_bytes(segment)) << 4))
        .filter(|ebda| ebda.0 != 0);
    let areas = [(ebda, EBDA_SEARCH_BYTES), (Some(BIOS_AREA), BIOS_AREA_BYTES)];
    areas.into_iter().find_map(|(start, bytes)| {
        let start = start?;
        let found = map(start, bytes)?.chunks_exact(16).position(|chunk| {
            // The rest of the structure is verified when it is read.
            chunk.starts_with(RSDP_SIGNATURE)
        })?;
        start.checked_add(found as u64 * 16)
    })
}

/// The root table: where the other tables are.
pub struct Root<'m> {
    table: Table<'m>,
    entry_bytes: usize,
}

impl<'m> Root<'m> {
    /// The root table that the root pointer at `rsdp` leads to: the 64-bit one where there is
    /// one, else the 32-bit one.
    pub fn read(rsdp: PhysAddr, map: MapPhysical<'_, 'm>) -> Option<Root<'m>> {
        let v1 = map(rsdp, RSDP_V1_BYTES)?;
        if !v1.starts_with(RSDP_SIGNATURE) || !sums_to_zero(v1) {
            return None;
        }
        let revision = *v1.get(15)?;
        let wide = (revision >= 2).then(|| {
            let v2 = map(rsdp, RSDP_V2_BYTES).filter(|bytes| sums_to_zero(bytes))?;
            Root::at(PhysAddr(u64::from_le_bytes(field(v2, 24)?)), b"XSDT", 8, map)
        });
        wide.flatten().or_else(|| {
            let at = u32::from_le_bytes(field(v1, 16)?);
            Root::at(PhysAddr(at.into()), b"RSDT", 4, map)
        })
    }

    fn at(
        at: PhysAddr,
        signature: &[u8; 4],
        entry_bytes: usize,
        map: MapPhysical<'_, 'm>,
    ) -> Option<Root<'m>> {
        let table = Table::read(at, map).filter(|table| table.signature() == signature)?;
        Some(Root { table, entry_bytes })
    }

    /// The addresses of the other tables.
    pub fn entries(&self) -> impl Iterator<Item = PhysAddr> {
        self.table.content().chunks_exact(self.entry_bytes).map(|entry| {
            let mut wide = [0; 8];
            wide[..entry.len()].copy_from_slice(entry);
            PhysAddr(u64::from_le_bytes(wide))
        })
    }
}

/// A table whose header and checksum have been verified.
pub struct Table<'m> {
    bytes: &'m [u8],
}

impl<'m> Table<'m> {
    /// The table at `at`; `None` if it cannot be read or is malformed.
    pub fn read(at: PhysAddr, map: MapPhysical<'_, 'm>) -> Option<Table<'m>> {
        let header = map(at, HEADER_BYTES)?;
        let length = u32::from_le_bytes(field(header, 4)?) as usize;
        if !(HEADER_BYTES..=MAX_TABLE_BYTES).contains(&length) {
            return None;
        }
        let bytes = map(at, length).filter(|bytes| bytes.len() == length)?;
        sums_to_zero(bytes).then_some(Table { bytes })
    }

    /// The four letters that name the table; "????" cannot happen, as the header was verified.
    pub fn signature(&self) -> &[u8; 4] {
        self.bytes.first_chunk().unwrap_or(b"????")
    }

    /// What follows the header.
    pub fn content(&self) -> &'m [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The byte at `at`, counted from the table's start.
    pub fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The 32-bit field at `at`, counted from the table's start.
    pub fn u32(&self, at: usize) -> Option<u32> {
        field(self.bytes, at).map(u32::from_le_bytes)
    }

    /// The 64-bit field at `at`, counted from the table's start.
    pub fn u64(&self, at: usize) -> Option<u64> {
        field(self.bytes, at).map(u64::from_le_bytes)
    }
}
