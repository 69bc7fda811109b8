//! `nile policies` and `nile policy`: which policies the cores of a cluster have, what has become
//! of them, and who is bound to which.
//!
//! * `lines`: the policies by type; `used`: who uses those that no policy manager has.
//! * `show`: both, for people and programs.

pub mod args;
mod lines;
mod show;
mod used;

use nile_interfaces::policy_manager::PolicyManagerClient;
use nile_interfaces::registry::{Asker, NamedValue};
use nile_stl::CallError;
use serde_json::json;

use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use args::{Action, Bind, Policies, Policy, Subject, Unbind};

/// Who asks: a person.
const OPERATOR: Asker = Asker::Operator;

/// Prints the policies of every node.
pub fn list(options: &Policies) -> Result<(), Failure> {
    let mut session = Session::open(&options.query.which, options.query.timeout)?;
    let managers = managers(&mut session)?;
    show::run(&mut session, &managers, options)
}

/// Binds a subject, or unbinds it.
pub fn run(options: &Policy) -> Result<(), Failure> {
    match &options.action {
        Action::Bind(options) => bind(options),
        Action::Unbind(options) => unbind(options),
    }
}

fn bind(options: &Bind) -> Result<(), Failure> {
    let wanted = options.wanted();
    let mut parameters = Vec::new();
    for args::Value { name, value } in &options.parameters {
        parameters.push(NamedValue::written(name, value));
    }
    let mut session = Session::open(&options.query.which, options.query.timeout)?;
    let target = manager_of(&mut session, &options.subject)?;
    let name = options.subject.name.clone();
    let bound = ask(&mut session, target, async |manager| {
        manager.bind(OPERATOR, name, wanted, parameters).await
    })?;
    let bound = bound.map_err(|failed| refused(&options.subject, &failed))?;
    let (subject, policy, before) = (&options.subject, &bound.name, &bound.unbound);
    if options.query.json {
        let document =
            json!({ "subject": subject.to_string(), "policy": policy, "before": before });
        return crate::print(&format!("{document}\n"));
    }
    let before = match before {
        None => String::new(),
        Some(before) => format!(", and to {before} no more"),
    };
    crate::print(&format!("{subject} is bound to {policy}{before}\n"))
}

fn unbind(options: &Unbind) -> Result<(), Failure> {
    let mut session = Session::open(&options.query.which, options.query.timeout)?;
    let target = manager_of(&mut session, &options.subject)?;
    let name = options.subject.name.clone();
    let unbound = ask(&mut session, target, async |manager| manager.unbind(name).await)?;
    let was_bound = unbound.map_err(|failed| refused(&options.subject, &failed))?;
    let subject = &options.subject;
    if options.query.json {
        let document = json!({ "subject": subject.to_string(), "was_bound": was_bound });
        return crate::print(&format!("{document}\n"));
    }
    crate::print(&match was_bound {
        true => format!("{subject} is bound to nothing now: the default schedules it\n"),
        false => format!("{subject} was bound to nothing\n"),
    })
}

/// What was asked for wrongly is a wrong request.
fn refused(subject: &Subject, failed: &CallFailed) -> Failure {
    use nile_abi::Status;
    let why = format!("{subject} is bound as before: {}", failed.message);
    match failed.status {
        Status::Invalid | Status::NotFound | Status::Busy | Status::Denied => Failure::request(why),
        _ => Failure::failed(format!("{subject}: {failed}")),
    }
}

/// The policy managers of all cores, in the order of nodes and cores.
fn managers(session: &mut Session) -> Result<Vec<Target>, Failure> {
    let away = session.away();
    let none = || Failure::request("no node of the cluster has a policy manager");
    let mut all = service::find::<PolicyManagerClient>(session)?.ok_or_else(none)?;
    all.retain(|target| !away.contains(&target.node));
    Ok(all)
}

fn manager_of(session: &mut Session, subject: &Subject) -> Result<Target, Failure> {
    let all = managers(session)?;
    let (node, core) = (subject.node, subject.core);
    let found = all.into_iter().find(|target| (target.node, target.core) == (node, core));
    found.ok_or_else(|| Failure::request(format!("the cluster has no core {node}.{core} now")))
}

/// What a policy manager replies.
fn ask<T>(
    session: &mut Session,
    target: Target,
    ask: impl AsyncFnOnce(PolicyManagerClient) -> Result<T, CallError>,
) -> Result<Result<T, CallFailed>, Failure> {
    let patience = session.patience;
    session
        .peer
        .work(patience, async |clients| ask(clients.at(target)).await.map_err(CallFailed::from))
}
