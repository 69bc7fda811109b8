//! Dhara's publish, find and bind (III.C) for every core.
//!
//! * `records`, `values`: what goes in and comes out; `quality`: how good instances are.
//! * `wanted`: whom somebody looks for.

mod quality;
mod records;
mod values;
mod wanted;

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Caller, Place, service};

pub use quality::{Offered, Rating};
pub use records::{
    Ancestor, Asker, Binding, Change, Concerned, Declaration, Found, Listed, Local, Publication,
    Weighted, standing,
};
pub use values::{Bounds, Condition, GivenValue, NamedValue, Rule, attributes};
pub use wanted::Wanted;

/// Which services there are, and where.
#[service(subsystem = "naming", capability = "registry", layer = micro)]
pub trait Registry {
    /// Publishes an instance of the calling core, and its type if that is new.
    #[stl_k(allow(operator, peer))]
    fn publish(&self, caller: &Caller, publication: Publication) -> CallResult<()>;

    /// Ends an instance of the calling core.
    #[stl_k(allow(operator, peer))]
    fn unpublish(&self, caller: &Caller, generation: u32, number: u16) -> CallResult<()>;

    /// The instance of this name that is nearest to the caller.
    #[stl_k(reply = "found", allow(operator, peer))]
    fn locate(&self, caller: &Caller, asker: Asker, name: &str) -> CallResult<Found>;

    /// The instance of this name on one core of a node; node 0 is this one.
    #[stl_k(reply = "found", allow(operator, peer))]
    fn locate_at(
        &self,
        caller: &Caller,
        asker: Asker,
        node: u32,
        core: u16,
        name: &str,
    ) -> CallResult<Found>;

    /// Publishes an instance of another node, by that node's generation and the number that the
    /// node exports it by. For the gossip service, which lives where the registry does.
    #[stl_k(allow(operator, peer))]
    fn learn(
        &self,
        caller: &Caller,
        node: u32,
        core: u16,
        publication: Publication,
    ) -> CallResult<()>;

    /// Ends an instance of another node. For the gossip service.
    #[stl_k(allow(operator, peer))]
    fn unlearn(&self, caller: &Caller, node: u32, number: u16) -> CallResult<()>;

    /// Ends every instance of another node. For the gossip service.
    #[stl_k(allow(operator, peer))]
    fn forget_node(&self, caller: &Caller, node: u32) -> CallResult<()>;

    /// The instance of a type whose attributes are as wanted and whose keywords match best.
    #[stl_k(reply = "found", allow(package, operator, peer))]
    fn search(&self, caller: &Caller, asker: Asker, wanted: Wanted) -> CallResult<Found>;

    /// The instances of a type that have a global priority, the highest first, as many as fit a
    /// reply.
    #[stl_k(reply = "instances", allow(package, operator, peer))]
    fn order(&self, type_name: &str) -> CallResult<Vec<Listed>>;

    /// What the instances of a type share, some of it set before: what it has had from the first.
    #[stl_k(reply = "values", allow(operator, peer))]
    fn share(
        &self,
        caller: &Caller,
        asker: Asker,
        type_name: &str,
        values: Vec<NamedValue>,
    ) -> CallResult<Vec<NamedValue>>;

    /// Binds a subject to the best instance of a type, and unbinds it from the last one before.
    #[stl_k(reply = "binding", allow(operator, peer))]
    fn bind(
        &self,
        caller: &Caller,
        asker: Asker,
        subject: u64,
        wanted: Wanted,
        parameters: Vec<NamedValue>,
    ) -> CallResult<Binding>;

    /// Unbinds a subject from the instance of a type; whether it was bound.
    #[stl_k(reply = "was_bound", allow(operator, peer))]
    fn unbind(&self, subject: u64, type_name: &str) -> CallResult<bool>;

    /// The instances of all nodes, some at a time: those behind the `skip` first. None: there are
    /// no more.
    #[stl_k(reply = "instances", allow(package, operator, peer))]
    fn list(&self, skip: u32) -> Vec<Listed>;

