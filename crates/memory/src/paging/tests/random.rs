//! Random requests to several cores' spaces over one pool, and to naive ones.

use super::super::*;
use super::model::Model;
use super::{CORES, GIB, HIGH, HUGE, LARGE, LOW, Node, frames, page, plan};
use alloc::vec::Vec;
use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Op {
    Map(usize, Mapping),
    Unmap(usize, Index),
    UnmapAnything(usize, Page),
    Protect(usize, Index, Permissions),
    Acknowledge(Index),
    Restart,
    Dismantle(usize),
}

fn any_virt() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (0u64..3, 0u64..3).prop_map(|(large, small)| LOW.0 + large * LARGE + small * 4096),
        3 => (0u64..2, 0u64..2).prop_map(|(large, small)| HIGH.0 + large * LARGE + small * 4096),
        2 => (0u64..5).prop_map(|huge| HUGE.0 + huge * GIB),
        1 => (0u64..512).prop_map(|small| LOW.0 + LARGE + small * 4096),
        1 => any::<u64>().prop_map(|virt| virt & !0xfff),
        1 => any::<u64>(),
    ]
}

fn any_page() -> impl Strategy<Value = Page> {
    let size = prop_oneof![
        5 => Just(PageSize::Small),
        3 => Just(PageSize::Large),
        1 => Just(PageSize::Huge),
    ];
    (any_virt(), size, 0..8).prop_map(|(virt, size, skew)| {
        let virt = if skew == 0 { virt } else { virt & !(size.bytes() - 1) };
        page(virt, size)
    })
}

fn any_permissions() -> impl Strategy<Value = Permissions> {
    (0..16).prop_map(|bits| Permissions {
        write: bits & 1 != 0,
        execute: bits & 2 != 0,
        user: bits & 4 != 0,
        uncached: bits & 8 != 0,
    })
}

fn any_op() -> impl Strategy<Value = Op> {
    let map = (0..CORES, any_page(), any::<u64>(), 0..16, any_permissions()).prop_map(
        |(core, page, phys, skew, permissions)| {
            let phys = match skew {
                0 => phys,
                1 => phys & !(page.size.bytes() - 1),
                _ => phys & ((1 << 52) - 1) & !(page.size.bytes() - 1),
            };
            let (virt, size) = (page.virt, page.size);
            Op::Map(core, Mapping { virt, phys: PhysAddr(phys), size, permissions })
        },
    );
    prop_oneof![
        12 => map,
        6 => (0..CORES, any::<Index>()).prop_map(|(core, index)| Op::Unmap(core, index)),
        2 => (0..CORES, any_page()).prop_map(|(core, page)| Op::UnmapAnything(core, page)),
        2 => (0..CORES, any::<Index>(), any_permissions())
            .prop_map(|(core, index, permissions)| Op::Protect(core, index, permissions)),
        4 => any::<Index>().prop_map(Op::Acknowledge),
        1 => Just(Op::Restart),
        1 => (0..CORES).prop_map(Op::Dismantle),
    ]
}

/// A node beside its model, and each core's translation.
struct Pair {
    node: Node<EmulatedMemory>,
    frames: Vec<PhysAddr>,
    extents: [Extent; 2],
    models: [Model; CORES],
    units: Vec<Mmu>,
    waiting: Vec<Retired>,
}

impl Pair {
    fn new(tables: usize) -> Pair {
        let (memory, frames, extents) = frames(tables);
        let node = Node::new(memory, &frames, &extents);
        let units = node.spaces.iter().map(|space| Mmu::new(space.root())).collect();
        Pair { node, frames, extents, models: Default::default(), units, waiting: Vec::new() }
    }

