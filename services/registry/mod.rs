//! The registry of a node, as a service on its management core: Dhara's publish, find and bind
//! (III.C) for every core.
//!
//! * `state`: the registry and where the instances are.
//! * `described`: what was published, as the registry has it.
//! * `observed`: how instances were found to serve.

mod described;
mod observed;
mod state;

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use nile_stl::{At, CallError, CallResult, Caller, Place, Start, Stl, service};

pub use described::publication;
use nile_interfaces::registry::{
    Asker, Binding, Change, Found, Listed, Local, NamedValue, Offered, Publication, Rating,
    RegistryKernel, Wanted, standing,
};
use state::State;

/// The node's registry.
pub struct Registry {
    state: State,
}

impl Start for Registry {
    fn start(stl: &Stl) -> Registry {
        Registry { state: State::new(stl) }
    }
}

#[service(on = manager, keywords(registry = 5, publish = 2, find = 2, bind = 2))]
impl RegistryKernel for Registry {
    fn publish(&self, caller: &Caller, publication: Publication) -> CallResult<()> {
        self.state.publish(caller.own_core()?, &publication)
    }

    fn unpublish(&self, caller: &Caller, generation: u32, number: u16) -> CallResult<()> {
        self.state.unpublish(caller.own_core()?, generation, number)
    }

    fn locate(&self, caller: &Caller, asker: Asker, name: &str) -> CallResult<Found> {
        self.state.find(standing(asker, caller), name, caller.core)
    }

    fn locate_at(
        &self,
        caller: &Caller,
        asker: Asker,
        node: u32,
        core: u16,
        name: &str,
    ) -> CallResult<Found> {
        let at = At { node: NodeId(node), core: CoreId(core) };
        self.state.find_at(standing(asker, caller), name, at)
    }

    fn learn(
        &self,
        caller: &Caller,
        node: u32,
        core: u16,
        publication: Publication,
    ) -> CallResult<()> {
        for_gossip(caller, node)?;
        let at = At { node: NodeId(node), core: CoreId(core) };
        self.state.publish(at, &publication)
    }

    fn unlearn(&self, caller: &Caller, node: u32, number: u16) -> CallResult<()> {
        for_gossip(caller, node)?;
        self.state.unlearn(NodeId(node), number);
        Ok(())
    }

    fn forget_node(&self, caller: &Caller, node: u32) -> CallResult<()> {
        for_gossip(caller, node)?;
        self.state.forget_node(NodeId(node));
        Ok(())
    }

    fn search(&self, caller: &Caller, asker: Asker, wanted: Wanted) -> CallResult<Found> {
        self.state.search(standing(asker, caller), &wanted, caller.core)
    }

    fn order(&self, type_name: &str) -> CallResult<Vec<Listed>> {
        self.state.order(type_name)
    }

    fn share(
        &self,
        caller: &Caller,
        asker: Asker,
        type_name: &str,
        values: Vec<NamedValue>,
    ) -> CallResult<Vec<NamedValue>> {
        self.state.share(standing(asker, caller), type_name, &values)
    }

    fn bind(
        &self,
        caller: &Caller,
        asker: Asker,
        subject: u64,
        wanted: Wanted,
        parameters: Vec<NamedValue>,
    ) -> CallResult<Binding> {
        let asker = standing(asker, caller);
        self.state.bind(asker, subject, &wanted, &parameters, caller.core)
    }

    fn unbind(&self, subject: u64, type_name: &str) -> CallResult<bool> {
        self.state.unbind(subject, type_name)
    }

    fn list(&self, skip: u32) -> Vec<Listed> {
        self.state.list(skip as usize)
    }

    fn observe(&self, caller: &Caller, ratings: Vec<Rating>) -> CallResult<()> {
        self.state.observe(caller.own_core()?, &ratings);
        Ok(())
    }

    fn expel(&self, found: Found, why: &str) -> CallResult<()> {
        self.state.expel(found.into(), why)
    }

    fn offers(&self, skip: u32) -> Vec<Offered> {
        self.state.offers(skip as usize)
    }

    fn instances(&self, name: &str, from: u32, core: u16) -> Vec<Found> {
        self.state.instances(name, At { node: NodeId(from), core: CoreId(core) })
    }

    fn local(&self, from: u32) -> Vec<Local> {
        self.state.local(from)
    }

    fn publication(&self, core: u16, name: &str) -> CallResult<Publication> {
        self.state.publication(CoreId(core), name)
    }

    fn forget_others(&self, caller: &Caller) -> CallResult<()> {
        if caller.is_package() || caller.own_core()? != CoreId::BOOT {
            return Err(CallError::new(Status::Denied, "what other nodes have, gossip tells"));
        }
        self.state.forget_others();
        Ok(())
    }

    fn watch(&self, caller: &Caller, type_name: &str) -> CallResult<u64> {
        self.state.watch(caller.own_core()?, type_name)
    }

    async fn changes(&self, watcher: u64) -> CallResult<Vec<Change>> {
        let changes = || match self.state.changes(watcher) {
            Ok(changes) if changes.is_empty() => None,
            result => Some(result),
        };
        self.state.news().until(changes).await
    }

    fn unwatch(&self, watcher: u64) -> CallResult<()> {
        self.state.unwatch(watcher)
    }

    fn keywords(&self, type_name: &str) -> CallResult<Vec<String>> {
        self.state.keywords(type_name)
    }
}

/// Whether the caller may say what other nodes have: a kernel of the managing core.
fn for_gossip(caller: &Caller, node: u32) -> CallResult<()> {
    if caller.is_package() || caller.own_core()? != CoreId::BOOT {
        return Err(CallError::new(Status::Denied, "what other nodes have, gossip tells"));
    }
    if NodeId(node) == Place::HERE {
        return Err(CallError::new(Status::Invalid, "node is 0, which is this one"));
    }
    Ok(())
}
