//! Page tables of several cores over one pool, beside a naive model, after interruptions, and at
//! their edges. What a core sees is asked of an emulated unit that forgets nothing by itself.

mod interruption;
mod model;
mod random;

use super::*;
use alloc::vec::Vec;
use nile_abi::{CoreId, PageSize, PhysAddr, Status, VirtAddr};

const GIB: u64 = 1 << 30;
const LARGE: u64 = 2 << 20;
const LOW: VirtAddr = VirtAddr(0x8000_0000);
const HUGE: VirtAddr = VirtAddr(512 * GIB);
const HIGH: VirtAddr = VirtAddr(0xffff_ffff_8000_0000);
const CORES: usize = 3;

fn plan() -> Plan {
    let low = VirtRange::new(LOW, GIB + 1);
    Plan::new(&[low, VirtRange::huge(HUGE, 4 * GIB), VirtRange::new(HIGH, GIB)]).expect("ranges")
}

/// A node whose cores have their upper tables and share a pool.
struct Node<M> {
    memory: M,
    pool: TablePool,
    spaces: Vec<AddressSpace>,
}

/// The frames of a node: upper tables of every core first, then the pool in two extents.
fn frames(tables: usize) -> (EmulatedMemory, Vec<PhysAddr>, [Extent; 2]) {
    let uppers = CORES * plan().tables();
    let memory = EmulatedMemory::new(PhysAddr(0x7000), uppers + tables + 1);
    let first = Extent { start: memory.frame(uppers), tables: tables / 2 };
    let start = memory.frame(uppers + tables / 2 + 1);
    let second = Extent { start, tables: tables - tables / 2 };
    let frames = (0..uppers).map(|number| memory.frame(number)).collect();
    (memory, frames, [first, second])
}

impl<M: TableMemory> Node<M> {
    fn new(mut memory: M, frames: &[PhysAddr], extents: &[Extent]) -> Node<M> {
        let mut pool = TablePool::new();
        for extent in extents.iter().rev() {
            pool.grow(*extent).expect("frames that nobody has");
        }
        let build = |(core, frames)| {
            let core = CoreId(core as u16);
            AddressSpace::build(&mut memory, core, &plan(), frames).expect("enough frames")
        };
        let spaces = frames.chunks(plan().tables()).enumerate().map(build).collect();
        Node { memory, pool, spaces }
    }

    fn map(&mut self, core: usize, mapping: Mapping) -> Result<(), MapError> {
        self.spaces[core].map(&mut self.memory, &mut self.pool, mapping)
    }

    fn unmap(&mut self, core: usize, page: Page) -> Result<Unmapped, UnmapError> {
        self.spaces[core].unmap(&mut self.memory, &mut self.pool, page)
    }

    fn acknowledge(&mut self, core: usize, retired: Retired) -> Result<(), Retired> {
        self.spaces[core].acknowledge(&mut self.memory, &mut self.pool, retired)
    }
}

fn mapping(virt: u64, phys: u64, size: PageSize) -> Mapping {
    let permissions = Permissions::READ_WRITE;
    Mapping { virt: VirtAddr(virt), phys: PhysAddr(phys), size, permissions }
}

fn page(virt: u64, size: PageSize) -> Page {
    Page { virt: VirtAddr(virt), size }
}

#[test]
fn what_a_second_root_hides_is_reached_through_the_first_alone() {
    let (memory, frames, [first, _]) = frames(4);
    let mut node = Node::new(memory, &frames, &[first]);
    // A frame of the second extent, which the pool does not have.
    let root = node.memory.frame(frames.len() + 3);
    node.spaces[0].add_root(&mut node.memory, root, |virt| virt == HUGE);
    let maps = [
        mapping(LOW.0, LARGE, PageSize::Small),
        mapping(HUGE.0, GIB, PageSize::Huge),
        mapping(HIGH.0, LARGE, PageSize::Large),
    ];
    maps.into_iter().for_each(|it| node.map(0, it).expect("it is free"));
    let second = AddressSpace::recover(CoreId(0), root);
    let [low, huge, high] = maps;
    for seen in [low, high] {
        assert_eq!(second.find(&node.memory, seen.virt), Some(seen));
    }
    assert_eq!(second.find(&node.memory, huge.virt), None);
    assert_eq!(node.spaces[0].find(&node.memory, huge.virt), Some(huge));
    let page = page(LOW.0, PageSize::Small);
    assert!(node.unmap(0, page).is_ok());
    assert_eq!(second.find(&node.memory, low.virt), None);
}

