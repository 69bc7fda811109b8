//! The core manager: what each core of the node is for and what it has done, read from the cores'
//! records without disturbing them; the end of a package, or of any core's incarnation; cores that
//! leave and come back, or come back as something else or with another image.

mod assign;
mod deploy;
mod follow;
mod plan;
mod regions;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, KeepName, Role, RoleSet, Status};
use nile_bosml::Bytes;
use nile_interfaces::core_manager::{
    Answers, CoreEntry, CoreManagerKernel, CoreRole, CoreRoles, CoreStatistics, KeepEntry,
    QueueDepth, RegionEntry, SharedUnits,
};
use nile_stl::node::{CoreState, Line};
use nile_stl::{CallError, CallResult, Start, Stl, service};
use nile_sync::OneShot;

use crate::interrupt::causes;

/// The cores' records are its state.
pub struct CoreManager {
    stl: Stl,
    /// Whether a core is being sent away, or its roles or image are being changed.
    changes: Rc<Cell<bool>>,
}

impl Start for CoreManager {
    fn start(stl: &Stl) -> CoreManager {
        let changes: Rc<Cell<bool>> = Rc::default();
        if let Some(policy) = stl.node().ok().and_then(|node| node.role_policy()) {
            let follow = follow::follow(stl.clone(), policy, changes.clone());
            stl.host().spawn(Box::pin(follow));
        }
        CoreManager { stl: stl.clone(), changes }
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

    fn roles(&self) -> CallResult<Vec<CoreRoles>> {
        let node = self.stl.node()?;
        let in_cluster = node.member().is_some();
        let lines: Vec<_> =
            Line::all().filter_map(|line| Some((line, node.driver_of(line)?))).collect();
        let micros = |time: Duration| time.as_micros() as u64;
        let cores = (0..self.stl.host().cores() as u16).map(CoreId);
        let roles = cores.filter_map(|core| {
            let state = node.state_of(core)?;
            let drives = lines.iter().filter(|(_, driver)| *driver == core);
            Some(CoreRoles {
                core: core.0,
                roles: CoreRole::all_of(state.roles),
                phase: state.phase.into(),
                image: deploy::name(node.image_of(core)),
                keeps_image: !node.may_have_image(core),
                drives: drives.map(|(line, _)| format!("{line}")).collect(),
                is_pinned: assign::part(core, &state, in_cluster).is_pinned,
                load: state.load,
                busy_us: micros(state.busy),
                idle_us: micros(state.idle),
            })
        });
        Ok(roles.collect())
    }

    fn role_policy(&self) -> CallResult<Option<String>> {
        Ok(self.stl.node()?.role_policy())
    }

    fn statistics(&self, core: u16) -> CallResult<CoreStatistics> {
        let state = self.state_of(core)?;
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

    fn answers(&self) -> CallResult<Vec<Answers>> {
        let all = self.stl.node()?.answers().into_iter();
        let nanos = |bound: Duration| u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let some = all.filter(|(_, count)| *count > 0);
        Ok(some.map(|(bound, count)| Answers { within_ns: nanos(bound), count }).collect())
    }

    async fn stop_package(&self, core: u16, package: u32) -> CallResult<()> {
        let stopped = self.stl.node()?.stop_package(CoreId(core), package).await;
        stopped.map_err(|status| CallError::new(status, format!("core {core} stops no package")))
    }

    async fn end_core(&self, core: u16) -> CallResult<()> {
        let ended = self.stl.node()?.end_core(CoreId(core)).await;
        ended.map_err(|status| CallError::new(status, format!("core {core} cannot be ended")))
    }

    async fn renew(&self, core: u16, patience_ms: u32) -> CallResult<()> {
        let roles = self.state_of(core)?.roles;
        if roles.contains(Role::Network) && self.stl.node()?.member().is_some() {
            // The others would take it for another node.
            let what = format!(
                "core {core} is the node's link to its cluster, which does not begin anew without \
                 the node: core_manager.end_core ends both"
            );
            return Err(CallError::new(Status::Denied, what));
        }
        // One that is sent away at the same time would not begin anew.
        self.is_free()?;
        let (stl, patience) = (self.stl.clone(), Duration::from_millis(patience_ms.into()));
        if CoreId(core) == CoreId::BOOT {
            return deploy::renew_own(&*stl.node()?, patience);
        }
        self.change(async move { leave(&stl, core, patience, false).await }).await
    }

    async fn take_image(&self, core: u16, bytes: u64, at: u64, piece: Bytes<'_>) -> CallResult<()> {
        self.state_of(core)?;
        deploy::take(&self.stl, core, bytes, at, &piece.0).await
    }

    async fn deploy(&self, core: u16, file: u64, patience_ms: u32) -> CallResult<String> {
        self.state_of(core)?;
        self.is_free()?;
        let patience = Duration::from_millis(patience_ms.into());
        let stl = self.stl.clone();
        let image = self.change(async move { deploy::deploy(&stl, core, file, patience).await });
        Ok(deploy::name(image.await?).unwrap_or_default())
    }

    async fn send_away(&self, core: u16, patience_ms: u32) -> CallResult<()> {
        // Of two that are sent away at once, each would count the other as one that stays.
        self.is_free()?;
        let worker = RoleSet::EMPTY.with(Role::Worker);
        if self.state_of(core)?.roles != worker {
            let what = format!(
                "core {core} is not a worker alone, and the node needs what else it does: \
                 core_manager.list tells roles"
            );
            return Err(CallError::new(Status::Denied, what));
        }
        let node = self.stl.node()?;
        let others = (0..self.stl.host().cores() as u16).filter(|other| *other != core);
        let states = others.filter_map(|other| node.state_of(CoreId(other)));
        let serves =
            |state: &CoreState| state.roles.contains(Role::Worker) && !state.phase.is_out();
        if !states.into_iter().any(|state| serves(&state)) {
            let what = format!("core {core} is the node's last worker, and one stays");
            return Err(CallError::new(Status::Denied, what));
        }
        let (stl, patience) = (self.stl.clone(), Duration::from_millis(patience_ms.into()));
        self.change(async move { leave(&stl, core, patience, true).await }).await
    }

    async fn call_back(&self, core: u16) -> CallResult<()> {
        self.state_of(core)?;
        self.is_free()?;
        let back = self.stl.node()?.call_back_core(CoreId(core)).await;
        back.map_err(|status| CallError::new(status, format!("core {core} does not come back")))
    }

    async fn assign(&self, core: u16, roles: Vec<CoreRole>, patience_ms: u32) -> CallResult<()> {
        let roles = CoreRole::set(&roles);
        self.is_free()?;
        let (stl, patience) = (self.stl.clone(), Duration::from_millis(patience_ms.into()));
        self.change(async move { assign::assign(&stl, core, roles, patience).await }).await
    }

    fn keeps(&self) -> CallResult<Vec<KeepEntry>> {
        let keeps = self.stl.node()?.keeps().into_iter();
        let entry = |(name, bytes, version): (KeepName, _, _)| KeepEntry {
            name: name.text().into(),
            bytes,
            version,
        };
        Ok(keeps.map(entry).collect())
    }

    async fn drop_keep(&self, name: String) -> CallResult<()> {
        let failed = |status: Status| {
            let what = match status {
                Status::Exists => "a package has it: end that one first",
                Status::NotFound => "there is none: core_manager.keeps tells which there are",
                _ => "it is not forgotten",
            };
            CallError::new(status, format!("{name}: {what}"))
        };
        let keep = KeepName::parse(&name).filter(|it| it.as_region().is_none());
        let keep = keep.ok_or_else(|| failed(Status::NotFound))?;
        self.stl.node()?.drop_keep(keep).await.map_err(failed)
    }

    fn regions(&self) -> CallResult<Vec<RegionEntry>> {
        Ok(regions::all_of(&*self.stl.node()?))
    }

    async fn make_region(
        &self,
        name: String,
        bytes: u64,
        shared: Option<SharedUnits>,
    ) -> CallResult<()> {
        regions::make(&*self.stl.node()?, name, bytes, shared).await
    }

    async fn drop_region(&self, name: String) -> CallResult<()> {
        regions::forget(&*self.stl.node()?, &name).await
    }
}

impl CoreManager {
    fn state_of(&self, core: u16) -> CallResult<CoreState> {
        self.stl.node()?.state_of(CoreId(core)).ok_or_else(|| missing(core))
    }

    /// Changes a core; nothing else changes meanwhile. A caller that is gone leaves nothing half
    /// done.
    fn change<T: 'static>(
        &self,
        change: impl Future<Output = CallResult<T>> + 'static,
    ) -> OneShot<CallResult<T>> {
        self.changes.set(true);
        let (changes, done) = (self.changes.clone(), OneShot::default());
        let give = done.clone();
        self.stl.host().spawn(Box::pin(async move {
            let result = change.await;
            changes.set(false);
            give.give(result);
        }));
        done
    }

    /// Cores that leave for a change come back by it alone.
    fn is_free(&self) -> CallResult<()> {
        if self.changes.get() {
            let what = "another core is being sent away or changed: ask again in a moment";
            return Err(CallError::new(Status::Busy, what));
        }
        Ok(())
    }
}

fn missing(core: u16) -> CallError {
    CallError::new(Status::NotFound, format!("the node has no core {core}"))
}

/// Has a core leave, and says why it does not.
async fn leave(stl: &Stl, core: u16, patience: Duration, is_away: bool) -> CallResult<()> {
    let left = stl.node()?.leave_core(CoreId(core), patience, is_away).await;
    left.map_err(|status| {
        let why = match status {
            Status::Denied => "manages the node, and stays".into(),
            Status::Busy => format!(
                "has not done what it works on within {} ms, and stays as it was",
                patience.as_millis()
            ),
            Status::Dead => "is away, or has stopped".into(),
            _ => "does not leave".into(),
        };
        CallError::new(status, format!("core {core} {why}"))
    })
}

fn entry(core: CoreId, state: &CoreState) -> CoreEntry {
    CoreEntry {
        core: core.0,
        roles: CoreRole::all_of(state.roles),
        generation: state.generation.0,
        phase: state.phase.into(),
    }
}
