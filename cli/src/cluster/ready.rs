//! Waiting until a cluster, or a node that was started anew, is up: it is on the network, it
//! knows all others and all that they have, and they know it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nile_abi::{CoreId, NodeId};
use nile_interfaces::virtual_memory::VirtualMemoryClient;
use nile_stl::Client as _;

use super::folder::{Folder, Record};
use super::members::{self, View};
use crate::failure::Failure;
use crate::peer::{Peer, known};
use crate::switch::control::Client;

/// How often it is looked.
pub const LOOK: Duration = Duration::from_millis(20);

/// How often a node is asked that has begun, and how long nothing more may come from it.
const SOON: Duration = Duration::from_millis(1);

/// How long a node may take to say whom it knows, before it is asked again.
const PATIENCE: Duration = Duration::from_millis(500);

/// What has to come about.
pub struct Waiting<'c> {
    record: &'c Record,
    peer: Peer,
    control: Client,
    /// What was seen at the last look: services are published one after the other, so all are
    /// known when nothing more comes.
    last: BTreeMap<NodeId, View>,
    /// Why the cluster was not up at the last look, and which nodes were at fault.
    reason: String,
    missing: Vec<String>,
}

impl<'c> Waiting<'c> {
    /// Begins to wait for all nodes of `record`, whose switch runs.
    pub fn new(folder: &Folder, record: &'c Record) -> Result<Waiting<'c>, Failure> {
        let peer = Peer::join(folder, record)?;
        let control = Client::connect(folder.path(), Duration::ZERO);
        let control = control.map_err(|error| Failure::failed(error.to_string()))?;
        let (reason, missing) = ("nothing has come about".into(), Vec::new());
        Ok(Waiting { record, peer, control, last: BTreeMap::new(), reason, missing })
    }

    /// Why it is not up.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The nodes that are not.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Whether it has come about. Takes a moment, and no longer than until there is news.
    pub fn look(&mut self) -> Result<bool, Failure> {
        let nodes: Vec<NodeId> = self.record.nodes.iter().map(|it| it.node()).collect();
        let names = |nodes: Vec<&NodeId>| nodes.into_iter().map(NodeId::to_string).collect();
        self.wait_for_news(&nodes)?;
        let silent = nodes.iter().filter(|node| !is_heard(self.record, &self.peer, **node));
        let silent: Vec<&NodeId> = silent.collect();
        if !silent.is_empty() {
            let unplugged = self.unplugged()?;
            return Ok(match unplugged.is_empty() {
                true => self.blame("not heard of, or not wholly", names(silent)),
                false => self.blame("not on the network", unplugged),
            });
        }
        let views = members::views(&mut self.peer, &nodes, PATIENCE)?;
        let silent: Vec<&NodeId> = nodes.iter().filter(|it| !views.contains_key(it)).collect();
        if !silent.is_empty() {
            return Ok(self.blame("no answer from", names(silent)));
        }
        let is_still = views == self.last;
        self.last = views;
        let views = &self.last;
        // What a node says of itself is so.
        let own = |node: &NodeId| views.get(node).and_then(|view| view.living.get(node));
        let sees = |view: &View| {
            nodes.iter().all(|it| own(it).is_some() && view.living.get(it) == own(it))
        };
        let ignorant = views.iter().filter(|(_, view)| !sees(view)).map(|(node, _)| node);
        let ignorant: Vec<String> = names(ignorant.collect());
        if !ignorant.is_empty() {
            return Ok(self.blame("do not know all others", ignorant));
        }
        Ok(is_still || self.blame("still publishing", Vec::new()))
    }

    /// Waits until all of these nodes are heard and have published what comes last, for at most as
    /// long as a look takes. Once that is so, waits for what may follow.
    fn wait_for_news(&mut self, nodes: &[NodeId]) -> Result<(), Failure> {
        let (record, peer) = (self.record, &mut self.peer);
        let is_complete =
            |peer: &Peer, node| is_heard(record, peer, node) && has_published(peer, node);
        let are_complete = |peer: &Peer| nodes.iter().all(|node| is_complete(peer, *node));
        if !self.last.is_empty() && are_complete(peer) {
            // What several nodes know of each other takes rounds of gossip.
            let rest = if nodes.len() == 1 { SOON } else { LOOK };
            return peer.until(rest, |_| false).map(drop);
        }
        let deadline = Instant::now() + LOOK;
        while !are_complete(peer) && Instant::now() < deadline {
            // A node tells a tool of what it has when it begins, and then when it is asked.
            let begun = nodes.iter().filter(|node| has_begun(record, peer, **node));
            let asked: Vec<NodeId> =
                begun.copied().filter(|node| !is_complete(peer, *node)).collect();
            asked.iter().for_each(|node| peer.ask(*node));
            let rest = if asked.is_empty() { LOOK } else { SOON };
            let left = deadline.saturating_duration_since(Instant::now());
            peer.until(rest.min(left), |peer| are_complete(peer))?;
        }
        Ok(())
    }

    fn blame(&mut self, what: &str, nodes: Vec<String>) -> bool {
        self.reason = format!("{what}: {}", nodes.join(", "));
        self.missing = nodes;
        false
    }

    /// The nodes without a cable.
    fn unplugged(&mut self) -> Result<Vec<String>, Failure> {
        let links = self.control.links();
        let (links, _) = links.map_err(|error| Failure::failed(error.to_string()))?;
        // Frames of domains of a PC go by its own cable.
        let with_cables = self.record.nodes.iter().filter(|node| !self.record.is_in_pc(node));
        let names = with_cables.map(|node| node.name());
        let is_up = |name: &String| links.iter().any(|link| link.name == *name && link.up);
        Ok(names.filter(|name| !is_up(name)).collect())
    }
}

/// Whether a peer has heard of a node since it was started last: a network core that restarts takes
/// the generation after that one.
fn has_begun(record: &Record, peer: &Peer, node: NodeId) -> bool {
    let started = record.nodes.iter().find(|it| it.node() == node).map_or(0, |it| it.generation);
    peer.known().member(node).is_some_and(|it| it.generation.0 >= started)
}

/// Whether it knows all cores of the node besides, and can ask it.
fn is_heard(record: &Record, peer: &Peer, node: NodeId) -> bool {
    let started = record.nodes.iter().find(|it| it.node() == node);
    let cores = started.map_or(0, |it| record.cores_of(it));
    has_begun(record, peer, node)
        && known::cores(peer.known(), node).len() == usize::from(cores)
        && members::target(peer, node).is_some()
}

/// Whether each core of a node has published the last of what all cores have: they publish in the
/// order of names, and what else a core has comes right after that. A node that is to have only
/// some services may have none of it.
fn has_published(peer: &Peer, node: NodeId) -> bool {
    let gossip = peer.known();
    let last = || known::named(gossip, node, VirtualMemoryClient::INTERFACE.name);
    let has = |core: u16| last().any(|target| target.core == CoreId(core));
    known::cores(gossip, node).iter().all(|it| has(it.core))
}