    fn free_tables(&self) -> usize {
        let total: usize = self.extents.iter().map(|extent| extent.tables).sum();
        total - self.models.iter().map(Model::tables).sum::<usize>() - self.waiting.len()
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Map(core, mapping) => {
                let verdict = self.models[core].verdict(mapping, self.free_tables());
                prop_assert_eq!(self.node.map(core, mapping), verdict);
                if verdict.is_ok() {
                    self.models[core].pages.insert(mapping.virt.0, mapping);
                }
            }
            Op::Unmap(core, index) => {
                let pages: Vec<Mapping> = self.models[core].pages.values().copied().collect();
                if !pages.is_empty() {
                    let mapping = pages[index.index(pages.len())];
                    self.unmap(core, mapping)?;
                }
            }
            Op::UnmapAnything(core, page) => match self.models[core].covering(page.virt.0) {
                Some(mapping) if mapping.virt == page.virt && mapping.size == page.size => {
                    self.unmap(core, mapping)?;
                }
                covering => {
                    let result = self.node.unmap(core, page);
                    let misaligned = !page.virt.0.is_multiple_of(page.size.bytes());
                    match (result, covering) {
                        (Err(UnmapError::Misaligned), _) => prop_assert!(misaligned),
                        (Err(UnmapError::WrongSize(size)), Some(mapping)) => {
                            prop_assert_eq!(size, mapping.size);
                            prop_assert!(size > page.size);
                        }
                        (Err(UnmapError::MappedSmaller), _) => {
                            let below = self.models[core].overlaps(page);
                            prop_assert!(below || page.size == PageSize::Huge);
                        }
                        (result, covering) => {
                            prop_assert_eq!(result, Err(UnmapError::NotMapped));
                            prop_assert!(covering.is_none());
                        }
                    }
                }
            },
            Op::Protect(core, index, permissions) => self.protect(core, index, permissions)?,
            Op::Acknowledge(index) => {
                if !self.waiting.is_empty() {
                    let at = index.index(self.waiting.len());
                    let retired = self.waiting.swap_remove(at);
                    self.acknowledge(retired)?;
                }
            }
            Op::Restart => self.restart()?,
            Op::Dismantle(core) => self.dismantle(core),
        }
        Ok(())
    }

    fn unmap(&mut self, core: usize, mapping: Mapping) -> Result<(), TestCaseError> {
        let page = Page { virt: mapping.virt, size: mapping.size };
        let unmapped = self.node.unmap(core, page);
        prop_assert!(unmapped.is_ok());
        let Ok(Unmapped { phys, page: invalidate, retired }) = unmapped else { return Ok(()) };
        prop_assert_eq!((phys, invalidate), (mapping.phys, page));
        let model = &mut self.models[core];
        model.pages.remove(&mapping.virt.0);
        let emptied = page.size == PageSize::Small && !model.has_table(page.virt.0);
        prop_assert_eq!(retired.is_some(), emptied);
        // Until a table is given back the core is left to use what it has cached.
        match retired {
            Some(retired) => {
                model.pending.push(page.virt.0);
                self.waiting.push(retired);
            }
            None => self.units[core].invalidate(page),
        }
        Ok(())
    }

    fn acknowledge(&mut self, retired: Retired) -> Result<(), TestCaseError> {
        let core = retired.core().index();
        let virt = retired.page().virt.0;
        // An acknowledgement that goes to another core's tables comes back.
        let refused = self.node.acknowledge((core + 1) % CORES, retired);
        prop_assert!(refused.is_err());
        if let Err(retired) = refused {
            self.units[core].invalidate(retired.page());
            prop_assert_eq!(self.node.acknowledge(core, retired), Ok(()));
        }
        self.models[core].pending.retain(|pending| *pending / LARGE != virt / LARGE);
        Ok(())
    }

    fn protect(
        &mut self,
        core: usize,
        index: Index,
        permissions: Permissions,
    ) -> Result<(), TestCaseError> {
        let pages: Vec<Mapping> = self.models[core].pages.values().copied().collect();
        if pages.is_empty() {
            return Ok(());
        }
        let Mapping { virt, size, .. } = pages[index.index(pages.len())];
        let result =
            self.node.spaces[core].protect(&mut self.node.memory, Page { virt, size }, permissions);
        if permissions.write && permissions.execute {
            prop_assert_eq!(result, Err(ProtectError::WriteAndExecute));
            return Ok(());
        }
        prop_assert_eq!(result, Ok(Page { virt, size }));
        self.units[core].invalidate(Page { virt, size });
        self.models[core]
            .pages
            .insert(virt.0, Mapping { permissions, ..pages[index.index(pages.len())] });
        Ok(())
    }

    /// The managing core restarts: only the tables are left, and which frames they are in.
    fn restart(&mut self) -> Result<(), TestCaseError> {
        for space in &mut self.node.spaces {
            *space = AddressSpace::recover(space.core(), space.root());
        }
        let recovered = TablePool::recover(&mut self.node.memory, &self.extents, &self.node.spaces);
        prop_assert!(recovered.is_ok());
        let (pool, retired) = recovered.unwrap_or_default();
        prop_assert_eq!(retired.len(), self.waiting.len());
        (self.node.pool, self.waiting) = (pool, retired);
        // Who had yet to invalidate what is not known any more.
        self.units = self.node.spaces.iter().map(|space| Mmu::new(space.root())).collect();
        Ok(())
    }

    /// A core stops for good; another takes its place in the same upper frames.
    fn dismantle(&mut self, core: usize) {
        let space = self.node.spaces.remove(core);
        let mut frames = space.dismantle(&mut self.node.memory, &mut self.node.pool);
        frames.sort();
        assert_eq!(frames, self.frames.chunks(plan().tables()).nth(core).expect("its frames"));
        let memory = &mut self.node.memory;
        let space = AddressSpace::build(memory, CoreId(core as u16), &plan(), &frames);
        let space = space.expect("as many frames as before");
        self.units[core] = Mmu::new(space.root());
        self.node.spaces.insert(core, space);
        self.models[core] = Model::default();
        self.waiting.retain(|retired| retired.core().index() != core);
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.node.memory.stray(), 0);
        prop_assert_eq!(self.node.pool.free(), self.free_tables());
        prop_assert_eq!(self.node.pool.retired(), self.waiting.len());
        for (core, model) in self.models.iter().enumerate() {
            let probes = (0..4).flat_map(|large| {
                [LOW, HIGH]
                    .map(|base| (0..4).map(move |small| base.0 + large * LARGE + small * 4096))
            });
            let mapped = model
                .pages
                .values()
                .flat_map(|mapping| [mapping.virt.0, mapping.virt.0 | (mapping.size.bytes() - 1)]);
            for virt in probes.flatten().chain(mapped).collect::<Vec<_>>() {
                let expected = model.covering(virt);
                let space = &self.node.spaces[core];
                prop_assert_eq!(space.find(&self.node.memory, VirtAddr(virt)), expected);
                // What a core has been told to forget and has not yet may be anything it was.
                if !model.pending.contains(&(virt & !0xfff)) {
                    let seen = self.units[core].translate(&self.node.memory, VirtAddr(virt));
                    prop_assert_eq!(seen, expected, "core {} at {:#x}", core, virt);
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn cores_see_what_was_mapped_for_them(
        tables in 2usize..12,
        ops in proptest::collection::vec(any_op(), 1..120),
    ) {
        let mut pair = Pair::new(tables);
        for op in ops {
            pair.apply(op)?;
            pair.check()?;
        }
    }
}
