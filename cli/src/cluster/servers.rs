//! `nile servers`: packages that serve the network, which may begin anew at any time.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use nile_interfaces::core_manager::CoreManagerClient;
use nile_interfaces::packages::PackageState;
use serde_json::{Value, json};

use super::args::{Query, Said, Which};
use super::packages::{Cores, file_of, is_name};
use crate::args::seconds;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::table;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Servers {
    #[command(subcommand)]
    action: Option<ServersAction>,
    #[command(flatten)]
    query: Query,
}

#[derive(Subcommand)]
enum ServersAction {
    /// End a server in the midst of what it does: it begins anew over what it keeps, and its
    /// connections go on.
    Restart {
        /// Its name, its core, as n1.c2, or both, as n1.c2/NAME.
        server: String,
        #[command(flatten)]
        query: Query,
    },
    /// Run another file of a server in its place; its connections go on. The former one comes back
    /// if that fails in its first ten seconds.
    Replace {
        /// Its name, its core, as n1.c2, or both, as n1.c2/NAME.
        server: String,
        /// The file, or the name of one of the project's own.
        file: PathBuf,
        #[command(flatten)]
        query: Query,
    },
    /// Have a server go on on another worker core of its node, and its connections with it. It runs
    /// where it was if it does not begin there.
    Move {
        /// Its name, its core, as n1.c2, or both, as n1.c2/NAME.
        server: String,
        /// The core that it moves to, as n1.c3.
        to: Said,
        /// Run it beside the packages that the core has.
        #[arg(long)]
        share: bool,
        /// Seconds that a job's task may take that has the core; meanwhile the server is nowhere.
        #[arg(long, default_value = "2", value_parser = seconds, value_name = "SECONDS")]
        patience: Duration,
        #[command(flatten)]
        query: Query,
    },
}

/// Does what is asked for.
pub fn run(options: &Servers) -> Result<(), Failure> {
    match &options.action {
        None => list(&mut Cores::open(&options.query)?, options.query.json),
        Some(ServersAction::Restart { server, query }) => restart(server, query),
        Some(ServersAction::Replace { server, file, query }) => {
            let file = file_of(file)?;
            let mut cores = Cores::open(query)?;
            let (core, state) = named(&mut cores, &query.which, server)?;
            cores.replace((core, &state.name), &file, query)?;
            say(query, core, &state.name, "is replaced")
        }
        Some(ServersAction::Move { server, to, share, patience, query }) => {
            let to = to.on(&query.which)?;
            let mut cores = Cores::open(query)?;
            let (core, state) = named(&mut cores, &query.which, server)?;
            let target = cores.core(to)?;
            if target.node != core.node {
                return Err(Failure::request(format!(
                    "{}/{} cannot go to {}: its connections have the address of its node",
                    core.place(),
                    state.name,
                    target.place()
                )));
            }
            let patience_ms = patience.as_millis().clamp(1, 60_000) as u32;
            // It may have to begin twice.
            cores.session().patience += *patience * 2;
            cores.ask(core, async |it| {
                it.move_to(&state.name, target.core.0, patience_ms, *share).await
            })?;
            say(query, target, &state.name, "goes on")
        }
    }
}

/// Whether a server's file is named by its name alone: one of the project's own.
pub fn names_own(options: &Servers) -> bool {
    matches!(&options.action, Some(ServersAction::Replace { file, .. }) if is_name(file))
}

/// The server that is meant. Refused for a package that serves no network.
fn named(
    cores: &mut Cores,
    which: &Which,
    server: &str,
) -> Result<(Target, PackageState), Failure> {
    let (core, name) = cores.named(which, server)?;
    let states = cores.ask(core, async |it| it.list().await)?;
    let state = states.into_iter().find(|it| it.name == name && it.uses_frames);
    let place = core.place();
    let none = || format!("{place}/{name} is no server: `nile servers` shows those there");
    Ok((core, state.ok_or_else(|| Failure::request(none()))?))
}

fn say(query: &Query, core: Target, name: &str, what: &str) -> Result<(), Failure> {
    let place = core.place();
    match query.json {
        true => crate::print(&format!("{}\n", json!({ "core": place.to_string(), "name": name }))),
        false => crate::print(&format!("{name} {what} on {place}\n")),
    }
}

fn list(cores: &mut Cores, as_json: bool) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for (core, states) in cores.states()? {
        servers.extend(states.into_iter().filter(|it| it.uses_frames).map(|it| (core, it)));
    }
    let shown = match as_json {
        true => format!("{}\n", document(&servers)),
        false => text(&servers),
    };
    crate::print(&shown)?;
    cores.unless_all_asked()
}

fn document(servers: &[(Target, PackageState)]) -> Value {
    let server = |(core, it): &(Target, PackageState)| {
        json!({
            "core": core.place().to_string(),
            "name": it.name,
            "state": it.state.name(),
            "begun": it.begun,
            "since_us": it.since_us,
            "said": it.said,
        })
    };
    json!({ "servers": servers.iter().map(server).collect::<Vec<_>>() })
}

fn text(servers: &[(Target, PackageState)]) -> String {
    if servers.is_empty() {
        return "no package serves a network: `nile package start web`\n".into();
    }
    let title = ["core", "server", "state", "begun", "for", "last end"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (core, it) in servers {
        rows.push(vec![
            core.place().to_string(),
            it.name.clone(),
            it.state.name().into(),
            it.begun.to_string(),
            format!("{:.1} s", it.since_us as f64 / 1e6),
            if it.said.is_empty() { "-".into() } else { it.said.clone() },
        ]);
    }
    table::columns("", &rows)
}

/// Ends a server's incarnation.
fn restart(server: &str, query: &Query) -> Result<(), Failure> {
    let mut cores = Cores::open(query)?;
    let (core, PackageState { name, number, .. }) = named(&mut cores, &query.which, server)?;
    let session = cores.session();
    let managers = service::find::<CoreManagerClient>(session)?.unwrap_or_default();
    let none = || Failure::failed(format!("{}: its management core does not answer", core.node));
    let manager = managers.into_iter().find(|it| it.node == core.node).ok_or_else(none)?;
    let ended = session.peer.work(session.patience, async |clients| {
        let manager: CoreManagerClient = clients.at(manager);
        manager.stop_package(core.core.0, number).await.map_err(CallFailed::from)
    })?;
    ended.map_err(|failed| Failure::failed(format!("{}/{name}: {failed}", core.place())))?;
    say(query, core, &name, "begins anew")
}
