//! The judge against a machine of which every frame is known: whatever a domain asks for, in any
//! order, no walk of its tables ends in what is not its own, or in what the guard stands on.

extern crate std;

use std::collections::BTreeSet;
use std::vec::Vec;

use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use nile_memory::paging::{
    EmulatedMemory, Entry, EntryKind, Level, Plan, TableIndex, TableMemory, VirtRange,
};
use nile_memory::{AddressSpace, Mapping, Permissions, TablePool};
use proptest::prelude::*;

use crate::{
    Cores, Description, Table, Violation, clear, descriptors, entry, interrupt, memory, port,
    register,
};

const UNIT: u64 = 2 << 20;
/// Tables lie in the first unit, which is the domain's; the second is, too; the third is another's.
const TABLES: PhysAddr = PhysAddr(0x4000_0000);
const COUNT: usize = 24;
const FIRST: VirtAddr = VirtAddr(0xffff_9000_0000_0000);

struct Machine {
    tables: EmulatedMemory,
    kinds: Vec<Table>,
    units: BTreeSet<u64>,
}

impl Description for Machine {
    fn table(&self, at: PhysAddr) -> Option<Table> {
        let number = (at.0.checked_sub(TABLES.0)? / PageSize::Small.bytes()) as usize;
        self.kinds.get(number).copied()
    }

    fn is_loose(&self, start: PhysAddr, bytes: u64) -> bool {
        let tables = TABLES.0..TABLES.0 + (COUNT as u64) * PageSize::Small.bytes();
        start.0 >= TABLES.0
            && start.0 + bytes <= TABLES.0 + 4 * UNIT
            && (start.0 >= tables.end || start.0 + bytes <= tables.start)
    }

    fn has(&self, start: PhysAddr, bytes: u64) -> bool {
        let end = (start.0 + bytes).div_ceil(UNIT);
        (start.0 / UNIT..end).all(|unit| self.units.contains(&unit))
    }
}

impl Machine {
    /// A space that has its tables mapped for reading, as a domain's managing core has them.
    fn new() -> (Machine, PhysAddr) {
        let mut tables = EmulatedMemory::new(TABLES, COUNT);
        // The platform empties all tables before the guard begins.
        (0..COUNT).map(|it| tables.frame(it)).collect::<Vec<_>>().into_iter().for_each(|it| {
            tables.clear(it);
        });
        let plan = Plan::new(&[VirtRange::new(FIRST, 1 << 30)]).unwrap();
        let frames: Vec<PhysAddr> = (0..plan.tables()).map(|it| tables.frame(it)).collect();
        let mut space = AddressSpace::build(&mut tables, CoreId(0), &plan, &frames).unwrap();
        let mut pool = TablePool::new();
        let extent = nile_memory::paging::Extent {
            start: tables.frame(plan.tables()),
            tables: COUNT - plan.tables(),
        };
        pool.grow(extent).unwrap();
        let bytes = COUNT as u64 * PageSize::Small.bytes();
        for mapping in Mapping::cover(FIRST, TABLES, bytes, PageSize::Large, Permissions::READ) {
            space.map(&mut tables, &mut pool, mapping).unwrap();
        }
        let table = |level| Table { level, stays: false };
        let mut kinds = std::vec![table(Level::Pt); COUNT];
        let levels = [Level::Pml4, Level::Pdpt, Level::Pd];
        for (kind, level) in kinds.iter_mut().zip(levels) {
            *kind = table(level);
        }
        let mut machine = Machine { tables, kinds, units: BTreeSet::new() };
        // The pool gives its first frame first: it has what shows the tables.
        let Some(used) = (0..COUNT).find(|it| {
            let first = TableIndex::all().next().unwrap();
            machine.kinds[*it].level == Level::Pt
                && machine.tables.read(machine.tables.frame(*it), first).is_present()
        }) else {
            panic!("nothing shows the tables")
        };
        machine.kinds[used].stays = true;
        machine.units.extend([TABLES.0 / UNIT, TABLES.0 / UNIT + 1]);
        (machine, space.root())
    }

    /// Does what a domain asks for, if it may.
    fn store(&mut self, table: PhysAddr, index: TableIndex, new: Entry) -> Result<(), Violation> {
        let old = self.tables.read(table, index);
        entry(self, table, old, new)?;
        self.tables.write(table, index, new);
        Ok(())
    }

    /// Every page that a walk from `table` on reaches.
    fn reached(&self, table: PhysAddr, level: Level, pages: &mut Vec<(PhysAddr, u64, bool)>) {
        for index in TableIndex::all() {
            let entry = self.tables.read(table, index);
            match entry.kind(level) {
                EntryKind::Link(below) => {
                    self.reached(below, level.below().unwrap(), pages);
                }
                EntryKind::Leaf(phys) => {
                    let bytes = level.leaf_size().unwrap().bytes();
                    pages.push((phys, bytes, entry.permissions().write));
                }
                _ => {}
            }
        }
    }
}

fn index(number: usize) -> TableIndex {
    TableIndex::all().nth(number).unwrap()
}

