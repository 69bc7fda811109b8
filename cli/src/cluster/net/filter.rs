//! `nile net filter`: the packet filter of a node's network.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use nile_filter::Rules;
use nile_filter::rule::MOST_BYTES;
use nile_interfaces::sockets::{FilterState, SocketsClient};
use nile_stl::CallError;
use serde_json::{Value, json};

use crate::cluster::args::{Query, Said};
use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::print;

#[derive(Args)]
pub struct Filter {
    /// The node, as n1.
    node: Said,
    #[command(subcommand)]
    action: Option<FilterAction>,
    #[command(flatten)]
    query: Query,
}

#[derive(Subcommand)]
enum FilterAction {
    /// Show the rules, and what they have done.
    List,
    /// Have it follow the rules of a file, one a line, also when the network begins anew.
    Set {
        /// The file; what is wrong in it is told with its line.
        file: PathBuf,
    },
}

/// Does what is asked for.
pub fn run(options: &Filter) -> Result<(), Failure> {
    let Filter { node, action, query } = options;
    match action {
        None | Some(FilterAction::List) => list(*node, query),
        Some(FilterAction::Set { file }) => {
            let rules = read(file)?;
            let (mut session, all) = networks(*node, query)?;
            for target in all {
                ask(&mut session, target, async |it| it.set_filter(&rules).await)?;
            }
            list(*node, query)
        }
    }
}

/// The rules in a file as text.
fn read(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let wrong = |error: &dyn std::fmt::Display| Failure::request(format!("{shown}: {error}"));
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error))?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // What is too long may be cut in a character.
        Err(error) if error.as_bytes().len() > MOST_BYTES => {
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
        Err(error) => return Err(wrong(&error)),
    };
    match text.parse::<Rules>() {
        Ok(rules) => Ok(rules.to_string()),
        Err(error) => Err(Failure::request(format!("{shown}:{error}"))),
    }
}

/// The packages that serve the network of a node.
fn networks(node: Said, query: &Query) -> Result<(Session, Vec<Target>), Failure> {
    let node = node.on(&query.which)?.node;
    let mut session = Session::open(&query.which, query.timeout)?;
    session.record.node(node)?;
    let mut all = service::find::<SocketsClient>(&mut session)?.unwrap_or_default();
    all.retain(|it| it.node == node);
    match all.is_empty() {
        true => Err(Failure::request(format!(
            "no package serves a network of {node}: `nile package start net --on {node}.c3`"
        ))),
        false => Ok((session, all)),
    }
}

fn ask<T>(
    session: &mut Session,
    target: Target,
    ask: impl AsyncFnOnce(SocketsClient) -> Result<T, CallError>,
) -> Result<T, Failure> {
    let asked = session.peer.work(session.patience, async |clients| {
        ask(clients.at(target)).await.map_err(CallFailed::from)
    })?;
    asked.map_err(|failed| Failure::failed(format!("sockets on {}: {failed}", target.place())))
}

fn list(node: Said, query: &Query) -> Result<(), Failure> {
    let (mut session, all) = networks(node, query)?;
    let mut filters = Vec::new();
    for target in all {
        filters.push((target, ask(&mut session, target, async |it| it.filter().await)?));
    }
    match query.json {
        true => {
            let filters: Vec<Value> = filters.iter().map(document).collect();
            print(&format!("{}\n", json!({ "filters": filters })))
        }
        false => filters.iter().try_for_each(|it| print(&text(it))),
    }
}

fn document((target, it): &(Target, FilterState)) -> Value {
    json!({
        "core": target.place().to_string(),
        "rules": it.rules.lines().collect::<Vec<_>>(),
        "connections": it.connections,
        "allowed": it.allowed,
        "denied": it.denied,
        "crowded": it.crowded,
    })
}

fn text((target, it): &(Target, FilterState)) -> String {
    let place = target.place();
    if it.rules.is_empty() {
        return format!("{place}: no rules, every packet goes on\n");
    }
    let FilterState { rules, connections, allowed, denied, crowded } = it;
    format!(
        "{rules}\n{place}: {allowed} packets allowed, {denied} denied, {crowded} dropped as there \
         were too many connections; {connections} connections\n"
    )
}
