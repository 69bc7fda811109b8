//! Who is in the cluster: worker cores, stores, nodes that are dead.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId};
use nile_job::WorkerId;
use nile_stl::{At, CallResult, LocalFuture, Place, Stl, all};
use nile_sync::OneShot;

use super::workers::{self, Line};
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::gossip::GossipClient;
use nile_interfaces::network::NetworkClient;
use nile_interfaces::registry::RegistryClient;

/// What a node without a cluster is.
const ALONE: (NodeId, Generation) = (NodeId(1), Generation::FIRST);

/// How long a node may take that is asked something small.
pub const SOON: Duration = Duration::from_secs(2);

/// How long workers that a job asks for are waited for, and how often it is looked in between.
const COMING: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_millis(50);

/// The cluster, as it was when it was last looked at.
pub struct Cluster {
    stl: Stl,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    own: Option<(NodeId, Generation)>,
    workers: BTreeMap<Place, Line>,
    /// Nodes that have disks for datasets, as places name them.
    with_disks: BTreeSet<NodeId>,
    /// Nodes that gossip tells of, and whether they are alive; none if it tells of nothing.
    members: BTreeMap<NodeId, bool>,
}

/// A store of datasets.
pub struct Store {
    /// Its node, by its name.
    pub node: NodeId,
    /// Whether it is on this node.
    pub is_here: bool,
    /// The way to it.
    pub client: DatasetClient,
}

impl Cluster {
    /// Says something in the node's log.
    pub fn log(&self, what: core::fmt::Arguments<'_>) {
        self.stl.host().log(what);
    }

    /// The cluster around the core of `stl`, which nobody has looked at.
    pub fn new(stl: &Stl) -> Cluster {
        Cluster { stl: stl.clone(), seen: RefCell::default() }
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        let member = self.stl.node().ok().and_then(|node| node.member());
        member.map_or(ALONE.0, |member| member.node)
    }

    fn is_alone(&self) -> bool {
        self.stl.node().map_or(true, |node| node.member().is_none())
    }

    async fn own(&self) -> CallResult<(NodeId, Generation)> {
        if self.is_alone() {
            return Ok(ALONE);
        }
        let own = NetworkClient::find(&self.stl).await?.identity().await?;
        Ok((NodeId(own.node), Generation(own.generation)))
    }

    /// How another node, or this one, is named in calls.
    pub fn at(&self, node: NodeId, core: CoreId) -> At {
        At { node: if node == self.node() { Place::HERE } else { node }, core }
    }

    /// Looks who is there. Waits for the registry, gossip, and worker cores that are new.
    pub async fn look(&self) -> CallResult<()> {
        let own = self.own().await?;
        let places: BTreeSet<Place> = self.places(workers::SERVICE).await?.into_iter().collect();
        let stores = self.places("dataset").await?;
        let members = match self.is_alone() {
            true => BTreeMap::from([(own.0, true)]),
            false => self.members().await,
        };
        let new: Vec<Place> = {
            let seen = &mut *self.seen.borrow_mut();
            if seen.own.replace(own) != Some(own) {
                seen.workers.clear();
            }
            // That gossip begins anew says nothing about others.
            if !members.is_empty() {
                seen.members = members;
            }
            seen.with_disks = stores.into_iter().map(|place| place.node).collect();
            seen.workers.retain(|place, _| places.contains(place));
            places.into_iter().filter(|place| !seen.workers.contains_key(place)).collect()
        };
        let stl = self.stl.with_patience(SOON);
        let found = all(new.into_iter().map(|place| {
            let stl = stl.clone();
            async move { Some((place, Line::open(&stl, place).await.ok()?)) }
        }));
        let found = found.await;
        self.seen.borrow_mut().workers.extend(found.into_iter().flatten());
        Ok(())
    }

    /// Looks who is there, until there are so many worker cores or it has taken [`COMING`]: one
    /// that has just come back may be known to whoever asks for it before it is known here.
    pub async fn look_for(&self, workers: usize) -> CallResult<()> {
        let host = self.stl.host();
        let end = host.now() + COMING;
        loop {
            self.look().await?;
            if self.workers().len() >= workers || host.now() >= end {
                return Ok(());
            }
            host.pause(BETWEEN).await;
        }
    }

    async fn members(&self) -> BTreeMap<NodeId, bool> {
        let Ok(gossip) = GossipClient::find(&self.stl).await else { return BTreeMap::new() };
        let members = gossip.everyone().await.unwrap_or_default();
        let member = members.iter().map(|it| (NodeId(it.identity.node), it.state != "down"));
        member.collect()
    }

    /// The worker cores that can be used: what they write they write to their node's disk.
    pub fn workers(&self) -> Vec<WorkerId> {
        let seen = self.seen.borrow();
        let usable = seen.workers.iter().filter(|(at, _)| seen.with_disks.contains(&at.node));
        usable.map(|(_, line)| line.id).collect()
    }

    /// The way to a worker core, if it is still there in this incarnation.
    pub fn line(&self, worker: WorkerId) -> Option<Line> {
        self.seen.borrow().workers.values().find(|line| line.id == worker).copied()
    }

    /// Whether a node is dead or gone, as far as is known.
    pub fn is_dead(&self, node: NodeId) -> bool {
        let members = &self.seen.borrow().members;
        !members.is_empty() && members.get(&node) != Some(&true)
    }

    /// Where the instances of a service are.
    async fn places(&self, name: &str) -> CallResult<Vec<Place>> {
        RegistryClient::find(&self.stl).await?.places(name).await
    }

    /// The stores of the nodes, in the order of the nodes' numbers and cores.
    pub async fn stores(&self) -> CallResult<Vec<Store>> {
        let (own, stl) = (self.node(), self.stl.with_patience(SOON));
        let mut places = self.places("dataset").await?;
        let name = |place: &Place| if place.is_here() { own } else { place.node };
        nile_order::sort_by_key(&mut places, |place| (name(place), place.core));
        let store = |place: Place| {
            let client = DatasetClient::at(&stl, place);
            Store { node: name(&place), is_here: place.is_here(), client }
        };
        Ok(places.into_iter().map(store).collect())
    }

    /// The nodes that have a job service.
    pub async fn nodes(&self) -> CallResult<Vec<NodeId>> {
        let own = self.node();
        let places = self.places("job").await?.into_iter();
        let mut nodes: Vec<NodeId> =
            places.map(|place| if place.is_here() { own } else { place.node }).collect();
        nile_order::sort(&mut nodes);
        nodes.dedup();
        Ok(nodes)
    }
}

/// A task that nobody waits for.
pub fn spawn(stl: &Stl, task: impl Future<Output = ()> + 'static) {
    let task: LocalFuture<'static, ()> = Box::pin(task);
    stl.host().spawn(task);
}

/// Does something to its end, even if whoever waits for that waits no more.
pub async fn whole<T: 'static>(stl: &Stl, task: impl Future<Output = T> + 'static) -> T {
    let end = OneShot::default();
    let told = end.clone();
    spawn(stl, async move { told.give(task.await) });
    end.await
}
