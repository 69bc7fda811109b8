//! `nile net`: what packages that serve a network tell of it.

mod filter;

use clap::{Args, Subcommand};
use nile_interfaces::sockets::{Address, Connection, Listener, SocketsClient};
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
    /// Show the addresses, the ports that connections are taken to, and the connections.
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
    let mut told = Vec::new();
    for target in all {
        let asked = gather(&mut session, target)?;
        told.push((
            target,
            asked.map_err(|failed| {
                Failure::failed(format!("sockets on {}: {failed}", target.place()))
            })?,
        ));
    }
    match query.json {
        true => crate::print(&format!("{}\n", document(&told))),
        false => crate::print(&text(&told)),
    }
}

/// What a package tells.
struct Told {
    address: Address,
    listeners: Vec<Listener>,
    connections: Vec<Connection>,
}

/// All that a package tells, page by page.
fn gather(session: &mut Session, target: Target) -> Result<Result<Told, CallFailed>, Failure> {
    session.peer.work(session.patience, async |clients| {
        let sockets: SocketsClient = clients.at(target);
        let told = async {
            let address = sockets.address().await?;
            let listeners = sockets.listeners().await?;
            let mut connections: Vec<Connection> = Vec::new();
            loop {
                let after = connections.last().map_or(0, |it| it.number);
                let page = sockets.connections(after).await?;
                // What does not go on would do so for ever.
                if page.last().is_none_or(|it| it.number <= after) {
                    return Ok::<Told, CallError>(Told { address, listeners, connections });
                }
                connections.extend(page);
            }
        };
        told.await.map_err(CallFailed::from)
    })
}

fn document(told: &[(Target, Told)]) -> Value {
    let address = |(core, Told { address: it, .. }): &(Target, Told)| {
        json!({
            "core": core.place().to_string(),
            "at": it.at,
            "v6": it.v6.split_whitespace().collect::<Vec<_>>(),
            "router": it.router,
            "gateway": it.gateway,
            "resolver": it.resolver,
            "server": it.server,
            "left_s": it.left_s,
        })
    };
    let listener = |core: &Target, it: &Listener| {
        json!({
            "core": core.place().to_string(),
            "package": it.package,
            "at": it.at,
            "accepted": it.accepted,
            "resumed": it.resumed,
            "half_open": it.half_open,
        })
    };
    let connection = |core: &Target, it: &Connection| {
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
    let listeners =
        told.iter().flat_map(|(core, it)| it.listeners.iter().map(|it| listener(core, it)));
    let connections =
        told.iter().flat_map(|(core, it)| it.connections.iter().map(|it| connection(core, it)));
    json!({
        "addresses": told.iter().map(address).collect::<Vec<_>>(),
        "listeners": listeners.collect::<Vec<_>>(),
        "connections": connections.collect::<Vec<_>>(),
    })
}

/// A word of a table, which says that there is none.
fn word(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.into() }
}

fn text(told: &[(Target, Told)]) -> String {
    if told.is_empty() {
        return "no package serves a network: `nile package start web`\n".into();
    }
    let titles = |names: &[&str]| vec![names.iter().map(|it| String::from(*it)).collect()];
    let mut addresses: Vec<Vec<String>> =
        titles(&["core", "address", "gateway", "resolver", "lent by", "for", "IPv6", "router"]);
    let mut listeners =
        titles(&["core", "package", "listens at", "accepted", "resumed", "half open"]);
    let mut connections = titles(&[
        "core",
        "number",
        "package",
        "local",
        "remote",
        "state",
        "received",
        "sent",
        "in flight",
    ]);
    for (core, it) in told {
        let core = core.place().to_string();
        let address = &it.address;
        let left = format!("{} s", address.left_s);
        addresses.push(vec![
            core.clone(),
            word(&address.at),
            word(&address.gateway),
            word(&address.resolver),
            word(&address.server),
            word(if address.server.is_empty() { "" } else { &left }),
            word(&address.v6),
            word(&address.router),
        ]);
        listeners.extend(it.listeners.iter().map(|it| {
            vec![
                core.clone(),
                word(&it.package),
                it.at.clone(),
                it.accepted.to_string(),
                it.resumed.to_string(),
                it.half_open.to_string(),
            ]
        }));
        connections.extend(it.connections.iter().map(|it| {
            vec![
                core.clone(),
                it.number.to_string(),
                word(&it.package),
                it.local.clone(),
                it.remote.clone(),
                it.state.clone(),
                it.received.to_string(),
                it.acknowledged.to_string(),
                it.in_flight.to_string(),
            ]
        }));
    }
    let tables = [addresses, listeners, connections];
    let tables = tables.iter().filter(|it| it.len() > 1).map(|it| table::columns("", it));
    tables.collect::<Vec<_>>().join("\n")
}