    /// Notes how instances were found to serve by the calling core, which says so from time to
    /// time of those that it calls. For the transport layer.
    #[stl_k]
    fn observe(&self, caller: &Caller, ratings: Vec<Rating>) -> CallResult<()>;

    /// Has an instance, of whatever node, say that this node has expelled the policy that it is:
    /// where, why and when. It does until it is published anew. For the policy manager.
    #[stl_k]
    fn expel(&self, found: Found, why: &str) -> CallResult<()>;

    /// The instances of the high and the low layer whose type has pure methods, and how good each
    /// is, some at a time: those behind the `skip` first. None: there are no more.
    #[stl_k(reply = "offers", allow(package, operator, peer))]
    fn offers(&self, skip: u32) -> Vec<Offered>;

    /// Where the instances of this name are, in the order of nodes and cores, some at a time: those
    /// from the core `core` of the node `from` on. None: there are no more.
    #[stl_k(reply = "found", allow(package, operator, peer))]
    fn instances(&self, name: &str, from: u32, core: u16) -> Vec<Found>;

    /// The instances of this node from the one with this number in the registry on, some at a
    /// time. None: there are no more.
    #[stl_k(reply = "instances", allow(package, operator, peer))]
    fn local(&self, from: u32) -> Vec<Local>;

    /// What an instance on a core of this node said of itself: for nodes that do not have it in
    /// their image.
    #[stl_k(reply = "publication", allow(package, operator, peer))]
    fn publication(&self, core: u16, name: &str) -> CallResult<Publication>;

    /// Ends every instance of all other nodes. For the gossip service, which begins anew.
    #[stl_k(allow(operator, peer))]
    fn forget_others(&self, caller: &Caller) -> CallResult<()>;

    /// Begins to note what is published, unpublished and moved, of one type or of all (""): the
    /// watcher's number. It ends with the calling core's incarnation.
    #[stl_k(reply = "watcher", allow(operator, peer))]
    fn watch(&self, caller: &Caller, type_name: &str) -> CallResult<u64>;

    /// What has happened since the last time; waits until something has.
    #[stl_k(reply = "changes", allow(package, operator, peer))]
    async fn changes(&self, watcher: u64) -> CallResult<Vec<Change>>;

    /// Ends a watch.
    #[stl_k(allow(operator, peer))]
    fn unwatch(&self, watcher: u64) -> CallResult<()>;

    /// The keywords of the instances of a type that have a global priority, each once, as many as
    /// fit a reply: by what its policies are found.
    #[stl_k(reply = "keywords", allow(package, operator, peer))]
    fn keywords(&self, type_name: &str) -> CallResult<Vec<String>>;
}

impl RegistryClient {
    /// The instances of this node. Each page is a call.
    pub async fn local_all(&self) -> CallResult<Vec<Local>> {
        let mut all: Vec<Local> = Vec::new();
        loop {
            let more = self.local(all.last().map_or(0, |it| it.id + 1)).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }

    /// Every instance. Each page is a call.
    pub async fn list_all(&self) -> CallResult<Vec<Listed>> {
        let mut all: Vec<Listed> = Vec::new();
        loop {
            let more = self.list(all.len() as u32).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }

    /// How good instances with pure methods are. Each page is a call.
    pub async fn offers_all(&self) -> CallResult<Vec<Offered>> {
        let mut all: Vec<Offered> = Vec::new();
        loop {
            let more = self.offers(all.len() as u32).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }

    /// Where all instances of a name are, this node's first. Each page is a call.
    pub async fn places(&self, name: &str) -> CallResult<Vec<Place>> {
        let mut places: Vec<Place> = Vec::new();
        loop {
            // A core has one of a name.
            let behind = |it: &Place| match it.core.0.checked_add(1) {
                Some(core) => (it.node.0, core),
                None => (it.node.0.saturating_add(1), 0),
            };
            let (node, core) = places.last().map_or((0, 0), behind);
            let more = self.instances(name, node, core).await?;
            if more.is_empty() {
                return Ok(places);
            }
            places.extend(more.into_iter().map(Place::from));
        }
    }
}
