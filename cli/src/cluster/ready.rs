//! Waiting until a cluster, or a node that was started anew, is up: its cables are plugged in, it
//! knows all others and all that they have, and they know it.

use std::collections::BTreeMap;
use std::time::Duration;

use nile_abi::NodeId;

use super::folder::{Folder, Record};
use super::members::{self, View};
use crate::failure::Failure;
use crate::peer::{Peer, known};
use crate::switch::control::Client;

/// How often it is looked.
pub const LOOK: Duration = Duration::from_millis(20);

/// How long a node may take to say whom it knows, before it is asked again.
const PATIENCE: Duration = Duration::from_millis(500);

/// What has to come about.
pub struct Waiting<'c> {
    record: &'c Record,
    peer: Peer,
    control: Client,
    /// Whether all cables are plugged in.
    plugged: bool,
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
        let (plugged, last) = (false, BTreeMap::new());
        Ok(Waiting { record, peer, control, plugged, last, reason, missing })
    }

    /// Why it is not up.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The nodes that are not.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Whether it has come about. Takes a moment.
    pub fn look(&mut self) -> Result<bool, Failure> {
        self.peer.until(LOOK, |_| false)?;
        if !self.plugged {
            let unplugged = self.unplugged()?;
            self.plugged = unplugged.is_empty();
            if !self.plugged {
                return Ok(self.blame("not on the network", unplugged));
            }
        }
        let nodes: Vec<NodeId> = self.record.nodes.iter().map(|it| it.node()).collect();
        let names = |nodes: Vec<&NodeId>| nodes.into_iter().map(NodeId::to_string).collect();
        let silent: Vec<&NodeId> = nodes.iter().filter(|node| !self.is_heard(**node)).collect();
        if !silent.is_empty() {
            return Ok(self.blame("not heard of, or not wholly", names(silent)));
        }
        let views = members::views(&mut self.peer, &nodes, PATIENCE)?;
        let silent: Vec<&NodeId> = nodes.iter().filter(|it| !views.contains_key(it)).collect();
        if !silent.is_empty() {
            return Ok(self.blame("no answer from", names(silent)));
        }
        // What a node says of itself is so.
        let own = |node: &NodeId| views.get(node).and_then(|view| view.living.get(node));
        let sees = |view: &View| {
            nodes.iter().all(|it| own(it).is_some() && view.living.get(it) == own(it))
        };
        let ignorant = views.iter().filter(|(_, view)| !sees(view)).map(|(node, _)| node);
        let ignorant: Vec<&NodeId> = ignorant.collect();
        if !ignorant.is_empty() {
            return Ok(self.blame("do not know all others", names(ignorant)));
        }
        let is_still = views == self.last;
        self.last = views;
        Ok(is_still || self.blame("still publishing", Vec::new()))
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

    /// Whether this peer knows all cores of a node, in the generation that it was started with
    /// last or one after that: a network core that restarts takes the next.
    fn is_heard(&self, node: NodeId) -> bool {
        let gossip = self.peer.known();
        let started = self.record.nodes.iter().find(|it| it.node() == node);
        let cores = started.map_or(0, |it| self.record.cores_of(it));
        let started = started.map_or(0, |it| it.generation);
        gossip.member(node).is_some_and(|it| it.generation.0 >= started)
            && known::cores(gossip, node).len() == usize::from(cores)
            && members::target(&self.peer, node).is_some()
    }
}
