//! The core manager: what each core of the node is for and what it has done, read from the cores'
//! records without disturbing them, and the end of a package, or of any core's incarnation.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, Status};
use nile_interfaces::core_manager::{CoreEntry, CoreManagerKernel, CoreStatistics, QueueDepth};
use nile_stl::node::CoreState;
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::interrupt::causes;

/// The cores' records are its state.
pub struct CoreManager {
    stl: Stl,
}

impl Start for CoreManager {
    fn start(stl: &Stl) -> CoreManager {
        CoreManager { stl: stl.clone() }
    }
}

#[service(on = manager, keywords(core = 5, role = 3, statistics = 3, load = 2, package = 1))]
impl CoreManagerKernel for CoreManager {
    fn list(&self) -> CallResult<Vec<CoreEntry>> {
        let node = self.stl.node()?;
        let cores = (0..self.stl.host().cores()).map(|core| CoreId(core as u16));
        let entries = cores.filter_map(|core| Some(entry(core, &node.state_of(core)?)));
        Ok(entries.collect())
    }

    fn statistics(&self, core: u16) -> CallResult<CoreStatistics> {
        let missing = || CallError::new(Status::NotFound, format!("the node has no core {core}"));
        let state = self.stl.node()?.state_of(CoreId(core)).ok_or_else(missing)?;
        let queues = state
            .queues
            .iter()
            .map(|(name, depth)| QueueDepth { name: String::from(*name), depth: *depth });
        Ok(CoreStatistics {
            entry: entry(CoreId(core), &state),
            hardware_id: state.hardware_id,
            interrupts: causes(&state),
            wakes: state.wakes,
            turns: state.turns,
            sleeps: state.sleeps,
            polls: state.polls,
            system_calls: state.system_calls,
            load: state.load,
            queues: queues.collect(),
        })
    }

    async fn stop_package(&self, core: u16, package: u32) -> CallResult<()> {
        let stopped = self.stl.node()?.stop_package(CoreId(core), package).await;
        stopped.map_err(|status| CallError::new(status, format!("core {core} stops no package")))
    }

    async fn end_core(&self, core: u16) -> CallResult<()> {
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
