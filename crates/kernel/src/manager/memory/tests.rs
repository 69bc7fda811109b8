//! User halves over emulated tables, seen as each core's MMU sees them.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::call::{USER_BASE, USER_BYTES, UserSlot};
use nile_memory::paging::VirtRange;
use nile_memory::paging::{AddressSpace, EmulatedMemory, Entry, Extent, Plan, TableIndex};

use super::*;

const BASE: PhysAddr = PhysAddr(1 << 30);
const BYTES: u64 = 16 << 20;
const SHARED: VirtAddr = VirtAddr(0xffff_a000_0000_0000);
const HERE: CoreId = CoreId(1);
const THERE: CoreId = CoreId(2);
const AT: VirtAddr = VirtAddr(USER_BASE + 0x20_0000);

/// Where the slot of this number begins.
fn slot(number: usize) -> VirtAddr {
    UserSlot::from_index(number).unwrap().base()
}

/// Tables that outlive the memory's manager.
#[derive(Clone)]
struct Kept(Rc<RefCell<EmulatedMemory>>);

impl TableMemory for Kept {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        self.0.borrow().read(table, index)
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        self.0.borrow_mut().write(table, index, entry);
    }
}

/// A node of three cores: the memory's records, its tables and where they are.
struct Node {
    records: Region,
    tables: Kept,
    roots: Vec<PhysAddr>,
    pool: Extent,
}

impl Node {
    fn new(pool_tables: usize) -> Node {
        let words = PhysicalMemory::<Region>::words_for(BASE, BYTES);
        let records = Region::owned((words * 8).next_multiple_of(64));
        PhysicalMemory::new().add_region(BASE, BYTES, records.clone()).unwrap();
        let ranges = [
            VirtRange::new(VirtAddr(SHARED.0 + BASE.0), BYTES),
            VirtRange::new(VirtAddr(USER_BASE), 1 << 30),
            VirtRange::new(slot(1), 1 << 30),
            VirtRange::new(slot(2), 1 << 30),
        ];
        let plan = Plan::new(&ranges).unwrap();
        let upper = 3 * plan.tables();
        let mut memory = EmulatedMemory::new(PhysAddr(1 << 46), upper + pool_tables);
        let pool = Extent { start: memory.frame(upper), tables: pool_tables };
        let build = |core: usize| {
            let first = core * plan.tables();
            let frames: Vec<PhysAddr> =
                (first..first + plan.tables()).map(|table| memory.frame(table)).collect();
            AddressSpace::build(&mut memory, CoreId(core as u16), &plan, &frames).unwrap().root()
        };
        let roots = (0..3).map(build).collect();
        Node { records, tables: Kept(Rc::new(RefCell::new(memory))), roots, pool }
    }

    /// The memory as the next incarnation of its manager finds it.
    fn manage(&self) -> Memory<Kept> {
        let physical = PhysicalMemory::recover([self.records.clone()]).unwrap();
        let spaces: Vec<AddressSpace> = (0..)
            .zip(&self.roots)
            .map(|(core, root)| AddressSpace::recover(CoreId(core), *root))
            .collect();
        let mut memory = self.tables.clone();
        let (pool, retired) = TablePool::recover(&mut memory, &[self.pool], &spaces).unwrap();
        let tables = Tables { memory, pool, spaces, upper_tables: 0, retired };
        Memory::new(physical, tables, Places { shared: SHARED, huge: None }, CoreId::BOOT)
    }

    fn find(&self, core: CoreId, virt: VirtAddr) -> Option<Mapping> {
        AddressSpace::recover(core, self.roots[core.index()]).find(&self.tables, virt)
    }
}

fn free(memory: &Memory<Kept>) -> (u64, usize) {
    (memory.physical.statistics().free_bytes, memory.tables.pool.free())
}

/// Two pages of `core`'s.
fn give(memory: &mut Memory<Kept>, core: CoreId) -> Grant {
    let grant = memory.take_run(8192).unwrap();
    memory.share(grant, core).unwrap();
    grant
}

