//! What other nodes have: put into this node's registry, and taken out of it again.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use core::task::Poll;
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_gossip::{Event, Gossip, Instance, Keyword, State};
use nile_stl::{At, CallError, CallResult, Stl};

use super::era::{Ends, Shared, begin_anew, insist};
use crate::missed::Missed;
use crate::{ALL, cluster};
use nile_interfaces::network::{Identity, NetworkClient};
use nile_interfaces::registry::{NamedValue, Publication, RegistryClient, Weighted};

/// How long until a node that could not be asked is asked again.
const AGAIN: Duration = Duration::from_millis(20);

/// Tells the registry what gossip has heard, in order.
pub async fn tell(stl: &Stl, shared: &Rc<Shared>, network: &NetworkClient) -> Ends {
    let registry = RegistryClient::find(stl).await?;
    loop {
        let next = shared.news.borrow_mut().pop_front();
        let Some(event) = next else {
            shared.teller.wait(stl, None, |_| Poll::Pending).await;
            continue;
        };
        match event {
            Event::NodeDown { node, generation } => {
                stl.host().log(format_args!("{node} {generation} is gone"));
                registry.forget_node(node.0).await?;
                insist(stl, || network.peer_down(identity(node, generation))).await?;
            }
            Event::NodeRestarted { node, old, generation } => {
                stl.host().log(format_args!("{node} {old} is gone; it is {generation} now"));
                registry.forget_node(node.0).await?;
                insist(stl, || network.peer_down(identity(node, old))).await?;
            }
            Event::NodeUp { node, generation } => {
                stl.host().log(format_args!("{node} {generation} is in the cluster"));
                insist(stl, || network.peer_up(identity(node, generation))).await?;
                meets(stl, node);
            }
            Event::Published { node, instance } | Event::Moved { node, instance } => {
                let member = shared.with(|gossip| gossip.member(node))?;
                let Some(generation) = member.map(|it| it.generation) else { continue };
                let at = Instanced { node, generation, instance };
                if ALL.into_iter().any(|known| known.name() == at.instance.name) {
                    let learned = registry.learn(node.0, at.instance.core, at.publication()).await;
                    at.tell_failure(stl, learned);
                } else {
                    // What it is takes time to ask; what else there is to tell does not wait.
                    let (stl, shared) = (stl.clone(), shared.clone());
                    stl.host().clone().spawn(Box::pin(async move {
                        let learned = ask(&stl, &shared, &at).await;
                        at.tell_failure(&stl, learned);
                    }));
                }
            }
            Event::Unpublished { node, instance } => {
                registry.unlearn(node.0, instance.number).await?;
            }
            Event::Namesake { generation, keeps } => {
                let number = insist(stl, || network.identity()).await?.node;
                let namesake = shared.namesake.borrow().clone();
                let address = namesake.map_or_else(String::new, |it| it.address.to_string());
                let other = format!("another node is n{number}, {generation} at {address}");
                if keeps {
                    stl.host().log(format_args!(
                        "{other}: it was there first, so this one gives up; give it another id"
                    ));
                    return give_up(stl, shared, network, &registry).await;
                }
                stl.host().log(format_args!(
                    "{other}: this one was there first; the other one has to have another id"
                ));
            }
            Event::GenerationTaken { generation } => {
                return begin_anew(stl, network, generation).await;
            }
            Event::NodeTrusted { node, .. } => meets(stl, node),
            Event::Denied => Missed::of(stl).tell(),
            Event::NodeSuspect { .. } | Event::CoreChanged { .. } => {}
        }
    }
}

/// A node is there, again maybe. Of those who keep names one that was away may have decided
/// something meanwhile, or this node was.
fn meets(stl: &Stl, node: NodeId) {
    if cluster::member(stl).is_some_and(|own| own.keepers.contains(&node)) {
        Missed::of(stl).tell();
    }
}

fn identity(node: NodeId, generation: Generation) -> Identity {
    Identity { node: node.0, generation: generation.0 }
}

/// Ends all that this node has to do with the cluster, in which another one has its number, and
/// then the node.
async fn give_up(
    stl: &Stl,
    shared: &Shared,
    network: &NetworkClient,
    registry: &RegistryClient,
) -> Ends {
    shared.has_given_up.set(true);
    insist(stl, || network.retire()).await?;
    registry.forget_others().await?;
    stl.node()?.give_up();
    Err(CallError::new(Status::Exists, "another node has this one's number"))
}

/// An instance on another node.
struct Instanced {
    node: NodeId,
    generation: Generation,
    instance: Instance,
}

impl Instanced {
    /// What gossip tells of it, which is enough if this image has the service.
    fn publication(&self) -> Publication {
        let Instanced { generation, instance, .. } = self;
        let keywords = instance.keywords.iter();
        let attributes = instance.attributes.iter();
        let weighted = |it: &Keyword| Weighted { word: it.word.clone(), weight: it.weight };
        Publication {
            name: instance.name.clone(),
            subsystem: instance.subsystem.clone(),
            capability: instance.capability.clone(),
            layer: instance.layer,
            keywords: keywords.map(weighted).collect(),
            attributes: attributes.map(|it| NamedValue::written(&it.name, &it.value)).collect(),
            generation: generation.0,
            number: instance.number,
            ..Publication::default()
        }
    }

    /// What one node says wrongly of itself is no reason to forget all the others.
    fn tell_failure(&self, stl: &Stl, learned: CallResult<()>) {
        if let Err(error) = learned {
            let (node, name) = (self.node, &self.instance.name);
            stl.host().log(format_args!("{name} of {node} cannot be used: {error}"));
        }
    }

    /// Whether it is still there, as far as gossip knows.
    fn is_there(&self, gossip: &Gossip) -> bool {
        let lives = gossip
            .member(self.node)
            .is_some_and(|it| it.generation == self.generation && it.state != State::Down);
        let number = self.instance.number;
        let mut known = gossip.directory(self.node).into_iter().flat_map(|it| it.instances());
        lives && known.any(|it| it.number == number && it.name == self.instance.name)
    }
}

/// Asks the registry of an instance's node what it is, and tells this one's.
async fn ask(stl: &Stl, shared: &Shared, it: &Instanced) -> CallResult<()> {
    let (node, Instance { core, number, name, .. }) = (it.node, &it.instance);
    let there = At { node, core: CoreId::BOOT };
    let publication = loop {
        if !shared.with(|gossip| it.is_there(gossip))? {
            return Ok(());
        }
        // It may not be known yet, or not reached.
        match RegistryClient::find_at(stl, there).await {
            Ok(theirs) => match theirs.publication(*core, name).await {
                Ok(publication) => break publication,
                Err(error) if error.status == Status::NotFound => return Err(error),
                Err(_) => {}
            },
            Err(error) if error.status != Status::NotFound => return Err(error),
            Err(_) => {}
        }
        stl.host().pause(AGAIN).await;
    };
    let (generation, number) = (it.generation.0, *number);
    let publication = Publication { generation, number, ..publication };
    RegistryClient::find(stl).await?.learn(node.0, *core, publication).await
}
