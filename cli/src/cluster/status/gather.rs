//! Asking every node what its cores are and have done, all at once.

use std::collections::BTreeMap;

use nile_abi::{NodeId, RoleSet};
use nile_gossip::State;
use nile_kernel::report::Report;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::args::Kind;
use crate::cluster::folder::Node;
use crate::cluster::session::Session;
use crate::cluster::{logs, members, process, reply};
use crate::failure::Failure;
use crate::peer::call::Call;
use crate::peer::known;

/// The service that knows the cores of a node, and its method for one of them.
const SERVICE: &str = "core_manager";
const METHOD: &str = "statistics";

/// A node as tools show it.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Which.
    #[serde(skip)]
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// `alive`, `suspect` or `unreachable`, as the cluster sees it; `down` if it does not run.
    pub state: String,
    /// What it runs on; `elsewhere` if not on this machine.
    pub machine: String,
    /// Its incarnation.
    pub generation: u32,
    /// Its cores; none if it cannot be asked.
    pub cores: Vec<CoreStatus>,
    /// Where another node is that calls itself so, too, if one did in the last minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namesake: Option<String>,
    /// Why it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A core as tools show it.
#[derive(Clone, Debug, Serialize)]
pub struct CoreStatus {
    /// Its number in the node.
    pub id: u16,
    /// What it is for.
    pub roles: Vec<String>,
    /// Its name in the machine, where that is known.
    pub hardware_id: Option<u64>,
    /// Its incarnation.
    pub generation: u32,
    /// How far it has come.
    pub state: String,
    /// Interrupts by cause.
    pub interrupts: BTreeMap<String, u64>,
    /// Polls of tasks in a hundred passes of its loop.
    pub load: u64,
    /// What waits, by queue, as far as the node tells.
    pub queues: BTreeMap<String, u64>,
    /// Those of them that came while it slept, and broke into nothing.
    pub wakes: u64,
    /// Passes of its loop.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// System calls of its packages.
    pub system_calls: u64,
    /// The services that it offers.
    pub services: Vec<String>,
}

/// One who asks, again and again if need be.
pub struct Gatherer {
    session: Session,
    /// The schema of the service that is asked, once one node has told it.
    schema: Option<String>,
    /// What each node's boot report says of its cores' names, by the generation that it was of.
    hardware: BTreeMap<(NodeId, u32), BTreeMap<u16, u64>>,
}

impl Gatherer {
    /// Asks in the name of `session`.
    pub fn new(session: Session) -> Gatherer {
        Gatherer { session, schema: None, hardware: BTreeMap::new() }
    }

    /// The present state of every node. Waits for answers as long as the session has patience.
    pub fn gather(&mut self) -> Result<Vec<NodeStatus>, Failure> {
        let running = self.session.running();
        let mut nodes = Vec::new();
        let mut asked = Vec::new();
        for node in self.session.record.nodes.clone() {
            let is_running = running.contains(&node.node());
            let machine = node.machine.name();
            let status = self.node(node.node(), machine, node.generation, is_running);
            if is_running && status.state != "unreachable" {
                asked.push((nodes.len(), node.node()));
            }
            nodes.push(status);
        }
        for node in self.session.elsewhere() {
            let status = self.node(node, "elsewhere", 0, true);
            if status.state != "unreachable" {
                asked.push((nodes.len(), node));
            }
            nodes.push(status);
        }
        self.ask(&mut nodes, &asked)?;
        Ok(nodes)
    }

    /// Lets the session take part in the cluster until `done` or for so long.
    pub fn idle(
        &mut self,
        time: std::time::Duration,
        done: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        self.session.peer.until(time, |_| done()).map(|_| ())
    }

    /// A node that was started last with `generation`, as far as is known, before it is asked.
    fn node(&self, node: NodeId, machine: &str, generation: u32, is_running: bool) -> NodeStatus {
        let member = self.session.peer.known().member(node);
        let state = match (is_running, member.map(|it| it.state)) {
            (false, _) => "down",
            (true, Some(State::Alive)) => "alive",
            (true, Some(State::Suspect)) => "suspect",
            (true, Some(State::Down) | None) => "unreachable",
        };
        NodeStatus {
            node,
            name: node.to_string(),
            state: state.into(),
            machine: machine.into(),
            generation: member.map_or(generation, |it| it.generation.0),
            cores: Vec::new(),
            namesake: None,
            error: None,
        }
    }

    /// Asks them for other nodes that have the number of one.
    pub fn find_namesakes(&mut self, nodes: &mut [NodeStatus]) -> Result<(), Failure> {
        let Session { peer, patience, .. } = &mut self.session;
        let asked: Vec<NodeId> =
            nodes.iter().filter(|it| !it.cores.is_empty()).map(|it| it.node).collect();
        let mut found = members::namesakes(peer, &asked, *patience)?;
        nodes.iter_mut().for_each(|it| it.namesake = found.remove(&it.node));
        Ok(())
    }