#[test]
fn a_grant_is_in_one_half_and_comes_back() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let before = free(&memory);
    let grant = give(&mut memory, HERE);
    let kernel = VirtAddr(SHARED.0 + grant.start.0);
    assert!(node.find(HERE, kernel).is_some());
    assert_eq!(memory.map_user(grant, HERE, AT, Access::Execute), Ok(()));
    assert_eq!(node.find(HERE, kernel), None, "what is executable is nowhere writable");
    let second = node.find(HERE, VirtAddr(AT.0 + 4096)).unwrap();
    assert_eq!(second.phys.0, grant.start.0 + 4096);
    assert_eq!(second.permissions, Permissions::READ_EXECUTE.for_user());
    assert_eq!(memory.map_user(grant, HERE, AT, Access::Execute), Ok(()), "asked again");
    // The kernel half's translations are gone.
    assert_eq!(memory.acknowledge(grant, HERE), Ok(()));
    assert_eq!(memory.held_by(HERE), [grant]);
    assert_eq!(memory.unshare(grant, HERE), Ok(grant));
    assert_eq!(node.find(HERE, AT), None);
    assert_ne!(free(&memory), before, "the core may still have a translation");
    assert_eq!(memory.acknowledge(grant, HERE), Ok(()));
    assert_eq!(free(&memory), before);
}

#[test]
fn a_core_that_ends_in_between_gives_back_both_halves() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let before = free(&memory);
    let grant = give(&mut memory, HERE);
    memory.map_user(grant, HERE, AT, Access::Write).unwrap();
    assert_eq!(memory.held_by(HERE), [grant]);
    memory.unshare(grant, HERE).unwrap();
    assert_eq!(memory.acknowledge(grant, HERE), Ok(()), "one word for both");
    assert_eq!(free(&memory), before);
}

#[test]
fn what_is_no_place_for_a_package_is_refused() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let grant = give(&mut memory, HERE);
    let after = free(&memory);
    let places = [
        0,
        USER_BASE - 4096,
        USER_BASE + 1,
        USER_BASE + USER_BYTES - 4096,
        USER_BASE + USER_BYTES,
        // Inside, but no core has tables there.
        USER_BASE + (2 << 30),
        SHARED.0 + BASE.0,
        u64::MAX - 4095,
    ];
    for place in places {
        let refused = memory.map_user(grant, HERE, VirtAddr(place), Access::Write);
        assert_eq!(refused, Err(Status::Invalid), "{place:#x}");
    }
    let longer = Grant { bytes: 4096, ..grant };
    assert_eq!(memory.map_user(longer, HERE, AT, Access::Read), Err(Status::Invalid));
    assert_eq!(memory.map_user(grant, THERE, AT, Access::Read), Err(Status::NotFound));
    let none = Grant { start: PhysAddr(BASE.0 + (8 << 20)), bytes: 4096 };
    assert_eq!(memory.map_user(none, HERE, AT, Access::Read), Err(Status::NotFound));
    assert!(node.find(HERE, VirtAddr(SHARED.0 + grant.start.0)).is_some(), "it is where it was");
    assert_eq!(free(&memory), after);
}

#[test]
fn an_address_has_one_owner() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let (first, second) = (give(&mut memory, HERE), give(&mut memory, HERE));
    memory.map_user(first, HERE, VirtAddr(AT.0 + 4096), Access::Read).unwrap();
    assert_eq!(memory.map_user(second, HERE, AT, Access::Write), Err(Status::Exists));
    assert_eq!(node.find(HERE, AT), None, "its first page is out again");
    assert!(node.find(HERE, VirtAddr(SHARED.0 + second.start.0)).is_some());
    let other = memory.map_user(first, HERE, AT, Access::Read);
    assert_eq!(other, Err(Status::Exists), "a grant has one place");
}

#[test]
fn what_is_shared_is_not_executed_and_what_is_executed_not_shared() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let grant = give(&mut memory, HERE);
    memory.share(grant, THERE).unwrap();
    assert_eq!(memory.map_user(grant, HERE, AT, Access::Execute), Err(Status::Denied));
    // The ring of a channel may be.
    assert_eq!(memory.map_user(grant, HERE, AT, Access::Write), Ok(()));
    memory.acknowledge(grant, HERE).unwrap();
    let code = give(&mut memory, HERE);
    let place = VirtAddr(AT.0 + (1 << 20));
    memory.map_user(code, HERE, place, Access::Execute).unwrap();
    assert_eq!(memory.share(code, THERE), Err(Status::Denied));
}

