//! The core manager: what each core of the node is for and what it has done, read from the cores'
//! records without disturbing them, and the end of a package, or of any core's incarnation.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, Status};
use nile_stl::node::CoreState;
use nile_stl::{CallError, CallResult, Caller, Record, Start, Stl, service};

/// The cores' records are its state.
pub struct CoreManager {
    stl: Stl,
}

impl Start for CoreManager {
    fn start(stl: &Stl) -> CoreManager {
        CoreManager { stl: stl.clone() }
    }
}

/// A core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreEntry {
    /// Its number in the node.
    pub core: u16,
    /// What it is for.
    pub roles: Vec<String>,
    /// Its incarnation.
    pub generation: u32,
    /// How far it has come.
    pub phase: String,
}

/// What a core is and what it has done since the node started, in all its incarnations.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreStatistics {
    /// Which core.
    pub entry: CoreEntry,
    /// Its name in the machine: APIC id, thread or process id.
    pub hardware_id: u64,
    /// Interrupts by cause.
    pub interrupts: Vec<Interrupts>,
    /// Those of them that came while it slept, and broke into nothing.
    pub wakes: u64,
    /// Passes of its loop.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// Polls of its tasks.
    pub polls: u64,
    /// System calls of its packages.
    pub system_calls: u64,
    /// Polls of tasks in a hundred passes of its loop: the fuller its passes, the higher.
    pub load: u64,
    /// What waits.
    pub queues: Vec<QueueDepth>,
}

/// How much waits on a core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct QueueDepth {
    /// Of what: tasks for their turn, calls that are served, calls that have not ended.
    pub name: String,
    /// How many.
    pub depth: u64,
}

/// How often a core was interrupted for one cause.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Interrupts {
    /// The cause.
    pub cause: String,
    /// How often.
    pub count: u64,
}

/// The cores of the node: roles, states, counts.
#[service(
    subsystem = "cores",
    capability = "management",
    layer = high,
    on = manager,
    keywords(core = 5, role = 3, statistics = 3, load = 2, package = 1)
)]
impl CoreManager {
    /// Every core.
    #[stl_k(reply = "cores")]
    fn list(&self) -> CallResult<Vec<CoreEntry>> {
        let node = self.stl.node()?;
        let cores = (0..self.stl.host().cores()).map(|core| CoreId(core as u16));
        let entries = cores.filter_map(|core| Some(entry(core, &node.state_of(core)?)));
        Ok(entries.collect())
    }

    /// What one core has done.
    #[stl_k(reply = "statistics")]
    fn statistics(&self, core: u16) -> CallResult<CoreStatistics> {
        let missing = || CallError::new(Status::NotFound, format!("the node has no core {core}"));
        let state = self.stl.node()?.state_of(CoreId(core)).ok_or_else(missing)?;
        let each = state
            .interrupts
            .iter()
            .map(|(cause, count)| Interrupts { cause: String::from(*cause), count: *count });
        let queues = state
            .queues
            .iter()
            .map(|(name, depth)| QueueDepth { name: String::from(*name), depth: *depth });
        Ok(CoreStatistics {
            entry: entry(CoreId(core), &state),
            hardware_id: state.hardware_id,
            interrupts: each.collect(),
            wakes: state.wakes,
            turns: state.turns,
            sleeps: state.sleeps,
            polls: state.polls,
            system_calls: state.system_calls,
            load: load(&state),
            queues: queues.collect(),
        })
    }

    /// Ends the package of this number on a core before its next turn; not for packages.
    #[stl_k]
    async fn stop_package(&self, caller: &Caller, core: u16, package: u32) -> CallResult<()> {
        if caller.is_package() {
            return Err(CallError::new(Status::Denied, "a package stops no package"));
        }
        let stopped = self.stl.node()?.stop_package(CoreId(core), package).await;
        stopped.map_err(|status| CallError::new(status, format!("core {core} stops no package")))
    }

    /// Ends a core's incarnation as a panic of its kernel does, so that its next one begins; not
    /// for packages. Tests of a cluster break it so.
    #[stl_k]
    async fn end_core(&self, caller: &Caller, core: u16) -> CallResult<()> {
        if caller.is_package() {
            return Err(CallError::new(Status::Denied, "a package ends no core"));
        }
        let ended = self.stl.node()?.end_core(CoreId(core)).await;
        ended.map_err(|status| CallError::new(status, format!("core {core} cannot be ended")))
    }
}

fn entry(core: CoreId, state: &CoreState) -> CoreEntry {
    CoreEntry {
        core: core.0,
        roles: state.roles.iter().map(|role| String::from(role.name())).collect(),
        generation: state.generation.0,
        phase: state.phase.into(),
    }
}

fn load(state: &CoreState) -> u64 {
    let percent = u128::from(state.polls) * 100 / u128::from(state.turns.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}
