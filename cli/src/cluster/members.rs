//! What nodes say about the members of their cluster: each knows for certain what it has itself,
//! and tells how much of the others it has heard.

use std::collections::BTreeMap;
use std::time::Duration;

use nile_abi::NodeId;
use serde_json::Value;

use super::reply;
use crate::failure::Failure;
use crate::peer::Peer;
use crate::peer::call::Call;
use crate::peer::known::{self, Target};

/// The service that says whom a node knows, and its method.
const SERVICE: &str = "gossip";
const METHOD: &str = "members";

/// The members that live, as one of them sees it: of each its generation, and which version of
/// its directory is held there.
pub type View = BTreeMap<NodeId, (u64, u64)>;

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
    let targets: Vec<Target> = nodes.iter().filter_map(|node| target(peer, *node)).collect();
    // All nodes have the same image's service: one schema serves for all.
    let asked: Vec<Call> = targets.iter().copied().map(Call::discover).collect();
    let schema = peer.calls(&asked, patience)?.into_iter().find_map(Result::ok);
    let Some(schema) = schema else { return Ok(BTreeMap::new()) };
    let call = |target: &Target| reply::plain_call(&schema, *target, METHOD, &[]);
    let calls: Vec<Call> = targets.iter().filter_map(call).collect();
    let ends = peer.calls(&calls, patience)?;
    let seen = calls.iter().zip(ends).filter_map(|(call, end)| {
        let members = reply::to_json(&schema, METHOD, &end.ok()?)?;
        Some((call.target.node, view(&members["members"])))
    });
    Ok(seen.collect())
}

fn view(members: &Value) -> View {
    let members = members.as_array().into_iter().flatten();
    let living = members.filter(|member| member["state"] == "alive");
    let entry = |member: &Value| {
        let number = |value: &Value| value.as_u64();
        let node = u32::try_from(number(&member["identity"]["node"])?).ok()?;
        let generation = number(&member["identity"]["generation"])?;
        Some((NodeId(node), (generation, number(&member["version"])?)))
    };
    living.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_living_are_seen() {
        let member = |node: u32, state: &str| {
            let identity = json!({ "node": node, "generation": 7 });
            json!({ "identity": identity, "state": state, "version": 3 })
        };
        let members = json!([member(1, "alive"), member(2, "down"), { "state": "alive" }]);
        assert_eq!(view(&members), View::from([(NodeId(1), (7, 3))]));
    }
}