fn leaf(at: u64, size: PageSize, permissions: Permissions) -> Entry {
    Entry::leaf(PhysAddr(at), size, permissions)
}

#[test]
fn a_domain_maps_its_own_memory_and_nothing_else() {
    let (mut machine, _) = Machine::new();
    let (pd, pt) = (machine.tables.frame(2), machine.tables.frame(COUNT - 1));
    let own = TABLES.0 + UNIT;
    let small = |at| leaf(at, PageSize::Small, Permissions::READ_WRITE);
    clear(&machine, pt).unwrap();
    assert_eq!(machine.store(pt, index(3), small(own)), Ok(()));
    assert_eq!(machine.store(pd, index(9), Entry::link(pt)), Ok(()));
    let foreign = own + UNIT;
    assert_eq!(
        machine.store(pt, index(4), small(foreign)),
        Err(Violation::NotOwn(PhysAddr(foreign)))
    );
    let large = leaf(foreign, PageSize::Large, Permissions::READ);
    assert_eq!(machine.store(pd, index(10), large), Err(Violation::NotOwn(PhysAddr(foreign))));
    let huge = leaf(TABLES.0, PageSize::Huge, Permissions::READ);
    let pdpt = machine.tables.frame(1);
    assert_eq!(machine.store(pdpt, index(5), huge), Err(Violation::NotOwn(TABLES)));
    // Its tables are its own memory, and the guard's.
    for size in [PageSize::Small, PageSize::Large] {
        let table = leaf(TABLES.0, size, Permissions::READ);
        let into = if size == PageSize::Small { pt } else { pd };
        assert_eq!(machine.store(into, index(11), table), Err(Violation::Guarded(TABLES)));
    }
    let both = Permissions { execute: true, ..Permissions::READ_WRITE };
    let both = leaf(own, PageSize::Small, both);
    assert_eq!(machine.store(pt, index(5), both), Err(Violation::WriteAndExecute(PhysAddr(own))));
    assert_eq!(memory(&machine, PhysAddr(own), UNIT), Ok(()));
    assert_eq!(memory(&machine, PhysAddr(own), 2 * UNIT), Err(Violation::NotOwn(PhysAddr(own))));
}

#[test]
fn links_lead_to_tables_and_what_shows_them_stays() {
    let (mut machine, _) = Machine::new();
    let [pml4, pdpt, pd] = [0, 1, 2].map(|it| machine.tables.frame(it));
    let forged = PhysAddr(TABLES.0 + UNIT);
    for (table, error) in [
        (pml4, Violation::Upper(pml4)),
        (pdpt, Violation::NoLink(forged)),
        (pd, Violation::NoLink(forged)),
        (forged, Violation::NoTable(forged)),
    ] {
        assert_eq!(machine.store(table, index(77), Entry::link(forged)), Err(error));
    }
    // A table of another level is no last level.
    assert_eq!(machine.store(pd, index(7), Entry::link(pdpt)), Err(Violation::NoLink(pdpt)));
    let shows = (0..COUNT).find(|it| machine.kinds[*it].stays).unwrap();
    let shows = machine.tables.frame(shows);
    for new in [Entry::EMPTY, Entry::retired(shows), Entry::link(machine.tables.frame(9))] {
        assert_eq!(machine.store(pd, index(0), new), Err(Violation::Stays(shows)));
    }
    assert_eq!(machine.store(shows, index(0), Entry::EMPTY), Err(Violation::Stays(TABLES)));
    assert_eq!(clear(&machine, shows), Err(Violation::Stays(shows)));
    assert_eq!(clear(&machine, pd), Err(Violation::Upper(pd)));
    assert_eq!(clear(&machine, forged), Err(Violation::NoTable(forged)));
}

#[test]
fn a_page_of_memory_that_is_gone_can_still_be_taken_out() {
    let (mut machine, _) = Machine::new();
    let (pt, own) = (machine.tables.frame(COUNT - 1), TABLES.0 + UNIT);
    clear(&machine, pt).unwrap();
    let page = leaf(own, PageSize::Small, Permissions::READ_WRITE);
    machine.store(pt, index(0), page).unwrap();
    machine.units.remove(&(own / UNIT));
    assert_eq!(machine.store(pt, index(1), page), Err(Violation::NotOwn(PhysAddr(own))));
    assert_eq!(machine.store(pt, index(0), Entry::EMPTY), Ok(()));
}

#[test]
fn a_table_is_one_byte_and_zero_is_none() {
    for level in [Level::Pt, Level::Pd, Level::Pdpt, Level::Pml4] {
        for stays in [false, true] {
            let table = Table { level, stays };
            assert_eq!(Table::from_byte(table.to_byte()), Some(table));
        }
    }
    assert_eq!([0, 0x10, 5, 0xff].map(Table::from_byte), [None; 4]);
}

