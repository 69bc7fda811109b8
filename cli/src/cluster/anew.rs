//! Cores that begin anew while nobody can be asked about it: the one that manages its node, and the
//! one that links it to its cluster. Their next incarnation is waited for.

use std::time::{Duration, Instant};

use nile_abi::{CoreId, NodeId, Status};
use nile_interfaces::core_manager::{CoreManagerClient, CorePhase, CoreRoles};

use super::args::{Place, Which};
use super::cores;
use super::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// How long a node may take to answer, and how long until it is asked again.
const MOMENT: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(50);

/// The core manager of a node, as it is now.
pub fn manager(session: &mut Session, node: NodeId) -> Result<Target, Failure> {
    let none = || Failure::request(format!("{node} does not answer, or is none"));
    let managers = service::find::<CoreManagerClient>(session)?.ok_or_else(none)?;
    managers.into_iter().find(|target| target.node == node).ok_or_else(none)
}

/// A core's present incarnation.
pub fn generation(session: &mut Session, target: Target, core: u16) -> Result<u32, Failure> {
    let place = Place { node: target.node, core: Some(CoreId(core)) };
    let (generation, _) =
        ask(session, target, core)?.map_err(|failed| cores::failure(place, failed, ""))?;
    Ok(generation)
}

/// Whether a call has ended as one does whose core, or its node's link, begins anew.
pub fn is_lost(failed: &CallFailed) -> bool {
    matches!(failed.status, Status::Dead | Status::Gone | Status::Timeout)
}

/// Waits until a core whose incarnation was `before` has begun anew, for at most so long. `Busy`:
/// it goes on as it was. What the session knew of the node is out of date then, so it begins anew.
pub fn wait(
    session: &mut Session,
    which: &Which,
    (node, core): (NodeId, u16),
    before: u32,
    patience: Duration,
) -> Result<Result<CoreRoles, CallFailed>, Failure> {
    let deadline = Instant::now() + patience;
    let own = session.patience;
    loop {
        *session = Session::open(which, own.min(MOMENT))?;
        let said = match manager(session, node) {
            Ok(target) => ask(session, target, core)?,
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => Err(CallFailed::new(Status::Dead, failure.to_string())),
        };
        session.patience = own;
        match said {
            Ok((generation, it)) if it.phase == CorePhase::Running => {
                return Ok(match generation == before {
                    false => Ok(it),
                    true => Err(CallFailed::new(
                        Status::Busy,
                        format!("core {core} has not done what it works on, and stays as it was"),
                    )),
                });
            }
            Err(failed) if Instant::now() > deadline => return Ok(Err(failed)),
            _ if Instant::now() > deadline => {
                let what = format!("core {core} has not begun anew within {patience:?}");
                return Ok(Err(CallFailed::new(Status::Timeout, what)));
            }
            _ => drop(session.peer.until(AGAIN, |_| false)?),
        }
    }
}

fn ask(
    session: &mut Session,
    target: Target,
    core: u16,
) -> Result<Result<(u32, CoreRoles), CallFailed>, Failure> {
    session.peer.work(session.patience, async |clients| {
        let manager = clients.at::<CoreManagerClient>(target);
        let (all, roles) = (manager.list().await?, manager.roles().await?);
        let none = || CallFailed::new(Status::NotFound, format!("the node has no core {core}"));
        let entry = all.into_iter().find(|it| it.core == core).ok_or_else(none)?;
        let roles = roles.into_iter().find(|it| it.core == core).ok_or_else(none)?;
        Ok((entry.generation, roles))
    })
}
