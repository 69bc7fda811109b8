//! Plans that nodes keep as services: published, shown and ended by the `composer` of a node.

use nile_abi::Status;
use nile_interfaces::composer::{ComposerClient, CompositeEntry, GoalEntry, PartEntry};
use nile_stl::{CallError, all};
use serde_json::{Value, json};

use super::args::Compose;
use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::table;

/// A composite, and the core that has it.
type Published = (Target, CompositeEntry);

/// Has the first node that can plan and keep a composite.
pub fn add(session: &mut Session, name: &str, options: &Compose) -> Result<(), Failure> {
    let goal = options.goal();
    let known = published(session)?;
    if let Some((target, _)) = known.iter().find(|(_, it)| it.name == name) {
        let place = target.place();
        return Err(Failure::request(format!(
            "{name} is a composite on {place} already; end it first: nile compose --withdraw {name}"
        )));
    }
    let composers = composers(session)?;
    let target = *composers.first().ok_or_else(nobody)?;
    let made = ask(session, target, async |composer| {
        composer.publish(name.into(), GoalEntry::from(&goal)).await
    })?;
    let made = made.map_err(|failed| refused(name, target, &failed))?;
    match options.query.json {
        true => crate::print(&format!("{}\n", document(&(target, made)))),
        false => crate::print(&text(&[(target, made)])),
    }
}

/// Ends the composites of a name.
pub fn end(session: &mut Session, name: &str, options: &Compose) -> Result<(), Failure> {
    let known = published(session)?;
    let mut ended = Vec::new();
    for (target, _) in known.iter().filter(|(_, it)| it.name == name) {
        let was = ask(session, *target, async |composer| composer.withdraw(name.into()).await)?;
        if was.map_err(|failed| refused(name, *target, &failed))? {
            ended.push(target.place());
        }
    }
    if ended.is_empty() {
        let near = suggestion(name, known.iter().map(|(_, it)| it.name.as_str()));
        return Err(Failure::request(format!("no composite is called `{name}`; {near}")));
    }
    match options.query.json {
        true => crate::print(&format!("{}\n", json!({ "name": name, "ended": ended }))),
        false => crate::print(&format!("{name} is ended on {}\n", ended.join(", "))),
    }
}

/// Shows all of them.
pub fn list(session: &mut Session, options: &Compose) -> Result<(), Failure> {
    let all = published(session)?;
    match options.query.json {
        true => {
            let composites: Vec<Value> = all.iter().map(document).collect();
            crate::print(&format!("{}\n", json!({ "composites": composites })))?;
        }
        false => crate::print(&text(&all))?,
    }
    Failure::unless_all_asked(&session.away())
}

/// The composers that can be asked, in the order of nodes.
fn composers(session: &mut Session) -> Result<Vec<Target>, Failure> {
    let away = session.away();
    let mut all = service::find::<ComposerClient>(session)?.ok_or_else(nobody)?;
    all.retain(|target| !away.contains(&target.node));
    Ok(all)
}

fn nobody() -> Failure {
    Failure::request("no node of the cluster keeps composites")
}

/// All composites, by node and name.
fn published(session: &mut Session) -> Result<Vec<Published>, Failure> {
    let composers = composers(session)?;
    let patience = session.patience;
    let told = session.peer.work(patience, async |clients| {
        let tell = |target| {
            let composer: ComposerClient = clients.at(target);
            async move { composer.list_all().await }
        };
        all(composers.iter().map(|target| tell(*target))).await
    })?;
    let mut all = Vec::new();
    for (target, told) in composers.into_iter().zip(told) {
        match told {
            Ok(told) => all.extend(told.into_iter().map(|it| (target, it))),
            Err(error) => {
                let failed = CallFailed::from(error);
                return Err(Failure::failed(format!("composer on {}: {failed}", target.place())));
            }
        }
    }
    Ok(all)
}

/// What a composer replies.
fn ask<T>(
    session: &mut Session,
    target: Target,
    ask: impl AsyncFnOnce(ComposerClient) -> Result<T, CallError>,
) -> Result<Result<T, CallFailed>, Failure> {
    let patience = session.patience;
    session
        .peer
        .work(patience, async |clients| ask(clients.at(target)).await.map_err(CallFailed::from))
}

/// What was asked for wrongly is a wrong request.
fn refused(name: &str, target: Target, failed: &CallFailed) -> Failure {
    match failed.status {
        Status::Invalid | Status::NotFound | Status::Exists | Status::Denied => {
            Failure::request(format!("{name}: {}", failed.message))
        }
        _ => Failure::failed(format!("{name} on {}: {failed}", target.place())),
    }
}

/// Where a part is.
fn place(of: &Target, part: &PartEntry) -> String {
    let node = if part.node == 0 { of.node.0 } else { part.node };
    format!("n{node}.c{}", part.core)
}

fn document((target, it): &Published) -> Value {
    let part = |part: &PartEntry| {
        let (service, method) = (&part.service, &part.method);
        json!({ "service": service, "method": method, "location": place(target, part) })
    };
    json!({
        "name": it.name,
        "location": target.place(),
        "parts": it.parts.iter().map(part).collect::<Vec<_>>(),
        "latency_ns": it.latency_ns,
        "per_second": it.per_second,
        "plans": it.plans,
        "calls": it.calls,
    })
}

fn text(all: &[Published]) -> String {
    let titles = ["name", "location", "promises", "plans", "calls", "parts"];
    let mut rows = vec![titles.map(String::from).to_vec()];
    for (target, it) in all {
        let part = |part: &PartEntry| {
            format!("{}.{} on {}", part.service, part.method, place(target, part))
        };
        let parts: Vec<_> = it.parts.iter().map(part).collect();
        let mut promises = format!("at most {}", super::micros(it.latency_ns));
        if let Some(calls) = it.per_second {
            promises += &format!(", {calls} calls in a second");
        }
        rows.push(vec![
            it.name.clone(),
            target.place(),
            promises,
            it.plans.to_string(),
            it.calls.to_string(),
            parts.join(", "),
        ]);
    }
    table::columns("", &rows)
}
