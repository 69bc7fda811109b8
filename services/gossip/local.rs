//! What this node has: its cores and instances, read from the registry, exported by the network
//! core, and put into the directory that all other nodes get.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_abi::CoreId;
use nile_gossip::{Attribute, Core, Gossip, Instance, Keyword, Update};
use nile_order::SortedMap;
use nile_registry::EXPELLED;
use nile_stl::{CallResult, Stl};

use super::era::{Ends, Shared, insist, patiently};
use nile_interfaces::network::NetworkClient;
use nile_interfaces::registry::{Found, Local, RegistryClient};

/// What this node has told.
#[derive(Default)]
pub struct Exported {
    /// The number of each instance for other nodes, by its place here, and why it was expelled.
    numbers: SortedMap<(u16, u32, u16), (u16, Option<String>)>,
    /// Each core's incarnation and roles.
    cores: SortedMap<u16, (u32, u8)>,
}

fn key(found: &Found) -> (u16, u32, u16) {
    (found.core, found.generation, found.number)
}

/// Tells whatever changes, as it does.
pub async fn publish(
    stl: &Stl,
    shared: &Shared,
    network: &NetworkClient,
    mut exported: Exported,
) -> Ends {
    let registry = RegistryClient::find(stl).await?;
    let watcher = match shared.watcher.get() {
        Some(watcher) => watcher,
        None => registry.watch("").await?,
    };
    shared.watcher.set(Some(watcher));
    loop {
        let updates = changes(stl, &registry, network, &mut exported).await?;
        shared.with(|gossip| apply(stl, gossip, updates))?;
        shared.pump();
        // Until something on this node has changed: what others have comes from here.
        loop {
            let changes = patiently(registry.changes(watcher)).await?.unwrap_or_default();
            if changes.iter().any(|it| it.concerned().is_none_or(|it| it.node == 0)) {
                break;
            }
        }
    }
}

/// Brings the directory up to date, before it is told for the first time.
pub async fn update(
    stl: &Stl,
    network: &NetworkClient,
    gossip: &mut Gossip,
    exported: &mut Exported,
) -> CallResult<()> {
    let registry = RegistryClient::find(stl).await?;
    let updates = changes(stl, &registry, network, exported).await?;
    apply(stl, gossip, updates);
    Ok(())
}

fn apply(stl: &Stl, gossip: &mut Gossip, updates: Vec<Update>) {
    for update in updates {
        if let Err(error) = gossip.set_local(update) {
            stl.host().log(format_args!("other nodes are not told: {error}"));
        }
    }
}

/// How the node differs from what it has told.
async fn changes(
    stl: &Stl,
    registry: &RegistryClient,
    network: &NetworkClient,
    exported: &mut Exported,
) -> CallResult<Vec<Update>> {
    let mut updates = cores(stl, exported)?;
    let present = registry.local_all().await?;
    let is_gone = |place: &(u16, u32, u16)| !present.iter().any(|it| key(&it.found) == *place);
    for (_, (number, _)) in exported.numbers.extract(|place, _| is_gone(place)) {
        insist(stl, || network.withdraw(number)).await?;
        updates.push(Update::Unpublish(number));
    }
    for local in present {
        let Found { core, generation, number, .. } = local.found;
        let place = key(&local.found);
        let expelled = local.attributes.iter().find(|it| it.name == EXPELLED);
        let expelled = expelled.map(|it| it.value.to_string());
        let told = exported.numbers.get(&place);
        if told.is_some_and(|(_, said)| *said == expelled) {
            continue;
        }
        let exports = match told {
            Some((exports, _)) => *exports,
            None => insist(stl, || network.export(core, generation, number)).await?,
        };
        exported.numbers.insert(place, (exports, expelled));
        updates.push(Update::Publish(instance(local, exports)));
    }
    Ok(updates)
}

/// Cores that are new, or have restarted.
fn cores(stl: &Stl, exported: &mut Exported) -> CallResult<Vec<Update>> {
    let node = stl.node()?;
    let mut updates = Vec::new();
    for core in (0..stl.host().cores()).map(|core| core as u16) {
        let Some(state) = node.state_of(CoreId(core)) else { continue };
        let (generation, roles) = (state.generation.0, state.roles.bits());
        if exported.cores.insert(core, (generation, roles)) != Some((generation, roles)) {
            updates.push(Update::Core(Core { core, generation, roles, changed: 0 }));
        }
    }
    Ok(updates)
}

fn instance(local: Local, number: u16) -> Instance {
    let keywords = local.keywords.into_iter();
    let attributes = local.attributes.into_iter();
    Instance {
        number,
        core: local.found.core,
        generation: local.found.generation,
        name: local.name,
        type_name: local.type_name,
        subsystem: local.subsystem,
        capability: local.capability,
        layer: local.layer,
        extends: local.extends,
        keywords: keywords.map(|it| Keyword { word: it.word, weight: it.weight }).collect(),
        attributes: attributes
            .map(|it| Attribute { name: it.name, value: it.value.to_string() })
            .collect(),
        changed: 0,
    }
}
