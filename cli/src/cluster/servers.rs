//! `nile servers`: packages that serve the network, which may begin anew at any time.

use clap::{Args, Subcommand};
use nile_interfaces::core_manager::CoreManagerClient;
use nile_interfaces::packages::PackageState;
use serde_json::{Value, json};

use super::args::Query;
use super::packages::Cores;
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
}

/// Does what is asked for.
pub fn run(options: &Servers) -> Result<(), Failure> {
    match &options.action {
        None => list(&mut Cores::open(&options.query)?, options.query.json),
        Some(ServersAction::Restart { server, query }) => restart(server, query),
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

/// Ends a server's incarnation. Refused for a package that serves no network.
fn restart(server: &str, query: &Query) -> Result<(), Failure> {
    let mut cores = Cores::open(query)?;
    let (core, name) = cores.named(server)?;
    let states = cores.ask(core, async |it| it.list().await)?;
    let state = states.into_iter().find(|it| it.name == name && it.uses_frames);
    let place = core.place();
    let number = state.map(|it| it.number).ok_or_else(|| {
        Failure::request(format!("{place}/{name} is no server: `nile servers` shows those there"))
    })?;
    let session = cores.session();
    let managers = service::find::<CoreManagerClient>(session)?.unwrap_or_default();
    let none = || Failure::failed(format!("{}: its management core does not answer", core.node));
    let manager = managers.into_iter().find(|it| it.node == core.node).ok_or_else(none)?;
    let ended = session.peer.work(session.patience, async |clients| {
        let manager: CoreManagerClient = clients.at(manager);
        manager.stop_package(core.core.0, number).await.map_err(CallFailed::from)
    })?;
    ended.map_err(|failed| Failure::failed(format!("{place}/{name}: {failed}")))?;
    match query.json {
        true => crate::print(&format!("{}\n", json!({ "core": place.to_string(), "name": name }))),
        false => crate::print(&format!("{name} on {place} begins anew\n")),
    }
}
