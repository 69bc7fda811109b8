//! What the boot path found, handed to the kernel as an explicit description. A node's cores and
//! memory are what this says, never "the whole machine": a supervisor can hand over a part.

use alloc::string::String;
use alloc::vec::Vec;

use nile_memory::paging::{AddressSpace, Retired, TableMemory, TablePool};
use nile_memory::{MemoryMap, PhysicalMemory};
use nile_ring::Region;

/// One step of the start and how long it took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What was done.
    pub name: &'static str,
    /// Microseconds it took.
    pub micros: u64,
}

/// The node, as found. Its cores are in the board.
#[derive(Clone, Debug)]
pub struct NodeDescription {
    /// `qemu`, `kvm`, `bare`, `hosted`, `sim`: which machine this is, for the report.
    pub machine: String,
    /// Bytes of the kernel's image as loaded, symbols not counted.
    pub image_bytes: u64,
    /// The memory that the node may use, and the rest as far as firmware names it.
    pub memory: MemoryMap,
    /// What the machine can do that a reader of the report may want to know, one line each
    /// (timer sources and their error, CPU features in use, placement of cores).
    pub facts: Vec<String>,
    /// The steps of the start so far, in order, without gaps from the first instruction.
    pub steps: Vec<Step>,
}

/// Every core's page tables, all built before the core starts (NileOS paper, III.B).
pub struct Tables<T: TableMemory> {
    /// Where the tables are.
    pub memory: T,
    /// The last-level tables that all cores share.
    pub pool: TablePool,
    /// A space for each core, by its id.
    pub spaces: Vec<AddressSpace>,
    /// Tables of the upper levels, of all cores together.
    pub upper_tables: u64,
    /// After a restart of the management core: tables that cores may still walk.
    pub retired: Vec<Retired>,
}

/// What an incarnation of the management core starts with.
pub struct Handoff<T: TableMemory> {
    /// The node, as found.
    pub node: NodeDescription,
    /// The node's memory, minus what the boot path took. Its records are in a region that
    /// survives this core.
    pub physical: PhysicalMemory<Region>,
    /// Every core's tables.
    pub tables: Tables<T>,
}
