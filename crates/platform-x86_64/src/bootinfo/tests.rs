//! Both formats, well-formed, cut short at every byte, and with every byte changed.

use alloc::vec;
use alloc::vec::Vec;

use nile_abi::PhysAddr;
use nile_memory::{MemoryKind, MemoryRegion};

use super::{BootInfo, BootInfoError, multiboot2, option, program, pvh, read};

/// Where the test's memory begins.
const BASE: u64 = 0x1000;

/// A physical memory of `bytes` at [`BASE`], read by both formats.
fn read_in(bytes: &[u8], eax: u32, offset: u64) -> Result<BootInfo<'_>, BootInfoError> {
    read(eax, PhysAddr(BASE + offset), &|at: PhysAddr, len: usize| {
        let start = usize::try_from(at.0.checked_sub(BASE)?).ok()?;
        bytes.get(start..start.checked_add(len)?)
    })
}

fn push(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn push_wide(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Header at 0, map of two entries at 56, module entry at 104, command line at 136, config at 160.
fn pvh_memory() -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, &[pvh::MAGIC, 1, 0, 1]);
    push_wide(&mut bytes, &[BASE + 104, BASE + 136, 0xf_5a10, BASE + 56]);
    push(&mut bytes, &[2, 0]);
    push_wide(&mut bytes, &[0, 0x9_fc00, 1]);
    push_wide(&mut bytes, &[0x10_0000, 0x700_0000, 3]);
    push_wide(&mut bytes, &[BASE + 160, 11, 0, 0]);
    bytes.extend(b"program=boot exit=debug\0");
    bytes.extend(b"[[core]]\n#\n");
    bytes
}

fn multiboot2_memory() -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, &[0, 0]);
    push(&mut bytes, &[1, 8 + 13]);
    bytes.extend(b"program=boot\0\0\0\0");
    push(&mut bytes, &[21, 12, 0, 0]);
    push(&mut bytes, &[6, 16 + 48, 24, 0]);
    push_wide(&mut bytes, &[0, 0x9_fc00, 1]);
    push_wide(&mut bytes, &[0x10_0000, 0x700_0000, 2]);
    push(&mut bytes, &[14, 8 + 8, 1, 1]);
    push(&mut bytes, &[15, 8 + 8, 2, 2]);
    let module = bytes.len() as u32 + BASE as u32 + 24 + 8;
    push(&mut bytes, &[3, 17, module, module + 4]);
    bytes.extend(b"\0\0\0\0\0\0\0\0");
    push(&mut bytes, &[0, 8]);
    bytes.extend(b"conf");
    let total = bytes.len() as u32;
    bytes[0..4].copy_from_slice(&total.to_le_bytes());
    bytes
}

fn claim(start: u64, bytes: u64, kind: MemoryKind) -> MemoryRegion {
    MemoryRegion::new(PhysAddr(start), bytes, kind)
}

#[test]
fn pvh_tells_everything() {
    let memory = pvh_memory();
    let found = read_in(&memory, 0, 0).unwrap();
    assert_eq!(found.command_line, "program=boot exit=debug");
    assert_eq!(found.module, Some(&b"[[core]]\n#\n"[..]));
    assert_eq!(found.rsdp, Some(PhysAddr(0xf_5a10)));
    assert_eq!(
        found.claims,
        [
            claim(0, 0x9_fc00, MemoryKind::Usable),
            claim(0x10_0000, 0x700_0000, MemoryKind::Acpi),
            claim(BASE, 56, MemoryKind::Kernel),
            claim(BASE + 136, 23, MemoryKind::Kernel),
            claim(BASE + 160, 11, MemoryKind::Kernel),
        ]
    );
}

#[test]
fn multiboot2_tells_everything() {
    let memory = multiboot2_memory();
    let found = read_in(&memory, multiboot2::LOADER_MAGIC, 0).unwrap();
    assert_eq!(found.command_line, "program=boot");
    assert_eq!(found.module, Some(&b"conf"[..]));
    let at = (found.rsdp.unwrap().0 - BASE) as usize;
    assert_eq!(memory[at], 2, "the newer root pointer counts");
    assert!(found.claims.contains(&claim(0, 0x9_fc00, MemoryKind::Usable)));
    assert!(found.claims.contains(&claim(0x10_0000, 0x700_0000, MemoryKind::Reserved)));
    assert!(found.claims.contains(&claim(BASE, memory.len() as u64, MemoryKind::Kernel)));
}

/// GRUB says that an empty file is at 0, where no loader puts anything.
#[test]
fn a_module_without_bytes_is_empty_wherever_it_is_said_to_be() {
    let mut memory = pvh_memory();
    memory[104..120].fill(0);
    let found = read_in(&memory, 0, 0).unwrap();
    assert_eq!(found.module, Some(&b""[..]));
    let mut memory = multiboot2_memory();
    let tag = memory.len() - 4 - 8 - 24;
    assert_eq!(memory[tag], 3);
    memory[tag + 8..tag + 16].fill(0);
    let found = read_in(&memory, multiboot2::LOADER_MAGIC, 0).unwrap();
    assert_eq!(found.module, Some(&b""[..]));
    assert_eq!(found.command_line, "program=boot");
}

