//! Windows as units walk them, over memory of the test; and registers that are none.

extern crate std;

use std::vec::Vec;

use nile_abi::{PageSize, PhysAddr, VirtAddr};

use super::Sources;
use super::tables::{self, Depth, Tables};
use super::unit::{REGISTER_BYTES, Unfit, Unit};
use crate::mmio::Mmio;
use crate::node::Frames;

const UNIT: u64 = PageSize::Large.bytes();
/// On both sides of 3 GiB.
const MEMORY: Frames = Frames { start: PhysAddr((3 << 30) - 4 * UNIT), bytes: 8 * UNIT };
const TABLES: PhysAddr = PhysAddr(0x20_0000);

/// Two disks of one bus, one that goes past all units, and one of another bus.
const DISKS: [Option<u16>; 4] = [Some(0x0028), Some(0x0030), None, Some(0x0108)];

/// What a device reaches at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reaches {
    Everything,
    Page(PhysAddr),
    Nothing,
}

struct Memory(Vec<u64>);

impl Memory {
    fn new() -> Memory {
        Memory(std::vec![0; tables::bytes(DISKS.len(), MEMORY) as usize / 8 + 512])
    }

    /// The tables in it, which begin with a page.
    fn tables(&self, depth: Depth) -> Tables {
        let first = self.first() as u64;
        let frames = Frames { start: TABLES, bytes: tables::bytes(DISKS.len(), MEMORY) };
        let base = VirtAddr(first.wrapping_sub(TABLES.0));
        // SAFETY: the words outlive the tables, and are looked at between their changes alone.
        unsafe { Tables::new(frames, base, MEMORY, depth) }
    }

    fn first(&self) -> usize {
        self.0.as_ptr().addr().next_multiple_of(4096)
    }

    fn word(&self, table: u64, word: u64) -> u64 {
        let at = self.first() + (table - TABLES.0 + word * 8) as usize;
        // SAFETY: the tables are in the vector; they change by raw stores.
        unsafe { core::ptr::with_exposed_provenance::<u64>(at).read_volatile() }
    }

    /// Walks as a unit does.
    fn walk(&self, source: u16, at: PhysAddr) -> Reaches {
        let table = |entry: u64| entry & !0xfff;
        let root = self.word(TABLES.0, 2 * u64::from(source >> 8));
        assert_eq!(root & 1, 1, "all buses have contexts");
        let context = [0, 1].map(|it| self.word(table(root), 2 * u64::from(source & 0xff) + it));
        let (kind, width, tag) = (context[0] >> 2 & 3, context[1] & 7, context[1] >> 8);
        match (context[0] & 1, kind) {
            (0, _) => return Reaches::Nothing,
            (_, 0b10) => return Reaches::Everything,
            (_, kind) => assert_eq!(kind, 0),
        }
        assert!(tag > 1, "not the tag of what passes");
        let mut next = table(context[0]);
        for level in (1..width + 2).rev() {
            let entry = self.word(next, at.0 >> (12 + 9 * level) & 511);
            match (entry & 0b11, entry >> 7 & 1) {
                (0b11, 0) => next = table(entry),
                (0b11, _) => return Reaches::Page(PhysAddr(table(entry))),
                _ => return Reaches::Nothing,
            }
        }
        panic!("no window has pages of 4 KiB");
    }

    /// Which pages of the memory a device reaches, each where it is; nothing else of what there is.
    fn reached(&self, source: u16) -> Option<Vec<u64>> {
        for elsewhere in [0, TABLES.0, MEMORY.start.0 - UNIT, MEMORY.end().0, 1 << 38] {
            match self.walk(source, PhysAddr(elsewhere)) {
                Reaches::Everything => return None,
                reached => assert_eq!(reached, Reaches::Nothing, "{elsewhere:x}"),
            }
        }
        let mut pages = Vec::new();
        for page in 0..MEMORY.bytes / UNIT {
            let at = PhysAddr(MEMORY.start.0 + page * UNIT);
            match self.walk(source, PhysAddr(at.0 + 0x1234)) {
                Reaches::Page(found) if found == at => pages.push(page),
                reached => assert_eq!(reached, Reaches::Nothing),
            }
        }
        Some(pages)
    }
}

fn units(start: u64, count: u64) -> Frames {
    MEMORY.part(start * UNIT, count * UNIT)
}

