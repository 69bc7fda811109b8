//! A command that looks at a running cluster: its folder, and a peer on its network that has
//! learned what all nodes have that can be heard.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nile_abi::NodeId;
use nile_gossip::State;

use super::args::Which;
use super::folder::{Folder, Record};
use super::turns::Doubts;
use super::{members, network, process};
use crate::domain::carry;
use crate::failure::Failure;
use crate::peer::Peer;

/// How long a node may take to say whom it knows.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a node is waited for at least that has tried all patience.
const LEAST: Duration = Duration::from_millis(200);

/// A command's place in a cluster.
pub struct Session {
    pub folder: Folder,
    pub record: Record,
    pub peer: Peer,
    /// How long calls wait.
    pub patience: Duration,
    /// When it began.
    begun: Instant,
    /// Those that have not answered since it began.
    pub doubts: Doubts,
    /// The nodes that others held for dead when the session began.
    dead: BTreeSet<NodeId>,
}

impl Session {
    /// Takes a place in the cluster that is meant. Waits for what its nodes have, for at most
    /// `patience`.
    pub fn open(which: &Which, patience: Duration) -> Result<Session, Failure> {
        let (folder, record) = Folder::open(which)?;
        Failure::at_signals()?;
        let peer = Peer::join(&folder, &record)?;
        let mut session = Session {
            folder,
            record,
            peer,
            patience,
            begun: Instant::now(),
            doubts: Doubts::default(),
            dead: BTreeSet::new(),
        };
        session.learn(patience)?;
        let hears = |node: &NodeId| session.peer.known().member(*node).is_some();
        let running = session.running();
        if !running.is_empty() && !running.iter().any(hears) {
            // None of them is heard: that is nobody's fault but the switch's, if it hangs.
            network::check(&session.folder)?;
        }
        Ok(session)
    }

    /// What is left of the patience with a node that has not answered since the session began.
    pub fn patience_left(&self) -> Duration {
        self.patience.saturating_sub(self.begun.elapsed()).max(LEAST)
    }

    /// Waits, for at most `patience`, until all is known that the nodes whose processes run have
    /// told each other. One that they hold for dead is not waited for.
    fn learn(&mut self, patience: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        let running = self.running();
        let is_down = |peer: &Peer, node: NodeId| {
            peer.known().member(node).is_some_and(|member| member.state == State::Down)
        };
        let can_be_asked = |peer: &Peer, node| members::target(peer, node).is_some();
        let is_settled = |peer: &Peer, node| can_be_asked(peer, node) || is_down(peer, node);
        // One that stands still is told of by nobody once it is held for dead.
        self.peer
            .until(left().min(ANSWER), |peer| running.iter().all(|node| is_settled(peer, *node)))?;
        let nodes: Vec<NodeId> = running.iter().copied().collect();
        let views = members::views(&mut self.peer, &nodes, left().min(ANSWER))?;
        let is_dead = |node: &NodeId| views.values().any(|view| view.dead.contains(node));
        self.peer.until(left(), |peer| {
            running.iter().all(|node| is_settled(peer, *node) || is_dead(node))
        })?;
        let own = self.record.nodes.iter().map(|node| node.node());
        own.filter(|node| !views.contains_key(node)).for_each(|node| self.doubts.add(node));
        let told = views.values().flat_map(|view| &view.living);
        let told: Vec<_> = told.map(|(node, seen)| (*node, *seen)).collect();
        self.peer.until(left(), |peer| {
            told.iter().all(|(node, seen)| {
                let held = peer.known().member(*node);
                let held = held.map(|it| (it.generation.0, it.version));
                held >= Some(*seen) || is_down(peer, *node)
            })
        })?;
        self.dead = views.into_values().flat_map(|view| view.dead).collect();
        Ok(())
    }

    /// The nodes that cannot be asked now: of this cluster's own those that do not run or are not
    /// heard of, and of other machines' those that are held for dead.
    pub fn away(&self) -> BTreeSet<NodeId> {
        let running = self.running();
        let own = self.record.nodes.iter().map(|node| node.node());
        let gossip = self.peer.known();
        let lives =
            |node: &NodeId| gossip.member(*node).is_some_and(|member| member.state != State::Down);
        let own_away = own.clone().filter(|node| !running.contains(node) || !lives(node));
        let elsewhere = self.elsewhere().into_iter().filter(|node| !lives(node));
        own_away.chain(elsewhere).collect()
    }

    /// The nodes of other machines that this cluster has or had, as far as its own remember. What
    /// was a domain of its own machine, and has been destroyed, is none.
    pub fn elsewhere(&self) -> BTreeSet<NodeId> {
        let lives =
            |node: NodeId| self.peer.known().member(node).is_some_and(|it| it.state != State::Down);
        let was_domain =
            |node: &NodeId| self.record.shared.is_some() && carry::is_place(*node) && !lives(*node);
        let known = self.peer.known().members().map(|member| member.node);
        let is_own = |node: &NodeId| self.record.nodes.iter().any(|it| it.node() == *node);
        let all = known.chain(self.dead.iter().copied());
        all.filter(|node| !is_own(node) && !was_domain(node)).collect()
    }

    /// Whether a node whose process runs is held for dead, or was since the session began: it may
    /// have been cut off, and is back as soon as others have heard it.
    pub fn holds_any_for_dead(&self) -> bool {
        let gossip = self.peer.known();
        let is_held = |node: &NodeId| {
            let is_down = gossip.member(*node).is_none_or(|it| it.state == State::Down);
            is_down || self.doubts.has(*node) || self.dead.contains(node)
        };
        self.running().iter().any(is_held)
    }

    /// The nodes whose processes run.
    pub fn running(&self) -> BTreeSet<NodeId> {
        let parts: BTreeSet<String> =
            process::all(self.folder.path()).into_iter().map(|process| process.part).collect();
        let nodes = self.record.nodes.iter();
        nodes
            .filter(|node| parts.contains(&self.record.part_of(node)))
            .map(|node| node.node())
            .collect()
    }
}
