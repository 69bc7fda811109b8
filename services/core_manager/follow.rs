//! Roles that follow the work (NileOS paper, V): what cores do is looked at four times a second;
//! the optimiser that the configuration names is asked what they are to be, where something would
//! gain by it; what is legal and worth it is done. The hysteresis is [`Damped`]'s.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Instant, Role, RoleSet};
use nile_interfaces::core_manager::CoreRole;
use nile_interfaces::role_assignment::{CoreShape, RoleAssignmentClient};
use nile_roles::{Core, Damped, Load, Question, demand};
use nile_stl::node::{CoreState, Line};
use nile_stl::{CallResult, Stl};

use super::assign;

/// How often it is looked what cores do.
const LOOK: Duration = Duration::from_millis(250);

/// Assignments that an optimiser may judge.
const BUDGET: u32 = 1000;

/// What a change costs: half a second of the core's time, over half a minute. For each device that
/// it drives, another core has to change as well.
const CHANGE: u32 = 16_667;

/// How long a core may take to leave for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Has roles follow the work, by the optimiser of this name, for as long as this core runs.
/// `changes` is set while a core changes.
pub async fn follow(stl: Stl, policy: String, changes: Rc<Cell<bool>>) {
    let mut looks = Looks { stl: stl.clone(), last: Vec::new(), at: stl.host().now() };
    let (mut damped, mut seed) = (Damped::default(), 0);
    loop {
        let host = stl.host();
        host.pause(LOOK).await;
        let Ok((cores, asked, span)) = looks.look() else { return };
        damped.observe(&asked, span);
        if changes.get() {
            continue;
        }
        let now = host.now();
        let Ok(Some(question)) = damped.ask(cores, now) else { continue };
        seed += 1;
        let roles = match choose(&stl, &policy, &question, seed).await {
            Ok(roles) => roles,
            Err(error) => {
                host.log(format_args!("roles stay as they are: {policy}: {error}"));
                Vec::new()
            }
        };
        if damped.answered(&question, &roles, now) {
            let before: Vec<RoleSet> = question.cores.iter().map(|core| core.now).collect();
            changes.set(true);
            let after = change(&stl, &before, &roles).await;
            changes.set(false);
            damped.changed(&before, &after, host.now());
        }
    }
}

/// What cores did since they were last looked at.
struct Looks {
    stl: Stl,
    last: Vec<(Duration, Duration)>,
    at: Instant,
}

impl Looks {
    /// The cores, what is asked of each role, and over how long that is.
    fn look(&mut self) -> CallResult<(Vec<Core>, nile_roles::PerRole<u64>, Duration)> {
        let (node, host) = (self.stl.node()?, self.stl.host());
        let now = host.now();
        let span = now.since(core::mem::replace(&mut self.at, now));
        let ids = (0..host.cores() as u16).map(CoreId);
        let states: Vec<CoreState> = ids.filter_map(|core| node.state_of(core)).collect();
        self.last.resize(states.len(), Default::default());
        let loads: Vec<Load> = states
            .iter()
            .zip(&mut self.last)
            .map(|(state, last)| {
                let (busy, idle) = core::mem::replace(last, (state.busy, state.idle));
                let (busy, idle) =
                    (state.busy.saturating_sub(busy), state.idle.saturating_sub(idle));
                Load { busy, idle, ..Load::default() }
            })
            .collect();
        let in_cluster = node.member().is_some();
        let drivers = Line::all().filter(|it| it.is_disk()).filter_map(|it| node.driver_of(it));
        let cores = shapes(&states, in_cluster, &drivers.collect::<Vec<_>>());
        let did = states.iter().zip(&cores).zip(&loads);
        let asked = demand(did.map(|((state, core), load)| (state.roles, &core.speed, load)));
        Ok((cores, asked, span))
    }
}

/// What cores may become. More disk cores than disks are of no use, and interfaces stay with their
/// cores.
fn shapes(states: &[CoreState], in_cluster: bool, drivers: &[CoreId]) -> Vec<Core> {
    let drive = states.iter().filter(|state| state.roles.contains(Role::Disk)).count();
    let mut free = drivers.len().saturating_sub(drive);
    let worker = RoleSet::EMPTY.with(Role::Worker);
    let shape = |(core, state): (u16, &CoreState)| {
        let part = assign::part(CoreId(core), state, in_cluster);
        let is_disk = state.roles.contains(Role::Disk);
        let may = match () {
            () if part.is_pinned || !part.runs || state.roles.contains(Role::Network) => None,
            () if is_disk => Some(worker.with(Role::Disk)),
            () if free > 0 => {
                free -= 1;
                Some(worker.with(Role::Disk))
            }
            () => None,
        };
        let devices = drivers.iter().filter(|driver| driver.0 == core).count() as u32;
        let core = Core::usual(state.roles, may.unwrap_or_default(), CHANGE * (1 + devices));
        if may.is_some() { core } else { core.pinned() }
    };
    (0..).zip(states).map(shape).collect()
}

/// What the optimiser of this name says; it may be any instance of its type.
async fn choose(
    stl: &Stl,
    policy: &str,
    question: &Question,
    seed: u64,
) -> CallResult<Vec<RoleSet>> {
    let shape = |core: &Core| CoreShape {
        now: CoreRole::all_of(core.now),
        keeps: CoreRole::all_of(core.keeps),
        may: CoreRole::all_of(core.may),
        speed: core.speed.into(),
        change: core.change,
    };
    let place = stl.find_at(stl.host().core(), policy).await?;
    let client = RoleAssignmentClient::at(stl, place);
    let cores = question.cores.iter().map(shape).collect();
    let said = client.choose(cores, question.demand.into(), BUDGET, seed).await?;
    Ok(said.cores.iter().map(|core| CoreRole::set(&core.roles)).collect())
}

/// Changes cores one after the other, those that gain devices first; what they are for then.
async fn change(stl: &Stl, before: &[RoleSet], wanted: &[RoleSet]) -> Vec<RoleSet> {
    let mut after = before.to_vec();
    let mut cores: Vec<usize> = (0..before.len()).filter(|at| before[*at] != wanted[*at]).collect();
    nile_order::sort_by_key(&mut cores, |core| !wanted[*core].contains(Role::Disk));
    for core in cores {
        let (from, to) = (before[core], wanted[core]);
        let names = |roles: RoleSet| roles.iter().map(Role::name).collect::<Vec<_>>().join(", ");
        let (from, to_names) = (names(from), names(to));
        match assign::assign(stl, core as u16, to, PATIENCE).await {
            Ok(()) => {
                after[core] = to;
                stl.host().log(format_args!("core {core} was for {from}, and is for {to_names}"));
            }
            Err(error) => {
                let what = format!("core {core} stays for {from}, and is not for {to_names}");
                stl.host().log(format_args!("{what}: {error}"));
            }
        }
    }
    after
}