#[test]
fn a_disk_reaches_what_its_window_shows_and_others_pass() {
    for depth in Depth::ALL {
        let memory = Memory::new();
        let tables = memory.tables(depth);
        tables.begin(&DISKS.into_iter().collect::<Sources>());
        let others = [0x0000, 0x0029, 0x0109, 0x0210, 0xffff];
        let all_pass = |memory: &Memory| others.iter().all(|it| memory.reached(*it).is_none());
        assert!(all_pass(&memory));
        let [first, second, last] = [0x0028, 0x0030, 0x0108];
        for source in [first, second, last] {
            assert_eq!(memory.reached(source), None, "nobody has it");
            assert!(!tables.is_confined(source));
        }
        tables.confine(0, first);
        assert!(tables.is_confined(first) && !tables.is_confined(second));
        assert_eq!(memory.reached(first), Some(Vec::new()));
        assert!(tables.show(0, units(2, 4)));
        assert!(!tables.show(0, units(3, 1)), "it was there");
        assert_eq!(memory.reached(first), Some(std::vec![2, 3, 4, 5]));
        tables.confine(3, last);
        assert!(tables.show(3, units(0, 1)) && tables.show(3, units(7, 1)));
        assert!(tables.hide(0, units(3, 2)) && !tables.hide(0, units(3, 2)));
        assert_eq!(memory.reached(first), Some(std::vec![2, 5]));
        assert_eq!(memory.reached(last), Some(std::vec![0, 7]));
        // What is nobody's to have is shown to nobody.
        let beyond = |start: u64| Frames { start: PhysAddr(start), bytes: UNIT };
        for start in [0, MEMORY.start.0 - UNIT, MEMORY.end().0, 1 << 45] {
            assert!(!tables.show(0, beyond(start)), "{start:x}");
        }
        assert_eq!((memory.reached(first), memory.reached(second)), (Some(std::vec![2, 5]), None));
        tables.pass(first);
        tables.empty(0);
        assert_eq!(memory.reached(first), None);
        tables.confine(0, first);
        assert_eq!(memory.reached(first), Some(Vec::new()), "the next has nothing of it");
        assert!(all_pass(&memory));
    }
}

/// Registers that hold what was written last.
struct Registers([u32; REGISTER_BYTES / 4]);

/// What QEMU's IOMMU says.
const CAPABILITIES: u64 = 0x00d2_008c_2226_0206;
const MORE: u64 = 0x00f0_0f4a;
const RECORD: usize = 0x220 / 4;

impl Registers {
    fn new(capabilities: u64, more: u64) -> Registers {
        let mut registers = Registers([0; REGISTER_BYTES / 4]);
        for (at, value) in [(2, capabilities), (4, more)] {
            registers.0[at] = value as u32;
            registers.0[at + 1] = (value >> 32) as u32;
        }
        registers
    }

    fn unit(&mut self) -> Unit {
        let at = VirtAddr(self.0.as_mut_ptr().expose_provenance() as u64);
        // SAFETY: the words outlive the unit.
        Unit::new(unsafe { Mmio::new(at, REGISTER_BYTES) })
    }
}

#[test]
fn a_unit_that_cannot_do_all_is_not_used() {
    let depths = |capabilities, more| {
        let found = Registers::new(capabilities, more).unit().depths();
        found.map(|it| it.to_vec())
    };
    let both = CAPABILITIES | 1 << 10;
    assert_eq!(depths(CAPABILITIES, MORE), Ok(std::vec![Depth::Three]));
    assert_eq!(depths(both, MORE), Ok(Depth::ALL.to_vec()));
    assert_eq!(depths(both & !(1 << 9), MORE), Ok(std::vec![Depth::Four]));
    assert_eq!(depths(CAPABILITIES & !(1 << 9), MORE), Ok(std::vec![]));
    assert_eq!(depths(CAPABILITIES & !(1 << 34), MORE), Err(Unfit::Pages));
    assert_eq!(depths(CAPABILITIES | 1 << 4, MORE), Err(Unfit::Pages));
    assert_eq!(depths(CAPABILITIES, MORE & !(1 << 6)), Err(Unfit::PassesNone));
    assert_eq!(depths(CAPABILITIES, MORE | 0x3ff << 8), Err(Unfit::OutOfReach));
    assert_eq!(depths(CAPABILITIES | 0xff << 40, MORE), Err(Unfit::OutOfReach));
    assert_eq!(depths(u64::MAX, u64::MAX), Err(Unfit::OutOfReach));
}

#[test]
fn what_a_unit_stopped_is_read_from_its_records() {
    let mut registers = Registers::new(CAPABILITIES, MORE);
    assert_eq!(registers.unit().fault(), None);
    registers.0[0x34 / 4] = 2;
    registers.0[RECORD..RECORD + 4].copy_from_slice(&[0x1234_5000, 1, 0x28, 0x8000_0005]);
    let at = PhysAddr(0x1_1234_5000);
    assert_eq!(registers.unit().fault(), Some((0x28, at, true)));
    registers.0[RECORD + 3] = 0xc000_0006;
    assert_eq!(registers.unit().fault(), Some((0x28, at, false)));
    // It has no record, but had no room for one.
    registers.0[RECORD + 3] = 0;
    registers.0[0x34 / 4] = 3;
    assert_eq!(registers.unit().fault(), None);
    assert_eq!(registers.0[0x34 / 4], 1, "it is told that this was seen");
}

#[test]
fn a_unit_that_does_not_answer_is_given_up() {
    let mut registers = Registers::new(CAPABILITIES, MORE);
    assert_eq!(registers.unit().begin(TABLES), Err(Unfit::Silent));
    assert_eq!(registers.0[0x20 / 4..0x28 / 4], [TABLES.0 as u32, 0]);
}
