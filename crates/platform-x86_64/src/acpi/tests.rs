//! Tables made by hand, whole, cut short and damaged.

extern crate std;

use std::vec::Vec;

use super::*;

const RSDP_AT: usize = 0xe_0040;
const XSDT_AT: usize = 0x1000;
const RSDT_AT: usize = 0x1400;
const MADT_AT: usize = 0x2000;
const FADT_AT: usize = 0x3000;
const HPET_AT: usize = 0x4000;
const DSDT_AT: usize = 0x5000;
const MCFG_AT: usize = 0x6000;
const DMAR_AT: usize = 0x7000;

/// A machine's memory with tables in it.
#[derive(Clone)]
struct Memory(Vec<u8>);

impl Memory {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts a table with this content there, its length and checksum right.
    fn put_table(&mut self, at: usize, signature: &[u8; 4], content: &[u8]) {
        let mut table = Vec::from(*signature);
        table.extend((36 + content.len() as u32).to_le_bytes());
        table.resize(36, 0);
        table.extend(content);
        table[9] = complement(&table);
        self.put(at, &table);
    }

    fn map(&self, start: PhysAddr, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(start.0).ok()?;
        self.0.get(start..start.checked_add(bytes)?)
    }

    fn find(&self, rsdp: Option<usize>) -> Result<Platform, AcpiError> {
        let map = |start, bytes| self.map(start, bytes);
        Platform::find(rsdp.map(|at| PhysAddr(at as u64)), &map)
    }
}

/// What makes the sum of `bytes` zero.
fn complement(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte))
}

/// The content of a structure, from its fields' offsets and bytes; `base` is subtracted.
fn content(base: usize, bytes: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut content = std::vec![0; bytes - base];
    for (at, field) in fields {
        content[at - base..at - base + field.len()].copy_from_slice(field);
    }
    content
}

fn madt_core(id: u8, flags: u8) -> [u8; 8] {
    [0, 8, id, id, flags, 0, 0, 0]
}

