//! `nile region`: memory that packages of several cores of a node share.

use clap::{Args, Subcommand};
use nile_abi::{CoreId, NodeId, Status};
use nile_interfaces::core_manager::{CoreManagerClient, RegionEntry};
use nile_stl::CallError;
use serde_json::{Value, json};

use super::args::{Place, Query, Said};
use super::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::size::Bytes;
use crate::table;

#[derive(Args)]
pub struct Regions {
    #[command(subcommand)]
    pub action: RegionAction,
}

#[derive(Subcommand)]
pub enum RegionAction {
    /// Make one, which is zero. One of this name and size may be there.
    Make {
        /// Its name, as packages' manifests have it.
        name: String,
        /// How large it is, as 16M; 256M at most.
        size: Bytes,
        #[command(flatten)]
        on: On,
    },
    /// Show which there are, and the packages that have them.
    List {
        #[command(flatten)]
        on: On,
    },
    /// Forget one, which no package may have, and free its memory.
    Drop {
        /// Its name.
        name: String,
        #[command(flatten)]
        on: On,
    },
}

/// Which nodes are meant.
#[derive(Args)]
pub struct On {
    /// The node, as n1; without it, all.
    #[arg(long, value_name = "NODE")]
    pub on: Option<Said>,
    #[command(flatten)]
    pub query: Query,
}

/// A region of a node.
struct Found {
    node: NodeId,
    region: RegionEntry,
}

/// Does what is asked for.
pub fn run(options: &Regions) -> Result<(), Failure> {
    match &options.action {
        RegionAction::Make { name, size, on } => {
            let bytes = size.0;
            let make =
                async |it: CoreManagerClient| it.make_region(name.clone(), bytes, None).await;
            let (nodes, asked) = on.each(make)?;
            say(on, name, &nodes, "is there")?;
            asked
        }
        RegionAction::Drop { name, on } => {
            let forget = async |it: CoreManagerClient| it.drop_region(name.clone()).await;
            let (nodes, asked) = on.each(forget)?;
            say(on, name, &nodes, "is gone")?;
            asked
        }
        RegionAction::List { on } => {
            let (all, asked) = list(on)?;
            match on.query.json {
                true => {
                    let regions: Vec<Value> = all.iter().map(document).collect();
                    crate::print(&format!("{}\n", json!({ "regions": regions })))?;
                }
                false => crate::print(&describe(&all))?,
            }
            asked
        }
    }
}

impl On {
    /// The managing cores of the nodes that are meant.
    fn managers(&self, session: &mut Session) -> Result<Vec<Target>, Failure> {
        let of = self.on.map(|node| node.on(&self.query.which)).transpose()?;
        if let Some(place @ Place { core: Some(_), .. }) = of {
            let node = place.node;
            return Err(Failure::request(format!("{place} is a core; name its node, as {node}")));
        }
        let is_meant = |it: &Target| of.is_none_or(|place| place.node == it.node);
        let all = service::find::<CoreManagerClient>(session)?.unwrap_or_default();
        let mut meant: Vec<Target> = all.into_iter().filter(is_meant).collect();
        meant.sort_by_key(|it| it.node);
        match (meant.is_empty(), of) {
            (false, _) => Ok(meant),
            (true, Some(place)) => {
                let node = place.node;
                Err(Failure::request(format!("{node} does not answer, or is none")))
            }
            (true, None) => Err(Failure::failed("no node answers")),
        }
    }

    /// Whether all that are meant could be asked.
    fn asked(&self, session: &Session) -> Result<(), Failure> {
        match self.on {
            Some(_) => Ok(()),
            None => Failure::unless_all_asked(&session.away()),
        }
    }

    /// Asks each node for something, and gives those that could be asked, and whether all could.
    /// What cannot be is a wrong request.
    fn each(
        &self,
        ask: impl AsyncFn(CoreManagerClient) -> Result<(), CallError>,
    ) -> Result<(Vec<NodeId>, Result<(), Failure>), Failure> {
        let mut session = Session::open(&self.query.which, self.query.timeout)?;
        let mut nodes = Vec::new();
        for target in self.managers(&mut session)? {
            let said = session.peer.work(session.patience, async |clients| {
                ask(clients.at(target)).await.map_err(CallFailed::from)
            })?;
            said.map_err(|failed| {
                let text = format!("{}: {}", target.node, failed.message);
                match failed.status {
                    Status::NotFound | Status::Exists | Status::Invalid | Status::NoMemory => {
                        Failure::request(text)
                    }
                    _ => Failure::failed(text),
                }
            })?;
            nodes.push(target.node);
        }
        Ok((nodes, self.asked(&session)))
    }
}

/// The regions of those that could be asked, and whether all could.
fn list(on: &On) -> Result<(Vec<Found>, Result<(), Failure>), Failure> {
    let mut session = Session::open(&on.query.which, on.query.timeout)?;
    let mut all = Vec::new();
    for target in on.managers(&mut session)? {
        let said = session.peer.work(session.patience, async |clients| {
            clients.at::<CoreManagerClient>(target).regions().await.map_err(CallFailed::from)
        })?;
        let regions = said.map_err(|error| Failure::failed(format!("{}: {error}", target.node)))?;
        all.extend(regions.into_iter().map(|region| Found { node: target.node, region }));
    }
    Ok((all, on.asked(&session)))
}

impl Found {
    /// The cores of the packages that have it.
    fn cores(&self) -> Vec<String> {
        let users = self.region.packages.iter();
        users.map(|user| format!("{}.{}", self.node, CoreId(user.core))).collect()
    }
}

fn say(on: &On, name: &str, nodes: &[NodeId], what: &str) -> Result<(), Failure> {
    let nodes: Vec<String> = nodes.iter().map(NodeId::to_string).collect();
    if on.query.json {
        return crate::print(&format!("{}\n", json!({ "region": name, "nodes": nodes })));
    }
    crate::print(&format!("{name} {what} on {}\n", nodes.join(", ")))
}

fn document(found: &Found) -> Value {
    let Found { node, region } = found;
    json!({
        "region": region.name,
        "node": node.to_string(),
        "bytes": region.bytes,
        "shared": region.shared,
        "packages": found.cores(),
    })
}

fn describe(all: &[Found]) -> String {
    let title = ["region", "node", "bytes", "packages on"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for found in all {
        let cores = found.cores();
        rows.push(vec![
            found.region.name.clone(),
            found.node.to_string(),
            found.region.bytes.to_string(),
            if cores.is_empty() { "-".into() } else { cores.join(", ") },
        ]);
    }
    table::columns("", &rows)
}