/// A node never runs without the configuration that it was given.
#[test]
fn a_module_that_cannot_be_reached_is_an_error() {
    // The entry that names it, and the module itself; a tag before it that goes too far, and one
    // that is shorter than its own head.
    let (pvh, multiboot) = (pvh_memory(), multiboot2_memory());
    let unreachable = |memory: &[u8], at: usize, eax: u32, value: u32| {
        let mut memory = memory.to_vec();
        memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert_eq!(read_in(&memory, eax, 0).unwrap_err(), BootInfoError::Unreadable, "{at}");
    };
    unreachable(&pvh, 16, 0, 0);
    unreachable(&pvh, 104, 0, 1);
    for length in [0, 7, 1 << 16, u32::MAX] {
        unreachable(&multiboot, 8 + 4, multiboot2::LOADER_MAGIC, length);
    }
}

#[test]
fn a_command_line_is_whole_or_an_error() {
    for at in [136, 136 + 22] {
        let mut memory = pvh_memory();
        memory[at] = 0xff;
        assert_eq!(read_in(&memory, 0, 0).unwrap_err(), BootInfoError::CommandLine);
    }
    let mut memory = multiboot2_memory();
    memory[16] = 0xff;
    let magic = multiboot2::LOADER_MAGIC;
    assert_eq!(read_in(&memory, magic, 0).unwrap_err(), BootInfoError::CommandLine);
    for (length, ends, expected) in [
        (super::MAX_COMMAND_LINE, true, None),
        (super::MAX_COMMAND_LINE, false, Some(BootInfoError::Unreadable)),
        (super::MAX_COMMAND_LINE + 1, true, Some(BootInfoError::CommandLine)),
    ] {
        let mut memory = pvh_memory();
        let line = memory.len() as u64 + BASE;
        memory[24..32].copy_from_slice(&line.to_le_bytes());
        memory.resize(memory.len() + length, b'a');
        memory.extend(ends.then_some(0));
        let found = read_in(&memory, 0, 0);
        assert_eq!(found.as_ref().err().copied(), expected);
        assert!(found.is_err() || found.unwrap().command_line.len() == length);
    }
}

#[test]
fn nonsense_is_an_error() {
    assert_eq!(read_in(&[], 0, 0).unwrap_err(), BootInfoError::Unreadable);
    assert_eq!(read_in(&[0; 64], 0, 0).unwrap_err(), BootInfoError::UnknownLoader);
    assert_eq!(read_in(&[0; 64], 0, u64::MAX - BASE).unwrap_err(), BootInfoError::Unreadable);
    let magic = multiboot2::LOADER_MAGIC;
    assert_eq!(read_in(&[0; 64], magic, 0).unwrap_err(), BootInfoError::Unreadable);
    let mut empty = vec![0; 16];
    empty[0] = 16;
    assert_eq!(read_in(&empty, magic, 0).unwrap_err(), BootInfoError::NoMemoryMap);
    let mut old = pvh_memory();
    old[4] = 0;
    assert_eq!(read_in(&old, 0, 0).unwrap_err(), BootInfoError::NoMemoryMap);
}

#[test]
fn more_map_entries_than_we_take_are_left_alone_in_however_many_tags() {
    let mut bytes = Vec::new();
    push(&mut bytes, &[0, 0]);
    for start in 0..2 * super::MAX_ENTRIES as u64 {
        push(&mut bytes, &[6, 16 + 24, 24, 0]);
        push_wide(&mut bytes, &[start << 20, 1 << 20, 1]);
    }
    let total = bytes.len() as u32;
    bytes[0..4].copy_from_slice(&total.to_le_bytes());
    let found = read_in(&bytes, multiboot2::LOADER_MAGIC, 0).unwrap();
    assert_eq!(found.claims.len(), super::MAX_ENTRIES);
}

#[test]
fn cut_or_changed_bytes_never_panic() {
    for (memory, eax) in [(pvh_memory(), 0), (multiboot2_memory(), multiboot2::LOADER_MAGIC)] {
        let mut refused = 0;
        for end in 0..memory.len() {
            refused += usize::from(read_in(&memory[..end], eax, 0).is_err());
        }
        assert!(refused > 56, "a cut header must be refused");
        for at in 0..memory.len() {
            for value in [0x00, 0x01, 0x07, 0x7f, 0x80, 0xff] {
                let mut changed = memory.clone();
                changed[at] = value;
                if let Ok(found) = read_in(&changed, eax, 0) {
                    assert!(found.claims.len() <= 2 * super::MAX_ENTRIES);
                }
            }
        }
    }
}

#[test]
fn the_last_value_of_a_key_counts() {
    let line = "program=boot exit=debug  program=idle flag seed=a=b";
    assert_eq!(option(line, "program"), Some("idle"));
    assert_eq!(option(line, "seed"), Some("a=b"));
    assert_eq!(option(line, "flag"), None);
    assert_eq!(option("", "program"), None);
}

#[test]
fn a_program_takes_the_rest_of_the_line() {
    assert_eq!(program("exit=debug program=ping rounds=7 "), "ping rounds=7");
    assert_eq!(program("exit=debug"), "boot");
    assert_eq!(program("program="), "boot");
}
