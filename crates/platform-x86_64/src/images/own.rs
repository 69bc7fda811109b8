//! Images of the core that manages the node. Nobody else may change its tables, and it cannot
//! change what it runs in. So each place for an image ([`super::choice`]) has tables of its own for
//! this core: a root, one for each slot, and below them what has the image; all else they share
//! with the tables that the core was built with. The core makes those of an image that it does not
//! run, and its next incarnation begins on them.
//!
//! One that fails on trial begins again on the tables before, which are as they were: by its own
//! handlers or, before it has any, by those of the way in, which lead to where cores are parked;
//! there it is expected. Nobody takes this core away if it hangs.

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, PageSize, PhysAddr, Status};
use nile_memory::paging::{Level, MapError, Mapping, Plan, TableIndex, VirtRange};
use nile_memory::{AddressSpace, Permissions, TableMemory, TablePool};
use nile_platform::image_memory::Other;

use super::choice::{Choice, Placed};
use super::head::Head;
use crate::apic::LocalApic;
use crate::layout::{self, KERNEL_BASE};
use crate::node::{Frames, Node};
use crate::smp::Parking;
use crate::space::SlotRoots;
use crate::tables::TableFrames;
use crate::{privileged, serial, space, start};

/// Upper tables that have the image: a root that nobody runs on, and one of each level below.
const UPPER: usize = 3;

/// Last-level tables of an image: it is in so many times 2 MiB of addresses at most.
const LAST: usize = 12;

/// Tables of one place.
const OF_PLACE: usize = 1 + UserSlot::COUNT + UPPER + LAST;

/// Tables of both.
pub const TABLES: usize = 2 * OF_PLACE;

/// The roots that a core runs on.
pub struct Roots {
    /// The one that reaches all.
    pub root: PhysAddr,
    /// Those that reach one slot of the user half alone.
    pub slots: SlotRoots,
}

impl Roots {
    /// Those of the managing core with an image.
    pub fn of(node: &Node, image: &Placed) -> Option<Roots> {
        let tables = Tables::of(node, image)?;
        let slots = core::array::from_fn(|slot| tables.frame(1 + slot));
        Some(Roots { root: tables.frame(0), slots })
    }
}

/// The tables of one place.
struct Tables(Frames);

impl Tables {
    fn of(node: &Node, image: &Placed) -> Option<Tables> {
        let bytes = (OF_PLACE as u64) * PageSize::Small.bytes();
        let number = image.place.checked_sub(1)?;
        Some(Tables(node.image_tables?.part(number * bytes, bytes)))
    }

    fn frame(&self, number: usize) -> PhysAddr {
        PhysAddr(self.0.start.0 + number as u64 * PageSize::Small.bytes())
    }
}

/// Makes the tables for an image that the core does not run. `NoTables`: it is spread over more
/// addresses than these map.
pub fn prepare(node: &Node, memory: &mut TableFrames, image: &Placed) -> Result<(), Status> {
    let tables = Tables::of(node, image).ok_or(Status::Denied)?;
    let upper: [PhysAddr; UPPER] =
        core::array::from_fn(|at| tables.frame(OF_PLACE - LAST - 1 - at));
    let plan = Plan::new(&[VirtRange::new(KERNEL_BASE, PageSize::Huge.bytes())]);
    let plan = plan.expect("these addresses exist");
    let mut space = AddressSpace::build(memory, CoreId::BOOT, &plan, &upper)
        .expect("the plan has one table of each upper level");
    let last = (OF_PLACE - LAST) as u64 * PageSize::Small.bytes();
    let mut pool = TablePool::new();
    pool.grow(tables.0.part(last, tables.0.bytes - last).as_extent())
        .expect("these are whole frames");
    let (gate, way_in) = (layout::image::gate().start, space::way_in());
    let way_in = Mapping::cover(
        gate,
        way_in.start,
        way_in.bytes,
        PageSize::Small,
        Permissions::READ_EXECUTE,
    );
    let mappings = image.head.mappings(&image.memory, &Head::own());
    way_in.chain(mappings).try_for_each(|mapping| space.map(memory, &mut pool, mapping)).map_err(
        |error| match error {
            MapError::NoTables => Status::NoTables,
            _ => Status::Failed,
        },
    )?;

    let first = AddressSpace::recover(CoreId::BOOT, node.core(CoreId::BOOT).root);
    let roots = Roots::of(node, image).ok_or(Status::Denied)?;
    first.add_root(memory, roots.root, |_| false);
    space::add_slots(&first, memory, roots.slots);
    let of_image = TableIndex::of(KERNEL_BASE, Level::Pml4);
    let link = memory.read(space.root(), of_image);
    for root in roots.slots.into_iter().chain([roots.root]) {
        memory.write(root, of_image, link);
    }
    Ok(())
}

/// This core, which manages the node, has left: its next incarnation has the image that it made
/// tables for, if there is one.
pub fn enter_prepared(node: &Node, apic: &LocalApic) {
    let choice = Choice::of(node, CoreId::BOOT);
    if !choice.is_prepared() {
        return;
    }
    let former = choice.now();
    let mut back = start::beginning(node, CoreId::BOOT, former.as_ref());
    back.apic = apic.id();
    // SAFETY: the tables and the image that the core has now stay as they are until it has one for
    // good.
    unsafe { parking(node).expect(&back) }
    choice.enter(Other::Loaded);
    choice.begin(node.clock.now());
}

/// The image of this core, which manages the node, has failed on trial.
pub fn go_back(node: &Node, how: &str) {
    Choice::of(node, CoreId::BOOT).enter(Other::Former);
    serial::log(format_args!(
        "the image of {} failed while it was on trial ({how}); the core runs its former image \
         again",
        CoreId::BOOT
    ));
}

/// An incarnation of this core, which manages the node, has handlers now. If it comes from where
/// cores are parked, the image of the last one has failed before that had any.
pub fn has_begun(node: &Node, apic: &LocalApic) {
    if node.image_tables.is_none() {
        return;
    }
    parking(node).expect_nothing(apic.id());
    let choice = Choice::of(node, CoreId::BOOT);
    if choice.other(Other::Former).is_some()
        && super::present(node, CoreId::BOOT).root != privileged::root()
    {
        go_back(node, "did not begin");
    }
}

fn parking(node: &Node) -> Parking {
    // SAFETY: the managing core of a node with images has it in its space for ever.
    unsafe { Parking::at(layout::shared(node.parking.start)) }
}
