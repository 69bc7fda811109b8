//! Who says which core of a node is for what (NileOS paper, V: optimisers that are plugged in as
//! services). Each is an instance of this type on the managing core. It is asked; what it answers
//! is checked, and done or not, by the core manager.

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

use crate::core_manager::CoreRole;

/// A way to assign roles.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct AssignmentEntry {
    /// Its name.
    pub name: String,
    /// How it decides.
    pub decides: String,
}

/// A core that is to have roles.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreShape {
    /// Its roles now.
    pub now: Vec<CoreRole>,
    /// Those that stay with it.
    pub keeps: Vec<CoreRole>,
    /// Those that it may have besides.
    pub may: Vec<CoreRole>,
    /// How much it does of each role, in the order management, network, disk, worker: thousandths
    /// of a usual core.
    pub speed: Vec<u32>,
    /// What changing its roles costs: millionths of the node's time.
    pub change: u32,
}

/// The roles that a core is to have.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RolesOfCore {
    /// Which.
    pub roles: Vec<CoreRole>,
}

/// What was found.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The roles of each core, in the order of the cores.
    pub cores: Vec<RolesOfCore>,
    /// What that costs: millionths of a second for what is asked in one.
    pub cost: u64,
    /// What staying put costs.
    pub stays: u64,
    /// How many assignments were judged.
    pub judged: u32,
}

/// A way to assign roles to cores.
#[service(
    subsystem = "cores",
    capability = "role assignment",
    layer = high,
    type(attributes(optional exact: bool)),
)]
pub trait RoleAssignment {
    /// What it is called, and how it decides.
    #[stl_k(reply = "assignment", allow(package, operator, peer))]
    fn describe(&self) -> CallResult<AssignmentEntry>;

    /// What each core is to be for, when so much is asked of each role, in the order management,
    /// network, disk, worker: millionths of a usual core. It judges `budget` assignments at most,
    /// which blocks the core for a millisecond or so each hundred; `seed` is what it draws from.
    /// `Invalid` (no cores, or too many), whatever else is wrong with what is asked.
    #[stl_k(reply = "assignment", allow(operator, peer))]
    fn choose(
        &self,
        cores: Vec<CoreShape>,
        demand: Vec<u64>,
        #[range(1..=100000)] budget: u32,
        seed: u64,
    ) -> CallResult<Assignment>;
}
