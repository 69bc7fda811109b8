//! What nodes say about the members of their cluster: each knows for certain what it has itself,
//! and tells how much of the others it has heard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::NodeId;
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
    let said = say(peer, nodes, METHOD, patience)?;
    Ok(said.into_iter().map(|(node, said)| (node, view(&said["members"]))).collect())
}

/// The other nodes that have the number of one of `nodes`, as that one says it: where the frames of
/// one come from.
pub fn namesakes(
    peer: &mut Peer,
    nodes: &[NodeId],
    patience: Duration,
) -> Result<BTreeMap<NodeId, String>, Failure> {
    let said = say(peer, nodes, NAMESAKES, patience)?.into_iter();
    let address = |said: &Value| Some(said["namesakes"][0]["address"].as_str()?.to_string());
    Ok(said.filter_map(|(node, said)| Some((node, address(&said)?))).collect())
}

/// What a method of `nodes` replies that takes no parameters.
fn say(
    peer: &mut Peer,
    nodes: &[NodeId],
    method: &str,
    patience: Duration,
) -> Result<BTreeMap<NodeId, Value>, Failure> {
    let targets: Vec<Target> = nodes.iter().filter_map(|node| target(peer, *node)).collect();
    // All nodes have the same image's service: one schema serves for all.
    let asked: Vec<Call> = targets.iter().copied().map(Call::discover).collect();
    let schema = peer.calls(&asked, patience)?.into_iter().find_map(Result::ok);
    let Some(schema) = schema else { return Ok(BTreeMap::new()) };
    let call = |target: &Target| reply::plain_call(&schema, *target, method, &[]);
    let calls: Vec<Call> = targets.iter().filter_map(call).collect();
    let ends = peer.calls(&calls, patience)?;
    let seen = calls.iter().zip(ends).filter_map(|(call, end)| {
        Some((call.target.node, reply::to_json(&schema, method, &end.ok()?)?))
    });
    Ok(seen.collect())
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
