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
    let mut all: Vec<(Target, &Instance)> =
        living(gossip).flat_map(|member| of(gossip, member)).collect();
    all.sort_by(|(one, its), (other, theirs)| {
        (one.node, one.core, &its.name).cmp(&(other.node, other.core, &theirs.name))
    });
    all
}

/// Those of one member, in no order that means anything.
fn of(gossip: &Gossip, member: Member) -> impl Iterator<Item = (Target, &Instance)> {
    let Member { node, generation, .. } = member;
    let instances = gossip.directory(node).into_iter().flat_map(|it| it.instances());
    instances.map(move |instance| {
        let (core, number) = (CoreId(instance.core), instance.number);
        (Target { node, generation, core, number }, instance)
    })
}

/// The instances `name` of a node that is not down, one for each core that has it.
pub fn named<'g>(
    gossip: &'g Gossip,
    node: NodeId,
    name: &'g str,
) -> impl Iterator<Item = Target> + 'g {
    let member = gossip.member(node).filter(|member| member.state != State::Down);
    let all = member.into_iter().flat_map(|member| of(gossip, member));
    all.filter(move |(_, instance)| instance.name == name).map(|(target, _)| target)
}

/// The instance `name` of a node, on the lowest of the cores that have it.
pub fn on_node(gossip: &Gossip, node: NodeId, name: &str) -> Option<Target> {
    named(gossip, node, name).min_by_key(|target| target.core)
}

/// The cores of a node, without those that it no longer has.
pub fn cores(gossip: &Gossip, node: NodeId) -> Vec<Core> {
    let cores = gossip.directory(node).into_iter().flat_map(|it| it.cores());
    cores.filter(|core| core.roles != 0).cloned().collect()
}
