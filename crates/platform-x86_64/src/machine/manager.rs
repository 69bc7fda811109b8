//! [`Manager`]: what the managing core may do to the whole node.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use nile_abi::{CoreId, ImageRefused, Instant, PageSize, Status, VirtAddr};
use nile_memory::paging::Mapping;
use nile_memory::{AddressSpace, MemoryMap, PhysicalMemory, TablePool};
use nile_platform::{
    CorePhase, Domains, Grant, Handoff, ImageMemory, Line, Manager, NodeDescription, Outcome, Step,
    Tables,
};

use super::frames_of;
use crate::apic::LocalApic;
use crate::disk::wipe::Renewals;
use crate::images::choice::Choice;
use crate::node::{Node, region};
use crate::smp::Parking;
use crate::tables::{TableFrames, ZeroingWindow};
use crate::{domain, guard, images, layout, local, power, serial, start};

/// The node's management, on the core that has it.
pub struct NodeManager {
    node: &'static Node,
    renewals: Renewals,
}

impl NodeManager {
    /// That of a node, for the core that manages it.
    pub(super) fn new(node: &'static Node) -> NodeManager {
        NodeManager { node, renewals: Renewals::default() }
    }

    /// The disks for domains that are being made as new.
    pub(crate) fn renewals(&self) -> &Renewals {
        &self.renewals
    }

    /// The node.
    pub(crate) fn node(&self) -> &'static Node {
        self.node
    }

    /// Parked cores, and this core's interrupt controller, unless the node is a domain.
    pub(crate) fn parking(&self) -> Option<(Parking, LocalApic)> {
        if self.node.domain.is_some() {
            return None;
        }
        // SAFETY: the managing core of any other node has what they share in its space for ever.
        let parking = unsafe { Parking::at(layout::shared(self.node.parking.start)) };
        Some((parking, local::get()?.apic))
    }

    /// The page tables as the managing core sees them.
    pub(crate) fn tables(&self) -> TableFrames {
        // SAFETY: the page-table window is in this core's space for ever and shows these frames.
        // Two values of this exist at most: the kernel's, and one for the entry of the zeroing
        // window, which the kernel's never names.
        unsafe { TableFrames::new(self.node.tables, layout::TABLES_BASE) }
    }

    fn describe(&self) -> NodeDescription {
        let node = self.node;
        let started = ("cores", node.cores_started.load(Ordering::Acquire));
        let mut last = Instant::START;
        let mut step = |(name, tsc): (&'static str, u64)| {
            let end = node.clock.at(tsc);
            let micros = end.as_nanos() / 1000 - last.as_nanos() / 1000;
            last = end;
            Step { name, micros }
        };
        let steps = node.steps.iter().map(|(step, tsc)| (step.name(), *tsc));
        NodeDescription {
            machine: node.machine.name().to_string(),
            image_bytes: node.image_bytes,
            memory: MemoryMap::from_claims(&node.memory),
            facts: node.facts.iter().map(|fact| fact.to_string()).collect(),
            steps: steps.chain([started]).map(&mut step).collect(),
        }
    }
}

impl Manager for NodeManager {
    type Tables = TableFrames;

    const SHARED_BASE: VirtAddr = layout::SHARED_BASE;

    fn huge_base(&self) -> Option<VirtAddr> {
        self.node.features.huge_pages.then_some(layout::HUGE_BASE)
    }

    /// The boot path leaves no value behind, only what it wrote to memory: frame records and
    /// tables. So the first incarnation recovers its state like any later one.
    fn handoff(&self) -> Handoff<TableFrames> {
        let node = self.node;
        let words = node.words.iter().map(|frames| {
            // SAFETY: the records are in the managing core's space for ever, and reached as
            // atomics only.
            unsafe { region(*frames, layout::SHARED_BASE) }
        });
        let physical = PhysicalMemory::recover(words)
            .expect("the boot path wrote the records, and each store leaves them whole");

        let mut memory = self.tables();
        let ids = (0u16..).map(CoreId);
        let spaces: Vec<AddressSpace> =
            ids.zip(&node.cores).map(|(id, core)| AddressSpace::recover(id, core.root)).collect();
        let (pool, retired) = TablePool::recover(&mut memory, &[node.pool.as_extent()], &spaces)
            .expect("the boot path built the tables, and each store leaves them whole");
        let upper_tables = (node.tables.bytes - node.pool.bytes) / PageSize::Small.bytes();
        let tables = Tables { memory, pool, spaces, upper_tables, retired };
        Handoff { node: self.describe(), physical, tables }
    }

    fn shares(&self, grant: Grant) -> bool {
        guard::may_have(frames_of(grant))
    }

    fn zero(&self, grant: Grant) {
        let tables = self.tables();
        let root = self.node.core(CoreId::BOOT).root;
        let window = ZeroingWindow::find(&tables, root)
            .expect("the managing core's space is built with the window");
        // SAFETY: by the trait's contract nobody uses the frames; this is the core's own space.
        unsafe { window.zero(&tables, frames_of(grant)) }
    }

    /// A domain's is not what whoever started the machine waits for.
    fn report(&self, document: &str) {
        if self.node.domain.is_none() {
            serial::report(document);
        }
    }

    fn call_back(&self, core: CoreId) {
        if self.node.domain.is_some() {
            return domain::ask_in(self.node, core);
        }
        let board = self.node.board();
        let record = board.record(core);
        let Some((parking, apic)) = self.parking() else { return };
        if record.phase() == CorePhase::Away || self.is_gone(core) {
            let choice = Choice::of(self.node, core);
            let start = start::beginning(self.node, core, choice.now().as_ref());
            choice.begin(self.node.clock.now());
            // SAFETY: the space was built for this core, which has left it or is about to, and has
            // this image.
            unsafe { parking.call_back(&start, record.generation(), &apic) }
        }
    }

    fn is_gone(&self, core: CoreId) -> bool {
        let is_parked = |(parking, _): (Parking, _)| parking.is_parked(self.node.core(core).apic);
        self.node.domain.is_some() || self.parking().is_some_and(is_parked)
    }

    fn image(&self, core: CoreId) -> u64 {
        images::name(self.node, core)
    }

    fn may_have_image(&self, core: CoreId) -> bool {
        let node = self.node;
        let is_own = node.domain.is_none() && core.index() < node.cores.len();
        // Whoever puts domains together does so with what the boot space has.
        is_own && (core != CoreId::BOOT || node.image_tables.is_some())
    }

    fn load_image(&self, core: CoreId, file: u64) -> Result<u64, ImageRefused> {
        match self.choice(core)?.load_as(file) {
            true => Ok(file),
            false => Err(ImageRefused::NoFile),
        }
    }

    fn unload_image(&self, core: CoreId) {
        Choice::of(self.node, core).unload();
    }

    fn images(&self) -> Option<&dyn ImageMemory> {
        self.node.domain.is_none().then_some(self as &dyn ImageMemory)
    }

    fn lose(&self, core: CoreId) -> Result<(), Status> {
        domain::lose(self.node, core)
    }

    fn mappings(&self, line: Line) -> Option<Vec<Mapping>> {
        self.node.mappings(line)
    }

    fn domains(&self) -> Option<&dyn Domains> {
        self.node.supervised.as_ref().map(|_| self as &dyn Domains)
    }

    fn power_off(&self, outcome: Outcome) {
        power::off(outcome.into())
    }
}