/// Where a package in the second slot has a ring.
fn beside() -> VirtAddr {
    VirtAddr(slot(1).0 + 0x20_0000)
}

/// A ring of a package of `HERE`, in its first slot.
fn ring(memory: &mut Memory<Kept>) -> Grant {
    let grant = give(memory, HERE);
    memory.map_user(grant, HERE, AT, Access::Write).unwrap();
    memory.acknowledge(grant, HERE).unwrap();
    grant
}

#[test]
fn a_ring_has_two_places_each_of_which_is_given_back() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let before = free(&memory);
    for (first, second) in [(AT, beside()), (beside(), AT)] {
        let grant = ring(&mut memory);
        assert_eq!(memory.map_user(grant, HERE, beside(), Access::Write), Ok(()));
        assert_eq!(memory.map_user(grant, HERE, beside(), Access::Write), Ok(()), "asked again");
        assert_eq!(node.find(HERE, beside()).unwrap().phys, grant.start);
        let elsewhere = VirtAddr(AT.0 + (4 << 20));
        assert_eq!(memory.unmap_user(grant, HERE, elsewhere), Err(Status::NotFound));
        assert_eq!(memory.unmap_user(grant, HERE, first), Ok(false));
        assert_eq!((node.find(HERE, first), node.find(HERE, second).is_some()), (None, true));
        memory.acknowledge(grant, HERE).unwrap();
        assert_eq!(memory.held_by(HERE), [grant], "the other one goes on");
        assert_eq!(memory.unmap_user(grant, HERE, second), Ok(true));
        assert_eq!(node.find(HERE, second), None);
        memory.acknowledge(grant, HERE).unwrap();
        assert_eq!(free(&memory), before);
    }
    // A core that ends has neither any more.
    let grant = ring(&mut memory);
    memory.map_user(grant, HERE, beside(), Access::Write).unwrap();
    memory.unshare(grant, HERE).unwrap();
    assert_eq!((node.find(HERE, AT), node.find(HERE, beside())), (None, None));
    memory.acknowledge(grant, HERE).unwrap();
    assert_eq!(free(&memory), before);
}

#[test]
fn nobody_gets_a_place_in_what_was_not_meant_for_him() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let ring = ring(&mut memory);
    // Not another core, not to execute or to read alone, not in the same slot, and no third one.
    assert_eq!(memory.map_user(ring, THERE, beside(), Access::Write), Err(Status::NotFound));
    for access in [Access::Execute, Access::Read] {
        assert_eq!(memory.map_user(ring, HERE, beside(), access), Err(Status::Exists));
    }
    let near = VirtAddr(AT.0 + (4 << 20));
    assert_eq!(memory.map_user(ring, HERE, near, Access::Write), Err(Status::Exists));
    memory.map_user(ring, HERE, beside(), Access::Write).unwrap();
    let third = VirtAddr(slot(2).0 + 0x20_0000);
    assert_eq!(memory.map_user(ring, HERE, third, Access::Write), Err(Status::Exists));
    // What is a package's code, or only to be read, no other one has.
    for (access, at) in [(Access::Execute, 8 << 20), (Access::Read, 12 << 20)] {
        let own = give(&mut memory, HERE);
        memory.map_user(own, HERE, VirtAddr(AT.0 + at), access).unwrap();
        memory.acknowledge(own, HERE).unwrap();
        for how in [access, Access::Write] {
            assert_eq!(memory.map_user(own, HERE, third, how), Err(Status::Exists));
        }
    }
}

#[test]
fn the_next_manager_learns_of_both_places() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let grant = ring(&mut memory);
    memory.map_user(grant, HERE, beside(), Access::Write).unwrap();
    drop(memory);
    let mut memory = node.manage();
    memory.expect_word_of([HERE].into_iter());
    assert_eq!(memory.adopt_user(grant, HERE, beside(), Access::Write), Ok(()));
    assert_eq!(memory.adopt_user(grant, HERE, AT, Access::Write), Ok(()));
    let again = memory.adopt_user(grant, HERE, AT, Access::Write);
    assert_eq!(again, Err(Status::Invalid), "it has been told");
    assert_eq!(memory.heard_of(HERE), Ok(Heard::All));
    assert_eq!(memory.sweep(), []);
    assert!(node.find(HERE, AT).is_some() && node.find(HERE, beside()).is_some());
}

