//! `nile services` and `nile discover`: which services there are, where, and what they say about
//! themselves.

use std::time::Duration;

use nile_abi::Status;
use nile_bosml::discovery;
use serde_json::{Value, json};

use super::args::{Discover, Query};
use super::reply;
use super::session::Session;
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::peer::call::{Call, CallFailed};
use crate::peer::known::{self, Target};
use crate::table;

/// Prints every instance.
pub fn run(options: &Query) -> Result<(), Failure> {
    let session = Session::open(&options.which, options.timeout)?;
    let all = known::instances(session.peer.known());
    if options.json {
        let service = |(target, it): &(Target, &nile_gossip::Instance)| {
            let keywords: Vec<_> = it.keywords.iter().map(|it| it.word.as_str()).collect();
            json!({
                "name": it.name,
                "type": it.type_name,
                "extends": it.extends,
                "layer": it.layer.name(),
                "location": target.place(),
                "keywords": keywords,
                "attributes": attributes(it),
                "subsystem": it.subsystem,
                "capability": it.capability,
            })
        };
        let services: Vec<Value> = all.iter().map(service).collect();
        crate::print(&format!("{}\n", json!({ "services": services })))?;
        return Failure::unless_all_asked(&session.away());
    }
    let mut rows =
        vec![["name", "type", "layer", "location", "keywords"].map(String::from).to_vec()];
    for (target, it) in &all {
        let keywords: Vec<_> = it.keywords.iter().map(|it| it.word.as_str()).collect();
        let lineage: Vec<_> = [&it.type_name].into_iter().chain(&it.extends).cloned().collect();
        rows.push(vec![
            it.name.clone(),
            lineage.join(" < "),
            it.layer.name().into(),
            target.place(),
            keywords.join(" "),
        ]);
    }
    crate::print(&table::columns("", &rows))?;
    Failure::unless_all_asked(&session.away())
}

/// What an instance says of itself, and the registry of it, by name.
fn attributes(of: &nile_gossip::Instance) -> Value {
    of.attributes.iter().map(|it| (it.name.clone(), Value::from(it.value.clone()))).collect()
}

/// Prints the schema of a service.
pub fn discover(options: &Discover) -> Result<(), Failure> {
    let mut session = Session::open(&options.query.which, options.query.timeout)?;
    let target = first(&instances(&session, &options.service)?);
    let text = match schema(&mut session, target)? {
        Ok(text) => text,
        Err(failed) => {
            let service = &options.service;
            let place = target.place();
            return Err(Failure::failed(format!("{service} on {place} gives no schema: {failed}")));
        }
    };
    let schema = discovery::parse(&text)
        .map_err(|error| Failure::failed(format!("the schema is damaged: {error}")))?;
    match options.query.json {
        true => {
            let all = known::instances(session.peer.known());
            let it = all.iter().find(|(other, _)| *other == target).map(|(_, it)| attributes(it));
            let mut document = reply::schema(&schema);
            document["attributes"] = it.unwrap_or_default();
            crate::print(&format!("{document}\n"))
        }
        false => crate::print(&discovery::to_text(&schema)),
    }
}

/// The schema of an instance, as a discovery document.
pub fn schema(
    session: &mut Session,
    target: Target,
) -> Result<Result<String, CallFailed>, Failure> {
    schema_within(session, target, session.patience)
}

/// The same, if it answers within `patience`.
pub fn schema_within(
    session: &mut Session,
    target: Target,
    patience: Duration,
) -> Result<Result<String, CallFailed>, Failure> {
    let text = session.peer.call(&Call::discover(target), patience)?;
    Ok(text.and_then(|text| match discovery::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let message = format!("{} gave a damaged schema: {error}", target.place());
            Err(CallFailed::new(Status::Invalid, message))
        }
    }))
}

/// The instances of the service of this name, or else of this type or one that extends it; at least
/// one. Suggests what may have been meant if there is none.
pub fn instances(session: &Session, name: &str) -> Result<Vec<Target>, Failure> {
    let all = known::instances(session.peer.known());
    let with = |is_it: &dyn Fn(&nile_gossip::Instance) -> bool| -> Vec<Target> {
        all.iter().filter(|(_, it)| is_it(it)).map(|(target, _)| *target).collect()
    };
    let mut found = with(&|it| it.name == name);
    if found.is_empty() {
        found = with(&|it| it.type_name == name || it.extends.iter().any(|it| it == name));
    }
    match found.is_empty() {
        false => Ok(found),
        true => {
            let mut names: Vec<&str> = all.iter().map(|(_, it)| it.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            let near = suggestion(name, names.iter().copied());
            Err(Failure::request(format!("no service `{name}`; {near}")))
        }
    }
}

/// The instance that is taken when nobody says which: that on the lowest core of the lowest node.
pub fn first(targets: &[Target]) -> Target {
    let lowest = targets.iter().min_by_key(|target| (target.node, target.core));
    *lowest.expect("a service that was found has an instance")
}