    /// Fills in the cores of nodes that can be asked.
    fn ask(&mut self, nodes: &mut [NodeStatus], asked: &[(usize, NodeId)]) -> Result<(), Failure> {
        let gossip = self.session.peer.known();
        let mut targets = Vec::new();
        for (place, node) in asked {
            let target = known::on_node(gossip, *node, SERVICE);
            let cores = known::cores(gossip, *node);
            match target {
                Some(target) => {
                    targets.extend(cores.iter().map(|core| (*place, target, core.clone())));
                }
                None => nodes[*place].error = Some(format!("it has no {SERVICE}")),
            }
        }
        if self.schema.is_none() {
            let mut asked: Vec<_> = targets.iter().map(|(_, target, _)| *target).collect();
            asked.dedup();
            let calls: Vec<Call> = asked.into_iter().map(Call::discover).collect();
            let ends = self.session.peer.calls(&calls, self.session.patience)?;
            // All nodes have the same image's service: one schema serves for all.
            self.schema = ends.into_iter().find_map(Result::ok);
        }
        let Some(schema) = &self.schema else {
            for (place, _) in asked {
                nodes[*place].error = Some("it does not answer".into());
            }
            return Ok(());
        };
        let mut calls = Vec::new();
        targets.retain(|(_, target, core)| {
            let core = [("core", core.core.to_string())];
            let call = reply::plain_call(schema, *target, METHOD, &core);
            calls.extend(call.clone());
            call.is_some()
        });
        let ends = self.session.peer.calls(&calls, self.session.patience)?;
        for ((place, _, core), end) in targets.iter().zip(ends) {
            let node = &mut nodes[*place];
            match end {
                Ok(text) => {
                    let said = reply::to_json(schema, METHOD, &text).unwrap_or_default();
                    node.cores.push(core_status(core, &said["statistics"]));
                }
                Err(failed) => node.error = Some(failed.to_string()),
            }
        }
        for (place, _) in asked {
            self.complete(&mut nodes[*place]);
        }
        Ok(())
    }

    /// Fills in what others than the node know: the services that it has told the cluster of, and
    /// what the machine calls its cores, if it is this one.
    fn complete(&mut self, status: &mut NodeStatus) {
        let record = self.session.record.nodes.iter().find(|it| it.node() == status.node).cloned();
        let workers = match &record {
            Some(node) if node.machine == Kind::Hosted => {
                process::workers(&process::of(self.session.folder.path(), &node.name()))
            }
            _ => BTreeMap::new(),
        };
        let hardware = record.map(|node| self.hardware(&node)).unwrap_or_default();
        let services = known::instances(self.session.peer.known());
        for core in &mut status.cores {
            let offered =
                services.iter().filter(|(at, _)| (at.node, at.core.0) == (status.node, core.id));
            core.services = offered.map(|(_, it)| it.name.clone()).collect();
            let process = workers.get(&core.id).map(|pid| *pid as u64);
            let at_boot = || hardware.get(&core.id).copied();
            core.hardware_id = core.hardware_id.or(process).or_else(at_boot);
        }
    }

    /// What the boot report of a node of this cluster says that its cores are called.
    fn hardware(&mut self, node: &Node) -> BTreeMap<u16, u64> {
        let known = self.hardware.entry((node.node(), node.generation)).or_default();
        if known.is_empty() {
            let log = self.session.folder.log_path(&node.name());
            let report = logs::last_report(&log);
            if let Some(report) = report.and_then(|text| serde_json::from_str(&text).ok()) {
                let Report { cores, .. } = report;
                known.extend(cores.iter().map(|core| (core.id, core.hardware_id)));
            }
        }
        known.clone()
    }
}

/// What a core says about itself, and its directory's entry for what it does not.
fn core_status(known: &nile_gossip::Core, said: &Value) -> CoreStatus {
    let entry = &said["entry"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| Some(word.as_str()?.to_string())).collect()
    };
    let counts = |list: &Value, name: &str, count: &str| -> BTreeMap<String, u64> {
        let entries = list.as_array().into_iter().flatten();
        entries.filter_map(|it| Some((it[name].as_str()?.into(), it[count].as_u64()?))).collect()
    };
    let known_roles = || {
        let roles = RoleSet::from_bits(known.roles);
        roles.iter().map(|role| role.name().to_string()).collect()
    };
    CoreStatus {
        id: known.core,
        roles: words(&entry["roles"]).unwrap_or_else(known_roles),
        hardware_id: said["hardware_id"].as_u64(),
        generation: entry["generation"].as_u64().map_or(known.generation, |it| it as u32),
        state: entry["phase"].as_str().unwrap_or("unknown").into(),
        interrupts: counts(&said["interrupts"], "cause", "count"),
        load: number(&said["load"]),
        queues: counts(&said["queues"], "name", "depth"),
        turns: number(&said["turns"]),
        wakes: number(&said["wakes"]),
        sleeps: number(&said["sleeps"]),
        system_calls: number(&said["system_calls"]),
        services: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_core_is_what_it_says() {
        let known = nile_gossip::Core { core: 2, generation: 4, roles: 0b1000, changed: 0 };
        let silent = core_status(&known, &Value::Null);
        assert_eq!((silent.roles, silent.generation), (vec!["worker".to_string()], 4));
        let said = json!({
            "entry": { "roles": ["disk"], "generation": 5, "phase": "running" },
            "interrupts": [{ "cause": "tick", "count": 7 }],
            "queues": [{ "name": "received", "depth": 3 }],
            "load": 12,
        });
        let core = core_status(&known, &said);
        assert_eq!((core.generation, core.load, core.interrupts["tick"]), (5, 12, 7));
        assert_eq!((core.queues["received"], core.state.as_str()), (3, "running"));
    }
}