#[test]
fn an_empty_pool_stops_small_pages_only_and_grows() {
    let (memory, frames, [first, second]) = frames(4);
    let mut node = Node::new(memory, &frames, &[first]);
    let small = |number: u64| mapping(LOW.0 + number * LARGE, number << 12, PageSize::Small);
    for number in 0..2 {
        assert_eq!(node.map(number as usize, small(number)), Ok(()));
    }
    assert_eq!(node.map(2, small(2)), Err(MapError::NoTables));
    assert_eq!(Status::from(MapError::NoTables), Status::NoTables);
    assert_eq!(node.map(2, mapping(LOW.0, LARGE, PageSize::Large)), Ok(()));
    assert_eq!(node.map(2, mapping(HUGE.0, GIB, PageSize::Huge)), Ok(()));
    assert_eq!(node.map(0, mapping(LOW.0 + 4096, 0, PageSize::Small)), Ok(()));

    node.pool.grow(second).expect("frames that nobody has");
    assert_eq!(node.map(2, small(2)), Ok(()));
    assert_eq!((node.pool.total(), node.pool.free()), (4, 1));

    // A table that its core has not forgotten is nobody's.
    let unmapped = node.unmap(2, page(LOW.0 + 2 * LARGE, PageSize::Small)).expect("a page");
    assert_eq!(node.map(2, small(2)), Err(MapError::Retiring));
    assert_eq!(
        node.map(2, mapping(LOW.0 + 2 * LARGE, 0, PageSize::Large)),
        Err(MapError::Retiring)
    );
    assert_eq!((node.pool.free(), node.pool.retired()), (1, 1));
    let retired = unmapped.retired.expect("it was the only page");
    assert_eq!(node.acknowledge(2, retired), Ok(()));
    assert_eq!((node.pool.free(), node.pool.retired()), (2, 0));
    assert_eq!(node.map(2, small(2)), Ok(()));
}

#[test]
fn extents_are_drained_and_removed_when_their_tables_are_free() {
    let (memory, frames, [first, second]) = frames(4);
    let mut node = Node::new(memory, &frames, &[first, second]);
    let start = first.start;
    node.map(0, mapping(LOW.0, 0, PageSize::Small)).expect("a free table");
    assert_eq!(node.pool.remove(start), Err(ShrinkError::NotDraining));
    assert_eq!(node.pool.drain(start), Ok(()));
    assert_eq!((node.pool.total(), node.pool.free()), (4, 2));
    assert_eq!(node.pool.remove(start), Err(ShrinkError::InUse(1)));
    let unmapped = node.unmap(0, page(LOW.0, PageSize::Small)).expect("a page");
    assert_eq!(node.pool.remove(start), Err(ShrinkError::InUse(1)));
    node.acknowledge(0, unmapped.retired.expect("its only page")).expect("its own table");
    assert_eq!(node.pool.remove(start), Ok(first));
    assert_eq!(node.pool.extents().collect::<Vec<_>>(), [second]);
    assert_eq!(node.pool.drain(start), Err(ShrinkError::NotFound));

    let grow =
        |node: &mut Node<EmulatedMemory>, start, tables| node.pool.grow(Extent { start, tables });
    assert_eq!(grow(&mut node, second.start, 1), Err(GrowError::Overlaps));
    assert_eq!(grow(&mut node, start, 1 << 20), Err(GrowError::Overlaps));
    assert_eq!(grow(&mut node, start, 0), Err(GrowError::NotFrames));
    assert_eq!(grow(&mut node, PhysAddr(start.0 + 8), 1), Err(GrowError::NotFrames));
    assert_eq!(grow(&mut node, PhysAddr(1 << 60), usize::MAX), Err(GrowError::NotFrames));
    assert_eq!(grow(&mut node, start, 2), Ok(()));
}

