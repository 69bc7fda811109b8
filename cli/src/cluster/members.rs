//! What nodes say about the members of their cluster: each knows for certain what it has itself,
//! and tells how much of the others it has heard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::NodeId;
use nile_interfaces::gossip::{GossipClient, MemberEntry, MemberState};
use nile_stl::{CallResult, Client, all};

use crate::failure::Failure;
use crate::peer::Peer;
use crate::peer::known::{self, Target};

/// The members as one of them sees them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// Of each that lives its generation, and which version of its directory is held there.
    pub living: BTreeMap<NodeId, (u32, u32)>,
    /// Those that are held for dead.
    pub dead: BTreeSet<NodeId>,
}

/// Where a node can be asked, once so much is known of it.
pub fn target(peer: &Peer, node: NodeId) -> Option<Target> {
    known::on_node(peer.known(), node, GossipClient::INTERFACE.name)
}

/// What each of `nodes` sees. Those that do not answer within `patience` are left out: half a view
/// is none.
pub fn views(
    peer: &mut Peer,
    nodes: &[NodeId],
    patience: Duration,
) -> Result<BTreeMap<NodeId, View>, Failure> {
    let told = ask(peer, nodes, patience, async |gossip| gossip.everyone().await)?;
    Ok(told.into_iter().map(|(node, members)| (node, view(&members))).collect())
}

/// The other nodes that have the number of one of `nodes`, as that one says it: where the frames of
/// one come from.
pub fn namesakes(
    peer: &mut Peer,
    nodes: &[NodeId],
    patience: Duration,
) -> Result<BTreeMap<NodeId, String>, Failure> {
    let told = ask(peer, nodes, patience, async |gossip| gossip.namesakes().await)?;
    let first = told.into_iter().map(|(node, all)| Some((node, all.into_iter().next()?.address)));
    Ok(first.flatten().collect())
}

/// What `nodes` answer, all asked at once; without those that do not, or are of another version.
fn ask<T>(
    peer: &mut Peer,
    nodes: &[NodeId],
    patience: Duration,
    question: impl AsyncFn(GossipClient) -> CallResult<T>,
) -> Result<BTreeMap<NodeId, T>, Failure> {
    let mut targets: Vec<Target> = nodes.iter().filter_map(|node| target(peer, *node)).collect();
    let mut checked = peer.check::<GossipClient>(&targets, patience)?.into_iter();
    targets.retain(|_| checked.next().is_some_and(|it| it.is_ok()));
    let told = peer.work(patience, async |clients| {
        all(targets.iter().map(|target| question(clients.at(*target)))).await
    })?;
    let answers = targets.iter().zip(told);
    Ok(answers.filter_map(|(target, told)| Some((target.node, told.ok()?))).collect())
}

fn view(members: &[MemberEntry]) -> View {
    let mut view = View::default();
    for MemberEntry { identity, state, version } in members {
        let node = NodeId(identity.node);
        match state {
            MemberState::Alive => drop(view.living.insert(node, (identity.generation, *version))),
            MemberState::Suspect => {}
            MemberState::Down => drop(view.dead.insert(node)),
        }
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_interfaces::network::Identity;

    #[test]
    fn the_living_and_the_dead_are_told_apart() {
        let member = |node, state| {
            let identity = Identity { node, generation: 7 };
            MemberEntry { identity, state, version: 3 }
        };
        let states = [MemberState::Alive, MemberState::Down, MemberState::Suspect];
        let members: Vec<MemberEntry> = (1..).zip(states).map(|it| member(it.0, it.1)).collect();
        let living = BTreeMap::from([(NodeId(1), (7, 3))]);
        assert_eq!(view(&members), View { living, dead: BTreeSet::from([NodeId(2)]) });
    }
}
