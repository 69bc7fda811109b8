//! `nile core`: cores of a running node that leave as planned, begin anew and come back.

use std::time::Duration;

use nile_abi::{CoreId, Status};
use nile_interfaces::core_manager::CoreManagerClient;
use nile_stl::CallError;
use serde_json::json;

use super::anew;
use super::args::{Core, CoreAction, Leave, Place, Query};
use super::session::Session;
use crate::failure::Failure;
use crate::peer::call::CallFailed;

/// Does what is asked for, and says what has become of the core.
pub fn run(options: &Core) -> Result<(), Failure> {
    match &options.action {
        CoreAction::Renew(options) => leave(options, false),
        CoreAction::Away(options) => leave(options, true),
        CoreAction::Back { core, query } => {
            let core = &core.on(&query.which)?;
            let number = number_of(core)?;
            ask(core, query, query.timeout, async |it| it.call_back(number).await)?;
            say(core, query, "is there", "running")
        }
    }
}

fn leave(options: &Leave, is_away: bool) -> Result<(), Failure> {
    let Leave { core, patience, query } = options;
    let core = &core.on(&query.which)?;
    let number = number_of(core)?;
    let patience_ms = milliseconds(*patience);
    // The next incarnation has to begin, too.
    let limit = *patience + query.timeout;
    if is_away {
        ask(core, query, limit, async |it| it.send_away(number, patience_ms).await)?;
        say(core, query, "is away until `nile core back` calls it", "away")
    } else {
        let mut session = Session::open(&query.which, query.timeout)?;
        let target = anew::manager(&mut session, core.node)?;
        let before = anew::generation(&mut session, target, number)?;
        let renewed = session.peer.work(limit, async |clients| {
            let manager = clients.at::<CoreManagerClient>(target);
            manager.renew(number, patience_ms).await.map_err(CallFailed::from)
        })?;
        renewed.map_err(|failed| failure(*core, failed, ""))?;
        // The one that manages its node answers before.
        let there = anew::wait(&mut session, &query.which, (core.node, number), before, limit)?;
        there.map_err(|failed| failure(*core, failed, ""))?;
        say(core, query, "has begun anew", "running")
    }
}

/// The core of a place, which has to name one.
pub fn number_of(core: &Place) -> Result<u16, Failure> {
    let whole = || Failure::request(format!("{core} is a node; name a core of it, as {core}.c2"));
    core.core.map(|CoreId(number)| number).ok_or_else(whole)
}

fn say(core: &Place, query: &Query, what: &str, phase: &str) -> Result<(), Failure> {
    if query.json {
        let document = json!({ "core": core.to_string(), "phase": phase });
        return crate::print(&format!("{document}\n"));
    }
    crate::print(&format!("{core} {what}\n"))
}

/// Has the core's node do something. What cannot be done is a wrong request.
pub fn ask(
    core: &Place,
    query: &Query,
    limit: Duration,
    ask: impl AsyncFnOnce(CoreManagerClient) -> Result<(), CallError>,
) -> Result<(), Failure> {
    let mut session = Session::open(&query.which, query.timeout)?;
    let target = anew::manager(&mut session, core.node)?;
    let end = session
        .peer
        .work(limit, async |clients| ask(clients.at(target)).await.map_err(CallFailed::from))?;
    end.map_err(|failed| failure(*core, failed, ""))
}

/// How long a core may take to leave, as its node is told.
pub fn milliseconds(patience: Duration) -> u32 {
    patience.as_millis().clamp(1, 60_000) as u32
}

/// Why something was not done with a core, and what is `so`. What cannot be done is a wrong
/// request.
pub fn failure(core: Place, failed: CallFailed, so: &str) -> Failure {
    match failed.status {
        Status::NotFound | Status::Denied | Status::Busy | Status::Dead | Status::Invalid => {
            Failure::request(format!("{core}: {}{so}", failed.message))
        }
        _ => Failure::failed(format!("{core}: {failed}{so}")),
    }
}
