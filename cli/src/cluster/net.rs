//! `nile net`: what packages that serve a network tell of it.

mod filter;

use clap::{Args, Subcommand};
use nile_interfaces::sockets::{Connection, Listener, SocketsClient};
use nile_stl::CallError;
use serde_json::{Value, json};

use super::args::Query;
use super::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::table;

#[derive(Args)]
pub struct Net {
    #[command(subcommand)]
    pub action: NetAction,
}

#[derive(Subcommand)]
pub enum NetAction {
    /// Show the ports that connections are taken to, and the connections.
    List(Query),
    /// Show the packet filter of a node's network, or have it follow other rules.
    Filter(filter::Filter),
}

/// Does what is asked for.
pub fn run(options: &Net) -> Result<(), Failure> {
    match &options.action {
        NetAction::List(query) => list(query),
        NetAction::Filter(options) => filter::run(options),
    }
}

fn list(query: &Query) -> Result<(), Failure> {
    let mut session = Session::open(&query.which, query.timeout)?;
    let all = service::find::<SocketsClient>(&mut session)?.unwrap_or_default();
    let (mut listeners, mut connections) = (Vec::new(), Vec::new());
    for target in all {
        let asked = gather(&mut session, target)?;
        let (here, open) = asked.map_err(|failed| {
            Failure::failed(format!("sockets on {}: {failed}", target.place()))
        })?;
        listeners.extend(here.into_iter().map(|it| (target, it)));
        connections.extend(open.into_iter().map(|it| (target, it)));
    }
    match query.json {
        true => crate::print(&format!("{}\n", document(&listeners, &connections))),
        false => crate::print(&text(&listeners, &connections)),
    }
}

type Told = (Vec<Listener>, Vec<Connection>);

/// All that a package tells, page by page.
fn gather(session: &mut Session, target: Target) -> Result<Result<Told, CallFailed>, Failure> {
    session.peer.work(session.patience, async |clients| {
        let sockets: SocketsClient = clients.at(target);
        let told = async {
            let listeners = sockets.listeners().await?;
            let mut connections: Vec<Connection> = Vec::new();
            loop {
                let after = connections.last().map_or(0, |it| it.number);
                let page = sockets.connections(after).await?;
                // What does not go on would do so for ever.
                if page.last().is_none_or(|it| it.number <= after) {
                    return Ok::<Told, CallError>((listeners, connections));
                }
                connections.extend(page);
            }
        };
        told.await.map_err(CallFailed::from)
    })
}

fn document(listeners: &[(Target, Listener)], connections: &[(Target, Connection)]) -> Value {
    let listener = |(core, it): &(Target, Listener)| {
        json!({
            "core": core.place().to_string(),
            "package": it.package,
            "at": it.at,
            "accepted": it.accepted,
            "resumed": it.resumed,
            "half_open": it.half_open,
        })
    };
    let connection = |(core, it): &(Target, Connection)| {
        json!({
            "core": core.place().to_string(),
            "number": it.number,
            "package": it.package,
            "local": it.local,
            "remote": it.remote,
            "state": it.state,
            "received": it.received,
            "acknowledged": it.acknowledged,
            "in_flight": it.in_flight,
        })
    };
    json!({
        "listeners": listeners.iter().map(listener).collect::<Vec<_>>(),
        "connections": connections.iter().map(connection).collect::<Vec<_>>(),
    })
}

fn text(listeners: &[(Target, Listener)], connections: &[(Target, Connection)]) -> String {
    if listeners.is_empty() {
        return "no package serves a network: `nile package start web`\n".into();
    }
    let title = ["core", "package", "listens at", "accepted", "resumed", "half open"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (core, it) in listeners {
        rows.push(vec![
            core.place().to_string(),
            it.package.clone(),
            it.at.clone(),
            it.accepted.to_string(),
            it.resumed.to_string(),
            it.half_open.to_string(),
        ]);
    }
    let listed = table::columns("", &rows);
    if connections.is_empty() {
        return listed;
    }
    let title =
        ["core", "number", "package", "local", "remote", "state", "received", "sent", "in flight"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (core, it) in connections {
        rows.push(vec![
            core.place().to_string(),
            it.number.to_string(),
            if it.package.is_empty() { "-".into() } else { it.package.clone() },
            it.local.clone(),
            it.remote.clone(),
            it.state.clone(),
            it.received.to_string(),
            it.acknowledged.to_string(),
            it.in_flight.to_string(),
        ]);
    }
    format!("{listed}\n{}", table::columns("", &rows))
}
