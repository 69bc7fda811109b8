//! Roles at run time (NileOS paper, V): a core gets other roles by a planned end, and devices go to
//! their new cores whole. All cores that this concerns leave and are away at once; then what they
//! are for and what they drive is written, and they are called back. One that cannot leave has the
//! others come back as they were.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_stl::node::{CoreState, Line, Node};
use nile_stl::{CallError, CallResult, Stl};

use super::plan::{Part, Plan, Refusal, plan};
use super::{leave, missing};

/// Has `core` be for `roles`, within so long for each core that has to leave.
pub async fn assign(stl: &Stl, core: u16, roles: RoleSet, patience: Duration) -> CallResult<()> {
    let node = stl.node()?;
    let cores = stl.host().cores();
    let drivers: Vec<(Line, CoreId)> =
        Line::all().filter_map(|line| Some((line, node.driver_of(line)?))).collect();
    let in_cluster = node.member().is_some();
    let parts: Vec<Part> = (0..cores as u16)
        .filter_map(|at| Some(part(CoreId(at), &node.state_of(CoreId(at))?, in_cluster)))
        .collect();
    let core = CoreId(core);
    let before = parts.get(core.index()).map(|it| it.roles);
    let planned = plan(&parts, &drivers, core, roles).map_err(|why| refused(core, why))?;
    let old = before.ok_or_else(|| missing(core.0))?;

    let mut away = Vec::new();
    for it in &planned.leave {
        if let Err(error) = leave(stl, it.0, patience, true).await {
            call_back(&*node, &away).await?;
            return Err(error);
        }
        away.push(*it);
    }
    let changed = change(&*node, core, roles, &planned).await;
    if changed.is_err() {
        undo(&*node, core, old, &drivers, &planned).await;
    }
    call_back(&*node, &away).await?;
    changed
}

/// A core as far as roles are concerned.
pub fn part(core: CoreId, state: &CoreState, in_cluster: bool) -> Part {
    // The next incarnation of a node's link to its cluster is another node to the others.
    let is_link = in_cluster && state.roles.contains(Role::Network);
    Part {
        roles: state.roles,
        runs: !state.phase.is_out(),
        is_pinned: core == CoreId::BOOT || is_link,
    }
}

/// Writes what cores are for and drive; all that leave are away.
async fn change(node: &dyn Node, core: CoreId, roles: RoleSet, planned: &Plan) -> CallResult<()> {
    if planned.leave.is_empty() {
        return Ok(());
    }
    for (line, driver) in &planned.moves {
        node.move_device(*line, *driver).await.map_err(|status| {
            let why = match status {
                Status::Denied => "its interrupts are wired to the core that drives it",
                _ => "the node has no page tables left for it",
            };
            let what = format!("{line} cannot go to core {}: {why}; nothing has changed", driver.0);
            CallError::new(status, what)
        })?;
    }
    let assigned = node.assign_core(core, roles).await;
    assigned.map_err(|status| CallError::new(status, format!("core {} is not away", core.0)))
}

/// Puts back what [`change`] has done before it failed.
async fn undo(
    node: &dyn Node,
    core: CoreId,
    old: RoleSet,
    drivers: &[(Line, CoreId)],
    planned: &Plan,
) {
    for (line, _) in &planned.moves {
        let was = drivers.iter().find(|(of, _)| of == line);
        if let Some((_, driver)) = was {
            // It was there a moment ago: its tables have room for it.
            let _ = node.move_device(*line, *driver).await;
        }
    }
    let _ = node.assign_core(core, old).await;
}

/// Has all begin at once.
async fn call_back(node: &dyn Node, away: &[CoreId]) -> CallResult<()> {
    let begin = |core: &CoreId| (core.0, node.call_back_core(*core));
    let beginning: Vec<_> = away.iter().map(begin).collect();
    let mut result = Ok(());
    for (core, back) in beginning {
        let back = back.await;
        let missing = |status| CallError::new(status, format!("core {core} does not come back"));
        result = result.and(back.map_err(missing));
    }
    result
}

fn refused(core: CoreId, why: Refusal) -> CallError {
    let core = core.0;
    let (status, what) = match why {
        Refusal::NoCore => return missing(core),
        Refusal::NoRole => (Status::Invalid, String::from("a core is for something: name a role")),
        Refusal::Out => (
            Status::Dead,
            format!("core {core} is away, or has stopped: core_manager.call_back brings it back"),
        ),
        Refusal::Management => (
            Status::Denied,
            String::from("which cores manage the node is settled by its configuration"),
        ),
        Refusal::Pinned if core == 0 => {
            (Status::Denied, String::from("core 0 manages the node, and stays as it is"))
        }
        Refusal::Pinned => (
            Status::Denied,
            format!(
                "core {core} is the node's link to its cluster, and stays as it is; a \
                 configuration whose [roles] name another disk core leaves disks free to move"
            ),
        ),
        Refusal::Last(role) => (
            Status::Denied,
            format!("core {core} is the last that runs with the role {}", role.name()),
        ),
        Refusal::Nowhere(line) => {
            (Status::Denied, format!("{line} would have to go to a core that cannot leave for it"))
        }
    };
    CallError::new(status, what)
}
