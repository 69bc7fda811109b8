//! `nile roles`: what each core is for, which image it runs and how busy it is; a core that becomes
//! something else while the node runs.

use std::thread;
use std::time::Duration;

use nile_abi::Role;
use nile_interfaces::core_manager::{CoreManagerClient, CoreRole, CoreRoles};
use serde_json::{Value, json};

use super::args::{Place, Roles, RolesAction};
use super::cores;
use super::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::table;

/// How often they are shown.
const WATCH: Duration = Duration::from_secs(1);

/// Shows roles, or changes those of a core.
pub fn run(options: &Roles) -> Result<(), Failure> {
    if let Some(RolesAction::Set { core, roles, patience, query }) = &options.action {
        let core = &core.on(&query.which)?;
        let number = cores::number_of(core)?;
        let patience_ms = cores::milliseconds(*patience);
        // Each core that has to leave may take so long, and their next incarnations have to begin.
        let limit = *patience * 2 + query.timeout;
        let wanted = roles.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?;
        cores::ask(core, query, limit, async |it| it.assign(number, wanted, patience_ms).await)?;
        if query.json {
            let document = json!({ "core": core.to_string(), "roles": roles });
            return crate::print(&format!("{document}\n"));
        }
        return crate::print(&format!("{core} is for {} now\n", roles.join(", ")));
    }
    let query = &options.query;
    let of = options.node.map(|node| node.on(&query.which)).transpose()?;
    let mut session = Session::open(&query.which, query.timeout)?;
    loop {
        let nodes = look(&mut session, of)?;
        if query.json {
            let cores: Vec<Value> = nodes.iter().map(|(node, it)| document(node, it)).collect();
            crate::print(&format!("{}\n", json!({ "cores": cores })))?;
        } else {
            crate::print(&describe(&nodes))?;
        }
        if !options.watch {
            return Failure::unless_all_asked(&session.away());
        }
        thread::sleep(WATCH);
        crate::print("\n")?;
    }
}

fn named(name: &str) -> Result<CoreRole, Failure> {
    name.parse::<Role>().map(CoreRole::from).map_err(|_| {
        let known = Role::ALL.map(Role::name).join(", ");
        Failure::request(format!("{name} is no role; there are {known}"))
    })
}

fn names(of: &CoreRoles) -> Vec<&'static str> {
    of.roles.iter().map(|role| role.name()).collect()
}

/// The cores of all nodes, or of one, each with its node's name.
fn look(session: &mut Session, of: Option<Place>) -> Result<Vec<(String, CoreRoles)>, Failure> {
    let none = || match &of {
        Some(place) => Failure::request(format!("{} does not answer, or is none", place.node)),
        None => Failure::failed("no node answers"),
    };
    let managers = service::find::<CoreManagerClient>(session)?.ok_or_else(none)?;
    let is_meant = |node| of.is_none_or(|place| place.node == node);
    let mut all = Vec::new();
    for target in managers.into_iter().filter(|it| is_meant(it.node)) {
        let said = session.peer.work(session.patience, async |clients| {
            clients.at::<CoreManagerClient>(target).roles().await.map_err(CallFailed::from)
        })?;
        let cores = said.map_err(|failed| Failure::failed(format!("{}: {failed}", target.node)))?;
        let meant =
            |it: &CoreRoles| of.and_then(|place| place.core).is_none_or(|core| core.0 == it.core);
        all.extend(cores.into_iter().filter(meant).map(|it| (target.node.to_string(), it)));
    }
    if all.is_empty() { Err(none()) } else { Ok(all) }
}

fn document(node: &str, it: &CoreRoles) -> Value {
    json!({
        "core": format!("{node}.c{}", it.core),
        "roles": names(it),
        "state": it.phase.name(),
        "image": it.image,
        "keeps_image": it.keeps_image,
        "drives": it.drives,
        "pinned": it.is_pinned,
        "load": it.load,
        "busy_us": it.busy_us,
        "idle_us": it.idle_us,
    })
}

fn describe(cores: &[(String, CoreRoles)]) -> String {
    let title = ["core", "roles", "state", "image", "drives", "stays", "load", "busy"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (node, it) in cores {
        let drives = if it.drives.is_empty() { "-".into() } else { it.drives.join(", ") };
        rows.push(vec![
            format!("{node}.c{}", it.core),
            names(it).join(", "),
            it.phase.name().into(),
            it.image.clone().unwrap_or_else(|| "own".into()),
            drives,
            if it.is_pinned { "yes" } else { "no" }.into(),
            format!("{}%", it.load),
            format!("{:.1} s", it.busy_us as f64 / 1e6),
        ]);
    }
    table::columns("", &rows)
}