#[test]
fn the_next_manager_learns_who_has_what_domains_share() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let before = free(&memory);
    let start = PhysAddr(BASE.0 + BYTES + (64 << 20));
    let grant = Grant { start, bytes: PageSize::Large.bytes() };
    assert_eq!(memory.keep_share(BASE), Err(Status::Invalid), "it is the node's own");
    assert_eq!(memory.keep_share(PhysAddr(start.0 + 4096)), Err(Status::Invalid));
    memory.keep_share(start).unwrap();
    memory.enter_kept(grant, HERE, AT, true).unwrap();
    drop(memory);

    let mut memory = node.manage();
    memory.expect_word_of([HERE].into_iter());
    memory.keep_share(start).unwrap();
    assert_eq!(memory.adopt_user(grant, HERE, AT, Access::Write), Ok(()));
    assert_eq!(memory.heard_of(HERE), Ok(Heard::All));
    assert_eq!(memory.sweep(), []);
    assert!(node.find(HERE, AT).is_some());
    assert_eq!(memory.user_holders(grant).len(), 1);
    memory.unshare(grant, HERE).unwrap();
    memory.acknowledge(grant, HERE).unwrap();
    memory.drop_kept(grant).unwrap();
    assert_eq!((free(&memory), memory.holder(grant)), (before, None));
    assert_eq!(memory.enter_kept(grant, HERE, AT, true), Err(Status::NotFound), "it is forgotten");
}

#[test]
fn without_tables_nothing_changes() {
    let node = Node::new(2);
    let mut memory = node.manage();
    let grant = give(&mut memory, HERE);
    // Across two last-level tables, of which there is one.
    let across = VirtAddr(AT.0 + (2 << 20) - 4096);
    assert_eq!(memory.map_user(grant, HERE, across, Access::Write), Err(Status::NoTables));
    assert_eq!(node.find(HERE, across), None);
    assert!(node.find(HERE, VirtAddr(SHARED.0 + grant.start.0)).is_some());
    assert_eq!(memory.map_user(grant, HERE, across, Access::Write), Err(Status::Busy));
    // The core has no stale translation of what was in for a moment.
    memory.heard_of(HERE).unwrap();
    assert_eq!(memory.map_user(grant, HERE, AT, Access::Write), Ok(()));
}

#[test]
fn the_next_manager_learns_what_packages_have_and_sweeps_out_the_rest() {
    let node = Node::new(8);
    let mut memory = node.manage();
    let before = free(&memory);
    let (known, lost) = (give(&mut memory, HERE), give(&mut memory, THERE));
    memory.map_user(known, HERE, AT, Access::Execute).unwrap();
    memory.map_user(lost, THERE, AT, Access::Write).unwrap();
    drop(memory);

    let mut memory = node.manage();
    memory.expect_word_of([HERE, THERE].into_iter());
    // The package of the other core died with its core, which knows of nothing.
    assert_eq!(memory.adopt_user(known, HERE, AT, Access::Execute), Ok(()));
    let wrong = Grant { bytes: 4096, ..lost };
    assert!(memory.adopt_user(wrong, HERE, VirtAddr(0), Access::Write).is_err());
    assert_eq!(memory.heard_of(HERE), Ok(Heard::More));
    let early = give(&mut memory, THERE);
    assert_eq!(memory.map_user(early, THERE, AT, Access::Write), Err(Status::Busy));
    assert_eq!(memory.heard_of(THERE), Ok(Heard::All));
    assert!(node.find(THERE, AT).is_some());
    assert_eq!(memory.sweep(), [THERE]);
    assert_eq!(node.find(THERE, AT), None);
    assert!(node.find(HERE, AT).is_some(), "what is known stays");
    assert_eq!(memory.sweep(), []);
    // It has forgotten what was swept out, and its tables go back.
    memory.heard_of(THERE).unwrap();
    assert_eq!(memory.map_user(early, THERE, AT, Access::Write), Ok(()));
    for (grant, core) in [(known, HERE), (early, THERE)] {
        memory.unshare(grant, core).unwrap();
        memory.acknowledge(grant, core).unwrap();
    }
    let after = free(&memory);
    assert_eq!(after.1, before.1, "no table is lost");
}