#[test]
fn a_table_of_two_cores_is_not_recovered() {
    let (memory, frames, extents) = frames(2);
    let mut node = Node::new(memory, &frames, &extents);
    node.map(0, mapping(LOW.0, 0, PageSize::Small)).expect("a free table");
    let twin = AddressSpace::recover(CoreId(1), node.spaces[0].root());
    let spaces = [AddressSpace::recover(CoreId(0), twin.root()), twin];
    let recovered = TablePool::recover(&mut node.memory, &extents, &spaces);
    assert_eq!(recovered.err(), Some(RecoverError::Foreign(extents[0].start)));
    let recovered = TablePool::recover(&mut node.memory, &extents[1..], &spaces);
    assert_eq!(recovered.err(), Some(RecoverError::Foreign(extents[0].start)));
}

#[test]
fn the_token_of_a_core_that_is_gone_frees_no_table_of_its_successor() {
    let (memory, frames, [first, _]) = frames(2);
    let mut node = Node::new(memory, &frames, &[first]);
    let retire = |node: &mut Node<EmulatedMemory>, core| {
        node.map(core, mapping(LOW.0, 0, PageSize::Small)).expect("the only table");
        let unmapped = node.unmap(core, page(LOW.0, PageSize::Small)).expect("a page");
        unmapped.retired.expect("its only page")
    };
    let void = retire(&mut node, 0);
    node.spaces.remove(0).dismantle(&mut node.memory, &mut node.pool);
    assert_eq!((node.pool.free(), node.pool.retired()), (1, 0));
    let retired = retire(&mut node, 0);
    assert_eq!(node.spaces[0].core(), CoreId(1));
    assert!(node.acknowledge(0, void).is_err());
    assert_eq!((node.pool.free(), node.pool.retired()), (0, 1));
    assert_eq!(node.acknowledge(0, retired), Ok(()));
}

#[test]
fn upper_tables_are_built_from_the_frames_that_the_plan_asks_for() {
    let (mut memory, frames, _) = frames(0);
    let mut build = |frames: &[PhysAddr]| {
        AddressSpace::build(&mut memory, CoreId(0), &plan(), frames).map(|space| space.root())
    };
    let needed = plan().tables();
    assert_eq!(build(&frames[..needed - 1]), Err(BuildError::TooFewFrames(needed)));
    let mut skewed = frames.clone();
    skewed[1].0 += 8;
    assert_eq!(build(&skewed), Err(BuildError::Misaligned(skewed[1])));
    assert_eq!(build(&frames), Ok(frames[0]));
}

#[test]
fn a_run_of_memory_is_covered_with_the_largest_pages_that_fit() {
    let sizes = |virt, phys, bytes, largest| -> Vec<PageSize> {
        let (virt, phys) = (VirtAddr(virt), PhysAddr(phys));
        let pages: Vec<Mapping> =
            Mapping::cover(virt, phys, bytes, largest, Permissions::READ).collect();
        for (before, after) in pages.iter().zip(&pages[1..]) {
            assert_eq!(before.virt.0 + before.size.bytes(), after.virt.0);
            assert_eq!(before.phys.0 + before.size.bytes(), after.phys.0);
        }
        pages.iter().map(|page| page.size).collect()
    };
    use PageSize::*;
    assert_eq!(sizes(LARGE - 4096, GIB - 4096, LARGE + 4097, Huge), [Small, Large, Small]);
    assert_eq!(sizes(2 * GIB, GIB, GIB + 1, Huge), [Huge, Small]);
    assert_eq!(sizes(2 * GIB, GIB, 2 * LARGE, Huge), [Large, Large]);
    assert_eq!(sizes(2 * GIB, GIB + 4096, LARGE, Huge).len(), 512);
    assert_eq!(sizes(0, 0, 8192, Large), [Small, Small]);
    assert_eq!(sizes(u64::MAX - 4095, 0, u64::MAX, Huge), [Small]);
}