proptest! {
    #[test]
    fn no_walk_ever_ends_in_what_is_not_the_domains(
        wanted in prop::collection::vec(
            (0..COUNT + 2, 0usize..6, prop::bool::ANY, 0u64..0x820, any::<u64>(), 0u8..4),
            1..200,
        ),
    ) {
        let (mut machine, root) = Machine::new();
        let mut done = 0;
        for (table, at, clears, frame, bits, kind) in wanted {
            let table = machine.tables.frame(table);
            let address = TABLES.0 + frame * PageSize::Small.bytes();
            let new = match kind {
                0 => Entry::from_bits(address & !0xfff | bits & 0x8000_0000_0000_0fff),
                1 => leaf(address, PageSize::Small, Permissions::READ_WRITE),
                2 => leaf(address, PageSize::Large, Permissions::READ_WRITE),
                _ => Entry::link(PhysAddr(address)),
            };
            if clears {
                if clear(&machine, table).is_ok() {
                    machine.tables.clear(table);
                }
            } else {
                done += usize::from(machine.store(table, index(at), new).is_ok());
            }
        }
        prop_assume!(done > 0);
        let mut pages = Vec::new();
        machine.reached(root, Level::Pml4, &mut pages);
        let tables = TABLES.0..TABLES.0 + COUNT as u64 * PageSize::Small.bytes();
        for (phys, bytes, writes) in pages {
            let shows_tables = tables.contains(&phys.0) && bytes == PageSize::Small.bytes();
            prop_assert!(machine.has(phys, bytes), "{phys:?} is not its own");
            prop_assert!(machine.is_loose(phys, bytes) || shows_tables && !writes, "{phys:?}");
        }
    }
}

struct Own;

impl Cores for Own {
    fn has_core(&self, name: u32) -> bool {
        name == 3 || name == 4
    }

    fn may_wake(&self, name: u32, vector: u8) -> bool {
        name == 0 && vector == 0xf1
    }
}

#[test]
fn interrupts_reach_own_cores_and_who_waits_and_reset_nobody() {
    const FIXED: u32 = 1 << 14;
    assert_eq!(interrupt(&Own, 3, FIXED | 0x40), Ok(()));
    assert_eq!(interrupt(&Own, 0, FIXED | 0xf1), Ok(()));
    assert_eq!(interrupt(&Own, 0, FIXED | 0x40), Err(Violation::Core(0)));
    assert_eq!(interrupt(&Own, 5, FIXED | 0xf1), Err(Violation::Core(5)));
    // SMI, NMI, INIT, start-up; to a set; to self, all, all others: own cores or not.
    let refused = [0x200, 0x400, 0x500, 0x600, 0x800, 1 << 18, 2 << 18, 3 << 18];
    for command in refused.map(|it| FIXED | it | 0x40) {
        for to in [3, 0, 5, 0xff] {
            assert_eq!(interrupt(&Own, to, command), Err(Violation::Command(command)));
        }
    }
}

#[test]
fn the_console_is_the_only_device_with_ports() {
    for at in [0x3f8, 0x3fd, 0x3ff] {
        assert_eq!(port(at), Ok(()));
    }
    for at in [0x20, 0x21, 0x40, 0x43, 0x64, 0x70, 0x92, 0xf4, 0x3f7, 0x400, 0xcf8, 0xcf9, 0xcfc] {
        assert_eq!(port(at), Err(Violation::Port(at)));
    }
}

#[test]
fn registers_of_the_own_core_are_written_and_those_that_reach_further_are_not() {
    const LONG_MODE: u64 = 1 << 8 | 1 << 10;
    const NO_EXECUTE: u64 = 1 << 11;
    const CONTROLLER: u64 = 0xfee0_0800;
    let register = |number, value| register(number, value, || CONTROLLER);
    assert_eq!(register(0xc000_0080, LONG_MODE | NO_EXECUTE | 1), Ok(()));
    assert_eq!(register(0xc000_0080, LONG_MODE | 1), Err(Violation::Register(0xc000_0080)));
    // Its other mode, its registers elsewhere, off.
    assert_eq!(register(0x1b, CONTROLLER | 1 << 10), Ok(()));
    for wrong in [CONTROLLER ^ 1 << 12, CONTROLLER ^ 1 << 40, CONTROLLER ^ 1 << 11] {
        assert_eq!(register(0x1b, wrong), Err(Violation::Register(0x1b)));
    }
    for own in [0xc000_0082, 0xc000_0101, 0x80b, 0x838, 0x6e0] {
        assert_eq!(register(own, 7), Ok(()));
    }
    // Commands to other cores, memory types, microcode, power, attributes of pages.
    for other in [0x830, 0x83f, 0x200, 0x79, 0x199, 0x277, 0xc001_0015] {
        assert_eq!(register(other, 7), Err(Violation::Register(other)));
    }
}

#[test]
fn descriptors_are_taken_from_where_the_guard_keeps_them() {
    let own = VirtAddr(0x3000)..VirtAddr(0x5000);
    assert_eq!(descriptors(&own, VirtAddr(0x3000), 0x2000), Ok(()));
    for (at, bytes) in [(0x2ff8, 16), (0x3000, 0x2001), (0x5000, 8), (0x3000, u64::MAX)] {
        let refused = Err(Violation::Descriptors(VirtAddr(at)));
        assert_eq!(descriptors(&own, VirtAddr(at), bytes), refused);
    }
}
