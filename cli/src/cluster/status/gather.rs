//! Asking every node what its cores are and have done, all at once.

use std::collections::BTreeMap;

use nile_abi::{CoreId, Generation, NodeId};
use nile_gossip::State;
use nile_interfaces::core_manager::{CoreManagerClient, CoreStatistics};
use nile_interfaces::packages::{PackageState, PackagesClient};
use nile_kernel::report::Report;
use nile_stl::{Client, all};
use serde::Serialize;

use crate::cluster::args::Kind;
use crate::cluster::folder::Node;
use crate::cluster::session::Session;
use crate::cluster::{logs, members, process};
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::{self, Target};

/// The service that knows the cores of a node, and that which knows the packages of a core.
const SERVICE: &str = CoreManagerClient::INTERFACE.name;
const PACKAGES: &str = PackagesClient::INTERFACE.name;

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
    /// The packages that stay on it; `None` if it is a worker that does not say.
    pub packages: Option<Vec<PackageStatus>>,
    /// The services that it offers.
    pub services: Vec<String>,
}

/// A package that stays on a core, as tools show it.
#[derive(Clone, Debug, Serialize)]
pub struct PackageStatus {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub state: String,
    /// How often it has begun.
    pub begun: u32,
    /// Bytes of memory of its own.
    pub memory_bytes: u64,
    /// How long it had the core since it has begun last, in microseconds.
    pub busy_us: u64,
    /// Its system calls since then.
    pub system_calls: u64,
}

/// One who asks, again and again if need be.
pub struct Gatherer {
    session: Session,
    /// The nodes that can be asked as this command does it, in the incarnation that said so.
    checked: BTreeMap<NodeId, Generation>,
    /// What each node's boot report says of its cores' names, by the generation that it was of.
    hardware: BTreeMap<(NodeId, u32), BTreeMap<u16, u64>>,
}

impl Gatherer {
    /// Asks in the name of `session`.
    pub fn new(session: Session) -> Gatherer {
        Gatherer { session, checked: BTreeMap::new(), hardware: BTreeMap::new() }
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
        let mut managers: Vec<(usize, Target)> = Vec::new();
        for (place, node) in asked {
            match known::on_node(self.session.peer.known(), *node, SERVICE) {
                Some(target) => managers.push((*place, target)),
                None => nodes[*place].error = Some(format!("it has no {SERVICE}")),
            }
        }
        let targets: Vec<Target> = managers.iter().map(|(_, target)| *target).collect();
        let mut cannot = self.check(&targets)?;
        managers.retain(|(place, target)| match cannot.remove(&target.node) {
            Some(why) => {
                nodes[*place].error = Some(why.to_string());
                false
            }
            None => true,
        });
        let gossip = self.session.peer.known();
        let cores = |(place, target): &(usize, Target)| {
            let cores = known::cores(gossip, target.node).into_iter();
            let (place, target) = (*place, *target);
            cores.map(move |it| (place, target, CoreId(it.core)))
        };
        let cores: Vec<(usize, Target, CoreId)> = managers.iter().flat_map(cores).collect();
        let ends = self.session.peer.work(self.session.patience, async |clients| {
            let ask = async |target: Target, core: CoreId| {
                clients.at::<CoreManagerClient>(target).statistics(core.0).await
            };
            all(cores.iter().map(|(_, target, core)| ask(*target, *core))).await
        })?;
        for ((place, ..), end) in cores.iter().zip(ends) {
            let node = &mut nodes[*place];
            match end {
                Ok(said) => node.cores.push(said.into()),
                Err(error) => node.error = Some(CallFailed::from(error).to_string()),
            }
        }
        for (place, _) in asked {
            self.complete(&mut nodes[*place]);
        }
        self.ask_for_packages(nodes)
    }

    /// Fills in the packages of the cores. One that does not answer may just leave.
    fn ask_for_packages(&mut self, nodes: &mut [NodeStatus]) -> Result<(), Failure> {
        let instances = known::instances(self.session.peer.known());
        let services = instances.into_iter().filter(|(_, it)| it.name == PACKAGES);
        let targets: Vec<Target> = services.map(|it| it.0).collect();
        let mut asked = Vec::new();
        for node in nodes {
            let id = node.node;
            for core in &mut node.cores {
                let is_it = |it: &&Target| (it.node, it.core.0) == (id, core.id);
                match targets.iter().find(is_it) {
                    Some(target) => asked.push((*target, core)),
                    None => core.packages = Some(Vec::new()),
                }
            }
        }
        let ends = self.session.peer.work(self.session.patience, async |clients| {
            let ask = async |target| clients.at::<PackagesClient>(target).list().await;
            all(asked.iter().map(|(target, _)| ask(*target))).await
        })?;
        for ((_, core), end) in asked.into_iter().zip(ends) {
            core.packages = end.ok().map(|all| all.into_iter().map(PackageStatus::from).collect());
        }
        Ok(())
    }

    /// The nodes that cannot be asked, and why; each is looked at once.
    fn check(&mut self, targets: &[Target]) -> Result<BTreeMap<NodeId, CallFailed>, Failure> {
        let is_new = |it: &&Target| self.checked.get(&it.node) != Some(&it.generation);
        let new: Vec<Target> = targets.iter().filter(is_new).copied().collect();
        let Session { peer, patience, .. } = &mut self.session;
        let mut cannot = BTreeMap::new();
        for (target, end) in new.iter().zip(peer.check::<CoreManagerClient>(&new, *patience)?) {
            match end {
                Ok(()) => drop(self.checked.insert(target.node, target.generation)),
                Err(failed) => drop(cannot.insert(target.node, failed)),
            }
        }
        Ok(cannot)
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

/// What a core says about itself.
impl From<CoreStatistics> for CoreStatus {
    fn from(said: CoreStatistics) -> CoreStatus {
        CoreStatus {
            id: said.entry.core,
            roles: said.entry.roles.iter().map(|it| it.name().into()).collect(),
            hardware_id: Some(said.hardware_id),
            generation: said.entry.generation,
            state: said.entry.phase.name().into(),
            interrupts: said.interrupts.into_iter().map(|it| (it.cause, it.count)).collect(),
            load: said.load,
            queues: said.queues.into_iter().map(|it| (it.name, it.depth)).collect(),
            wakes: said.wakes,
            turns: said.turns,
            sleeps: said.sleeps,
            system_calls: said.system_calls,
            packages: None,
            services: Vec::new(),
        }
    }
}

/// What a core says about one of its packages.
impl From<PackageState> for PackageStatus {
    fn from(said: PackageState) -> PackageStatus {
        PackageStatus {
            name: said.name,
            state: said.state.name().into(),
            begun: said.begun,
            memory_bytes: said.memory_bytes,
            busy_us: said.busy_us,
            system_calls: said.system_calls,
        }
    }
}
