//! Mapping and unmapping a page: an address space over the shared pool of last-level tables,
//! beside one whose tables are all its own and are never given back.

use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use nile_memory::paging::{EmulatedMemory, Extent, Plan, VirtRange};
use nile_memory::{AddressSpace, Mapping, Page, Permissions, TablePool};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::private::PrivateSpace;
use crate::rounds::contest;

/// Where the pages are mapped, and how much may be.
const BASE: VirtAddr = VirtAddr(0x4000_0000_0000);
const SPAN: u64 = 4 << 30;

/// Pages of a round: four last-level tables' worth of the small ones.
const PAGES: u32 = 2048;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let sizes = [("mapping-4k", PageSize::Small), ("mapping-2m", PageSize::Large)];
    Ok(sizes.map(|(name, size)| measure(mode, name, size)).into())
}

fn measure(mode: Mode, name: &str, size: PageSize) -> Figure {
    let mut shared = Shared::new();
    let mut private = PrivateSpace::new();
    let pages: Vec<Mapping> = (0..u64::from(PAGES)).map(|number| page(number, size)).collect();
    let mut ours = || match mode {
        Mode::Real => shared.map_and_unmap(&pages),
        Mode::Control => pages.iter().for_each(|page| shared.map_and_unmap(&in_pieces(*page))),
    };
    let rounds = if mode == Mode::Control { 9 } else { 500 };
    let times = contest(rounds, PAGES, &mut [&mut ours, &mut || private.map_and_unmap(&pages)]);
    eprintln!("  {name}: shared pool {:.1} ns, private {:.1} ns", times.median(0), times.median(1));
    let peer = Peer { name: "private tables".into(), value: times.median(1) };
    let (ours, ratio) = (times.median(0), times.ratio(0, 1));
    Figure::with_ratio(name, "ns", ours, peer, ratio, Target::AtMost(2.5))
}

fn page(number: u64, size: PageSize) -> Mapping {
    let offset = number * size.bytes();
    Mapping {
        virt: VirtAddr(BASE.0 + offset),
        phys: PhysAddr(offset),
        size,
        permissions: Permissions::READ_WRITE,
    }
}

/// The control: each page by itself, so that its table is taken from the pool and given back, and
/// a large one as the small ones that it could be.
fn in_pieces(page: Mapping) -> Vec<Mapping> {
    let Mapping { virt, phys, size, permissions } = page;
    Mapping::cover(virt, phys, size.bytes(), PageSize::Small, permissions).collect()
}

/// One core's space and the pool.
struct Shared {
    memory: EmulatedMemory,
    pool: TablePool,
    space: AddressSpace,
}

impl Shared {
    fn new() -> Shared {
        let plan = Plan::new(&[VirtRange::new(BASE, SPAN)]).expect("the range exists");
        let last_tables = TablePool::tables_for(SPAN);
        let mut memory = EmulatedMemory::new(PhysAddr(0), plan.tables() + last_tables);
        let uppers: Vec<_> = (0..plan.tables()).map(|number| memory.frame(number)).collect();
        let mut pool = TablePool::new();
        let extent = Extent { start: memory.frame(plan.tables()), tables: last_tables };
        pool.grow(extent).expect("nobody else has these frames");
        let space = AddressSpace::build(&mut memory, CoreId(1), &plan, &uppers);
        Shared { space: space.expect("as many frames as planned"), memory, pool }
    }

    /// Each page is mapped, then each is unmapped; the core answers at once.
    fn map_and_unmap(&mut self, pages: &[Mapping]) {
        let Shared { memory, pool, space } = self;
        for page in pages {
            space.map(memory, pool, *page).expect("nothing is mapped there, and tables suffice");
        }
        for Mapping { virt, phys, size, .. } in pages.iter().copied() {
            let unmapped = space.unmap(memory, pool, Page { virt, size }).expect("it was mapped");
            assert_eq!(unmapped.phys, phys);
            if let Some(retired) = unmapped.retired {
                space.acknowledge(memory, pool, retired).expect("it is this core's");
            }
        }
    }
}
