//! What nodes say about the members of their cluster: each knows for certain what it has itself,
//! and tells how much of the others it has heard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::NodeId;
use nile_interfaces::gossip::MOST_MEMBERS;
use serde_json::Value;

use super::reply;
use crate::failure::Failure;
use crate::peer::Peer;
use crate::peer::call::Call;
use crate::peer::known::{self, Target};

/// The service that says whom a node knows, its method, and that for others of its number.
const SERVICE: &str = "gossip";
const METHOD: &str = "members";
const NAMESAKES: &str = "namesakes";

/// The members as one of them sees them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// Of each that lives its generation, and which version of its directory is held there.
    pub living: BTreeMap<NodeId, (u64, u64)>,
    /// Those that are held for dead.
    pub dead: BTreeSet<NodeId>,
}

impl View {
    fn extend(&mut self, more: View) {
        self.living.extend(more.living);
        self.dead.extend(more.dead);
    }
}

/// Where a node can be asked, once so much is known of it.
pub fn target(peer: &Peer, node: NodeId) -> Option<Target> {
    known::on_node(peer.known(), node, SERVICE)
}

/// What each of `nodes` sees. Those that do not answer within `patience` are left out.
pub fn views(
    peer: &mut Peer,
    nodes: &[NodeId],
    patience: Duration,
) -> Result<BTreeMap<NodeId, View>, Failure> {
    let targets = targets(peer, nodes);
    let Some(schema) = schema(peer, &targets, patience)? else { return Ok(BTreeMap::new()) };
    let mut seen: BTreeMap<NodeId, View> = BTreeMap::new();
    // Whom to ask, and behind which member.
    let mut left: Vec<(Target, u64)> = targets.into_iter().map(|target| (target, 0)).collect();
    while !left.is_empty() {
        let call = |(target, after): &(Target, u64)| {
            reply::plain_call(&schema, *target, METHOD, &[("after", after.to_string())])
        };
        let calls: Vec<Call> = left.drain(..).filter_map(|it| call(&it)).collect();
        let ends = peer.calls(&calls, patience)?;
        for (call, end) in calls.iter().zip(ends) {
            let node = call.target.node;
            let reply = end.ok().and_then(|end| reply::to_json(&schema, METHOD, &end));
            // Half a view is none.
            let Some(reply) = reply else {
                seen.remove(&node);
                continue;
            };
            let members = &reply["members"];
            seen.entry(node).or_default().extend(view(members));
            let page = members.as_array().map_or(&[][..], Vec::as_slice);
            if let (MOST_MEMBERS, Some(last)) = (page.len(), page.last()) {
                left.extend(last["identity"]["node"].as_u64().map(|last| (call.target, last)));
            }
        }
    }
    Ok(seen)
}

/// The other nodes that have the number of one of `nodes`, as that one says it: where the frames of
/// one come from.
pub fn namesakes(
    peer: &mut Peer,
    nodes: &[NodeId],
    patience: Duration,
) -> Result<BTreeMap<NodeId, String>, Failure> {
    let targets = targets(peer, nodes);
    let Some(schema) = schema(peer, &targets, patience)? else { return Ok(BTreeMap::new()) };
    let call = |target: &Target| reply::plain_call(&schema, *target, NAMESAKES, &[]);
    let calls: Vec<Call> = targets.iter().filter_map(call).collect();
    let ends = peer.calls(&calls, patience)?;
    let seen = calls.iter().zip(ends).filter_map(|(call, end)| {
        let said = reply::to_json(&schema, NAMESAKES, &end.ok()?)?;
        let address = said["namesakes"][0]["address"].as_str()?.to_string();
        Some((call.target.node, address))
    });
    Ok(seen.collect())
}

fn targets(peer: &Peer, nodes: &[NodeId]) -> Vec<Target> {
    nodes.iter().filter_map(|node| target(peer, *node)).collect()
}

/// All nodes have the same image's service: one schema serves for all.
fn schema(
    peer: &mut Peer,
    targets: &[Target],
    patience: Duration,
) -> Result<Option<String>, Failure> {
    let asked: Vec<Call> = targets.iter().copied().map(Call::discover).collect();
    Ok(peer.calls(&asked, patience)?.into_iter().find_map(Result::ok))
}

fn view(members: &Value) -> View {
    let mut view = View::default();
    for member in members.as_array().into_iter().flatten() {
        let number = |value: &Value| value.as_u64();
        let identity = &member["identity"];
        let node = number(&identity["node"]).and_then(|node| u32::try_from(node).ok());
        let held = number(&identity["generation"]).zip(number(&member["version"]));
        match (member["state"].as_str(), node.map(NodeId), held) {
            (Some("alive"), Some(node), Some(held)) => drop(view.living.insert(node, held)),
            (Some("down"), Some(node), _) => drop(view.dead.insert(node)),
            _ => {}
        }
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_living_and_the_dead_are_told_apart() {
        let member = |node: u32, state: &str| {
            let identity = json!({ "node": node, "generation": 7 });
            json!({ "identity": identity, "state": state, "version": 3 })
        };
        let members = json!([member(1, "alive"), member(2, "down"), { "state": "alive" }]);
        let living = BTreeMap::from([(NodeId(1), (7, 3))]);
        assert_eq!(view(&members), View { living, dead: BTreeSet::from([NodeId(2)]) });
    }
}
