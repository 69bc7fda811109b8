//! What the cluster has, as gossip told it.

use nile_abi::{CoreId, Generation, NodeId};
use nile_gossip::{Core, Gossip, Instance, Member, State};

/// Where a call goes: an instance by the number that its node exports it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub generation: Generation,
    /// The core that runs the instance.
    pub core: CoreId,
    /// The instance's number.
    pub number: u16,
}

impl Target {
    /// The core, as people write it.
    pub fn place(&self) -> String {
        format!("{}.{}", self.node, self.core)
    }
}

/// The members that are not down, in the order of their numbers.
pub fn living(gossip: &Gossip) -> impl Iterator<Item = Member> {
    gossip.members().filter(|member| member.state != State::Down)
}

/// Every instance on a node that is not down, by node, core and name.
pub fn instances(gossip: &Gossip) -> Vec<(Target, &Instance)> {
    let mut all: Vec<(Target, &Instance)> = Vec::new();
    for Member { node, generation, .. } in living(gossip) {
        let instances = gossip.directory(node).into_iter().flat_map(|it| it.instances());
        all.extend(instances.map(|instance| {
            let (core, number) = (CoreId(instance.core), instance.number);
            (Target { node, generation, core, number }, instance)
        }));
    }
    all.sort_by(|(one, its), (other, theirs)| {
        (one.node, one.core, &its.name).cmp(&(other.node, other.core, &theirs.name))
    });
    all
}

/// The instance `name` of a node, on the lowest of the cores that have it.
pub fn on_node(gossip: &Gossip, node: NodeId, name: &str) -> Option<Target> {
    let mut all = instances(gossip).into_iter();
    all.find(|(target, it)| target.node == node && it.name == name).map(|(target, _)| target)
}

/// The cores of a node, without those that it no longer has.
pub fn cores(gossip: &Gossip, node: NodeId) -> Vec<Core> {
    let cores = gossip.directory(node).into_iter().flat_map(|it| it.cores());
    cores.filter(|core| core.roles != 0).cloned().collect()
}
