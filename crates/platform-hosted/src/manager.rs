//! What the management core of a hosted node may do to all of it. All state that must outlive an
//! incarnation of that core lies in the node's memory: the record of frames and the page tables.
//! Every incarnation, the first too, finds it there.

use std::io::{self, Write};
use std::sync::Arc;

use nile_abi::{CoreId, ImageRefused, PageSize, VirtAddr};
use nile_memory::{MemoryKind, MemoryMap, MemoryRegion, PhysicalMemory};
use nile_platform::{Grant, Handoff, Manager, NodeDescription, Outcome};

use crate::arena::BASE;
use crate::images::image;
use crate::machine::is_isolated;
use crate::node::Node;
use crate::signals;
use crate::tables::ArenaTables;

/// The byte before the report on standard output (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The management of a hosted node.
#[derive(Clone)]
pub struct HostedManager {
    node: &'static Node,
    description: Arc<NodeDescription>,
}

impl HostedManager {
    /// The manager of `node`, which is as `description` says and has its memory prepared.
    pub(crate) fn new(node: &'static Node, description: NodeDescription) -> HostedManager {
        HostedManager { node, description: Arc::new(description) }
    }
}

/// Writes the record of frames, all free but so many bytes that are away, and every core's upper
/// page tables.
pub(crate) fn prepare_memory(node: &Node, away: u64) {
    let layout = node.record.layout;
    let Grant { start, bytes } = layout.free();
    let mut physical = PhysicalMemory::new();
    physical
        .add_region(start, bytes, frame_record(node))
        .expect("the layout leaves whole frames and a record for more than them");
    let mut left = away / PageSize::Large.bytes();
    while let Some((_, count)) = physical.send_away(left) {
        left -= count;
    }
    page_tables(node).build(layout).expect("the layout has the frames that the plan takes");
}

/// All memory of the node, and what of it is set aside.
pub(crate) fn memory_map(node: &Node) -> MemoryMap {
    let layout = node.record.layout;
    let claim = |range: Grant, kind| MemoryRegion::new(range.start, range.bytes, kind);
    MemoryMap::from_claims(&[
        claim(layout.free(), MemoryKind::Usable),
        claim(layout.reserved(), MemoryKind::Kernel),
    ])
}

fn frame_record(node: &Node) -> nile_ring::Region {
    let record = node.record.layout.frame_record();
    node.arena.region(record).expect("the record of frames lies in the node's memory")
}

fn page_tables(node: &Node) -> ArenaTables {
    ArenaTables::in_arena(&node.arena, node.record.layout)
        .expect("page tables lie in the node's memory")
}

impl Manager for HostedManager {
    type Tables = ArenaTables;

    const SHARED_BASE: VirtAddr = BASE;

    /// Linux has no 1 GiB pages for memory like the arena: a grant of that size is like any other.
    fn huge_base(&self) -> Option<VirtAddr> {
        None
    }

    /// # Panics
    ///
    /// If the record of frames or the tables contradict themselves: something wrote over them,
    /// and this node cannot be managed any more.
    fn handoff(&self) -> Handoff<ArenaTables> {
        let physical = PhysicalMemory::recover([frame_record(self.node)])
            .unwrap_or_else(|error| panic!("the record of frames is damaged: {error:?}"));
        let tables = page_tables(self.node)
            .recover(self.node.record.layout)
            .unwrap_or_else(|error| panic!("the page tables are damaged: {error:?}"));
        Handoff { node: NodeDescription::clone(&self.description), physical, tables }
    }

    /// # Panics
    ///
    /// If the range is not in the node's memory or Linux refuses: frames that are not clear must
    /// not be granted.
    fn zero(&self, grant: Grant) {
        if let Err(error) = self.node.arena.zero(grant) {
            panic!("cannot clear {grant:?}: {error:?}");
        }
    }

    /// Linux has it for others. Where it refuses, the memory is taken later, when it is zeroed.
    fn given_up(&self, grant: Grant) {
        let _ = self.node.arena.zero(grant);
    }

    /// One line on standard output. A report that nobody can read ends nothing.
    fn report(&self, document: &str) {
        let mut line = Vec::with_capacity(document.len() + 2);
        line.push(RECORD_SEPARATOR);
        line.extend_from_slice(document.as_bytes());
        line.push(b'\n');
        let mut output = io::stdout().lock();
        let _ = output.write_all(&line).and_then(|()| output.flush());
    }

    /// Returns at once; the node ends when all its loops have.
    fn call_back(&self, _: CoreId) {
        // It looks after all workers, and starts those that are not to be away any more.
        signals::tell_main_thread();
    }

    fn image(&self, core: CoreId) -> u64 {
        match self.may_have_image(core) {
            true => self.node.images().name(core),
            false => 0,
        }
    }

    /// One that is a process of its own.
    fn may_have_image(&self, core: CoreId) -> bool {
        is_isolated(self.node.board.record(core).roles())
    }

    fn load_image(&self, core: CoreId, file: u64) -> Result<u64, ImageRefused> {
        if !self.may_have_image(core) {
            return Err(ImageRefused::Stays);
        }
        let handed = self.node.handed.as_ref().and_then(|handed| handed.find(file));
        let image = image(handed.ok_or(ImageRefused::NoFile)?)?;
        Ok(self.node.images().load(core, image, self.node.record.clock.now()))
    }

    fn unload_image(&self, core: CoreId) {
        self.node.images().unload(core);
    }

    fn power_off(&self, outcome: Outcome) {
        self.node.finish(outcome);
    }
}