fn madt() -> Vec<u8> {
    let mut entries = Vec::from([0x00, 0x00, 0xe0, 0xfe, 1, 0, 0, 0]);
    entries.extend(madt_core(0, 1));
    entries.extend(madt_core(2, 1));
    entries.extend(madt_core(4, 0));
    // The same core once more, as some firmware does, and one with a wide id.
    entries.extend([9, 16, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    entries.extend([9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    entries.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 24, 0, 0, 0]);
    entries.extend([2, 10, 0, 9, 9, 0, 0, 0, 0x0f, 0]);
    entries.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
    entries
}

fn fadt() -> Vec<u8> {
    content(
        36,
        276,
        &[
            (40, &(DSDT_AT as u32).to_le_bytes()),
            (48, &[0xb2, 0, 0, 0]),
            (52, &[0xf1]),
            (64, &[0x04, 0x06, 0, 0]),
            (76, &[0x08, 0x06, 0, 0]),
            (112, &[0, 1, 0, 0]),
        ],
    )
}

/// Configuration space of the buses of one segment, from `first_bus` on.
fn mcfg(segment: u8, first_bus: u8) -> Vec<u8> {
    content(36, 60, &[(47, &[0xb0]), (52, &[segment, 0, first_bus, 0xff])])
}

/// A unit of a segment with its registers there.
fn unit(segment: u8, base: u32) -> Vec<u8> {
    let scope = [1, 8, 0, 0, 0, 0, 5, 0];
    let [a, b, c, d] = base.to_le_bytes();
    [&[0, 0, 24, 0, 1, 0, segment, 0, a, b, c, d, 0, 0, 0, 0][..], &scope].concat()
}

/// Units, with an entry of another kind between them.
fn dmar(units: &[Vec<u8>]) -> Vec<u8> {
    let mut content = Vec::from([38, 1]);
    content.resize(12, 0);
    for unit in units {
        content.extend([1, 0, 8, 0, 0, 0, 0, 0]);
        content.extend(unit);
    }
    content
}

/// Byte code around `Name (_S5, Package () { 5, 1, 0, 0 })`, after a mention that is none.
const DSDT: &[u8] = b"\x10\x09_S5_\x12\x14\x08_S4_\x0a\x08_S5_\x12\x07\x04\x0a\x05\x01\x00\x00";

/// A machine with every table.
fn machine() -> Memory {
    let mut memory = Memory(std::vec![0; 0x10_0000]);
    let tables = [MADT_AT, FADT_AT, HPET_AT, MCFG_AT, DMAR_AT];
    let wide: Vec<u8> = tables.iter().flat_map(|at| (*at as u64).to_le_bytes()).collect();
    let narrow: Vec<u8> = tables.iter().flat_map(|at| (*at as u32).to_le_bytes()).collect();
    memory.put_table(XSDT_AT, b"XSDT", &wide);
    memory.put_table(RSDT_AT, b"RSDT", &narrow);
    memory.put_table(MADT_AT, b"APIC", &madt());
    memory.put_table(FADT_AT, b"FACP", &fadt());
    memory.put_table(HPET_AT, b"HPET", &content(36, 56, &[(46, &[0xd0, 0xfe])]));
    memory.put_table(MCFG_AT, b"MCFG", &mcfg(0, 0));
    memory.put_table(DMAR_AT, b"DMAR", &dmar(&[unit(0, 0xfed9_0000), unit(1, 0xfed9_1000)]));
    memory.put_table(DSDT_AT, b"DSDT", DSDT);
    put_rsdp(&mut memory, 2);
    memory
}

fn put_rsdp(memory: &mut Memory, revision: u8) {
    let mut rsdp = Vec::from(*b"RSD PTR ");
    rsdp.resize(36, 0);
    rsdp[15] = revision;
    rsdp[16..20].copy_from_slice(&(RSDT_AT as u32).to_le_bytes());
    rsdp[20] = 36;
    rsdp[24..32].copy_from_slice(&(XSDT_AT as u64).to_le_bytes());
    rsdp[8] = complement(&rsdp[..20]);
    rsdp[32] = complement(&rsdp);
    memory.put(RSDP_AT, &rsdp);
}

#[test]
fn a_whole_machine_is_found() {
    let platform = machine().find(Some(RSDP_AT)).expect("the tables are whole");
    assert_eq!(*platform.cores, [ApicId(0), ApicId(2), ApicId(256)]);
    assert_eq!(platform.local_apic, DEFAULT_LOCAL_APIC);
    assert_eq!(*platform.io_apics, [IoApicEntry { base: PhysAddr(0xfec0_0000), first_line: 24 }]);
    let level = InterruptOverride {
        irq: 9,
        line: 9,
        trigger: Trigger::Level,
        polarity: Polarity::ActiveLow,
    };
    let timer = InterruptOverride {
        irq: 0,
        line: 2,
        trigger: Trigger::Edge,
        polarity: Polarity::ActiveHigh,
    };
    assert_eq!(*platform.overrides, [level, timer]);
    assert_eq!(platform.hpet, Some(PhysAddr(0xfed0_0000)));
    assert_eq!(platform.ecam, Some(Ecam { base: PhysAddr(0xb000_0000), last_bus: 0xff }));
    assert_eq!(*platform.iommus, [PhysAddr(0xfed9_0000)]);
    assert_eq!(platform.pm_timer, Some(PmTimer { port: 0x608, wide: true }));
    let soft_off = SoftOff {
        control_a: 0x604,
        control_b: None,
        type_a: 5,
        type_b: 1,
        enable: Some((0xb2, 0xf1)),
    };
    assert_eq!(platform.soft_off, Some(soft_off));
}

#[test]
fn the_root_pointer_is_found_where_firmware_keeps_it() {
    assert!(machine().find(None).is_ok());
    let mut elsewhere = machine();
    let rsdp = elsewhere.0[RSDP_AT..RSDP_AT + 36].to_vec();
    elsewhere.put(RSDP_AT, &[0; 36]);
    assert_eq!(elsewhere.find(None).err(), Some(AcpiError::NoRootPointer));
    elsewhere.put(0x9_fc10, &rsdp);
    elsewhere.put(0x40e, &0x9fc0u16.to_le_bytes());
    assert!(elsewhere.find(None).is_ok());
}

#[test]
fn without_the_wide_root_the_narrow_one_serves() {
    let mut memory = machine();
    memory.0[XSDT_AT + 9] ^= 1;
    assert_eq!(memory.find(Some(RSDP_AT)).map(|platform| platform.cores.len()), Ok(3));
    put_rsdp(&mut memory, 0);
    assert_eq!(memory.find(Some(RSDP_AT)).map(|platform| platform.cores.len()), Ok(3));
    memory.0[RSDT_AT + 9] ^= 1;
    assert_eq!(memory.find(Some(RSDP_AT)).err(), Some(AcpiError::BadRoot));
}

#[test]
fn a_damaged_table_is_as_good_as_absent() {
    let mut memory = machine();
    memory.0[HPET_AT + 40] ^= 1;
    assert_eq!(memory.find(Some(RSDP_AT)).map(|platform| platform.hpet), Ok(None));
    memory.0[DSDT_AT + 40] ^= 1;
    assert_eq!(memory.find(Some(RSDP_AT)).map(|platform| platform.soft_off), Ok(None));
    memory.0[MADT_AT + 50] ^= 1;
    assert_eq!(memory.find(Some(RSDP_AT)).err(), Some(AcpiError::NoMadt));
}

#[test]
fn only_the_first_segment_from_bus_zero_on_is_used() {
    for (segment, first_bus) in [(1, 0), (0, 1)] {
        let mut memory = machine();
        memory.put_table(MCFG_AT, b"MCFG", &mcfg(segment, first_bus));
        assert_eq!(memory.find(Some(RSDP_AT)).map(|platform| platform.ecam), Ok(None));
    }
    let mut memory = machine();
    memory.put_table(MCFG_AT, b"MCFG", &mcfg(0, 0)[..16]);
    assert_eq!(memory.find(Some(RSDP_AT)).map(|platform| platform.ecam), Ok(None));
}

#[test]
fn an_iommu_is_known_as_a_whole_or_not_at_all() {
    let found = |content: &[u8]| {
        let mut memory = machine();
        memory.put_table(DMAR_AT, b"DMAR", content);
        let platform = memory.find(Some(RSDP_AT)).expect("the MADT is whole");
        platform.iommus.iter().map(|at| at.0).collect::<Vec<_>>()
    };
    let many = |count| (1..=count).map(|at| unit(0, at << 12)).collect::<Vec<_>>();
    assert_eq!(found(&dmar(&many(2))), [0x1000, 0x2000]);
    assert_eq!(found(&dmar(&many(MAX_IOMMUS as u32))).len(), MAX_IOMMUS);
    assert_eq!(found(&dmar(&many(MAX_IOMMUS as u32 + 1))), [0; 0]);
    assert_eq!(found(&dmar(&[unit(0, 0x1000), unit(0, 0x2010)])), [0; 0], "no page begins there");
    assert_eq!(found(&dmar(&[unit(0, 0x1000), unit(0, 0)])), [0; 0]);
    let whole = dmar(&many(2));
    for end in 0..whole.len() {
        // What ends with an entry is a whole table of fewer.
        let has_one = [44, 52].contains(&end);
        assert_eq!(found(&whole[..end]).len(), usize::from(has_one), "{end}");
    }
    for length in [0, 3, 255] {
        let mut content = dmar(&many(1));
        content.extend([0, 0, length, 0]);
        assert_eq!(found(&content), [0; 0], "{length}");
    }
}

#[test]
fn a_madt_without_an_enabled_core_is_an_error() {
    let mut memory = machine();
    let mut entries = madt();
    entries.truncate(8);
    entries.extend(madt_core(0, 0));
    memory.put_table(MADT_AT, b"APIC", &entries);
    assert_eq!(memory.find(Some(RSDP_AT)).err(), Some(AcpiError::NoCores));
}

#[test]
fn entries_of_no_length_and_beyond_the_end_stop_the_walk() {
    for (kind, length) in [(0, 0), (0, 1), (0, 255), (9, 15)] {
        let mut memory = machine();
        let mut entries = madt();
        entries.truncate(8);
        entries.extend(madt_core(7, 1));
        entries.extend([kind, length]);
        entries.extend(madt_core(8, 1));
        memory.put_table(MADT_AT, b"APIC", &entries);
        let platform = memory.find(Some(RSDP_AT)).expect("one core is named");
        assert_eq!(platform.cores.first(), Some(&ApicId(7)), "{kind} {length}");
    }
}

#[test]
fn more_cores_and_controllers_than_we_take_are_left_alone() {
    let mut memory = machine();
    let mut entries = madt();
    entries.truncate(8);
    for id in 0..400u32 {
        entries.extend([9, 16, 0, 0]);
        entries.extend(id.to_le_bytes());
        entries.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        entries.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
    }
    memory.0.resize(0x20_0000, 0);
    memory.put(0x18_0000, &entries);
    memory.put_table(0x18_0000, b"APIC", &entries);
    memory.put_table(XSDT_AT, b"XSDT", &0x18_0000u64.to_le_bytes());
    let platform = memory.find(Some(RSDP_AT)).expect("there are cores");
    assert_eq!((platform.cores.len(), platform.io_apics.len()), (MAX_CORES, MAX_IO_APICS));
}

#[test]
fn a_sleep_type_in_any_encoding_is_found() {
    let packages: [(&[u8], _); 6] = [
        (b"\x08_S5_\x12\x06\x04\x00\x00\x00\x00", Some((0, 0))),
        (b"\x08\\_S5_\x12\x06\x02\x01\x0a\x07", Some((1, 7))),
        (b"\x08_S5_\x12\x40\x01\x02\x0b\x05\x00\x0c\x06\x00\x00\x00", Some((5, 6))),
        (b"\x08_S5_\x12\x06\x02\x0a\x08\x00", None),
        (b"\x08_S5_\x0a\x05", None),
        (b"\x08_S5_\x12", None),
    ];
    for (code, expected) in packages {
        let mut memory = machine();
        memory.put_table(DSDT_AT, b"DSDT", code);
        let platform = memory.find(Some(RSDP_AT)).expect("the MADT is whole");
        let found = platform.soft_off.map(|soft_off| (soft_off.type_a, soft_off.type_b));
        assert_eq!(found, expected, "{code:x?}");
    }
}

#[test]
fn memory_that_ends_anywhere_never_panics() {
    let whole = machine();
    let tables_end = DSDT_AT + 36 + DSDT.len();
    let mut seen = (0, 0);
    for end in (0..tables_end).chain(RSDP_AT..RSDP_AT + 36) {
        let map = |start: PhysAddr, bytes| {
            // The root pointer stays readable while the tables are cut, and the other way round.
            let cut = if start.0 < 0xe_0000 && end < 0xe_0000 { end } else { usize::MAX };
            let cut = if start.0 >= 0xe_0000 && end >= 0xe_0000 { end } else { cut };
            let last = usize::try_from(start.0).ok()?.checked_add(bytes)?;
            whole.map(start, bytes).filter(|_| last <= cut)
        };
        match Platform::find(Some(PhysAddr(RSDP_AT as u64)), &map) {
            Ok(_) => seen.0 += 1,
            Err(_) => seen.1 += 1,
        }
    }
    assert!(seen.0 > 0 && seen.1 > 0, "{seen:?}");
}

#[test]
fn damaged_and_random_tables_never_panic() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut memory = machine();
    let mut found = 0;
    for _ in 0..4000 {
        // Random content with a right checksum, so that the readers behind it are reached.
        for (at, signature, bytes) in
            [(MADT_AT, b"APIC", 120), (FADT_AT, b"FACP", 240), (DSDT_AT, b"DSDT", 60)]
                .into_iter()
                .chain([(MCFG_AT, b"MCFG", 40), (DMAR_AT, b"DMAR", 80)])
        {
            let content: Vec<u8> = (0..random() % bytes).map(|_| random() as u8 % 20).collect();
            memory.put_table(at, signature, &content);
        }
        let byte = [XSDT_AT, RSDT_AT, HPET_AT, RSDP_AT][random() as usize % 4];
        let byte = byte + random() as usize % 60;
        let kept = memory.0[byte];
        memory.0[byte] = random() as u8;
        found += usize::from(memory.find(Some(RSDP_AT)).is_ok());
        memory.0[byte] = kept;
    }
    assert!((1..4000).contains(&found), "{found}");
}
