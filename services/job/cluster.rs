//! Who is in the cluster: worker cores, stores, nodes that are dead.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_job::WorkerId;
use nile_order::{SortedMap, SortedSet};
use nile_stl::{At, CallResult, LocalFuture, Place, Stl, all};
use nile_sync::OneShot;

use super::workers::{self, Line};
use crate::cluster;
pub use crate::cluster::Store;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::gossip::{GossipClient, MemberState};

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
    workers: SortedMap<Place, Line>,
    /// Where there are disks for datasets, as places name them, and whether their stores have been
    /// found to be usable: one that is not is asked again.
    disks: SortedMap<Place, bool>,
    /// Nodes that gossip tells of, and whether they are alive; none if it tells of nothing.
    members: SortedMap<NodeId, bool>,
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
        cluster::node(&self.stl)
    }

    /// How another node, or this one, is named in calls.
    pub fn at(&self, node: NodeId, core: CoreId) -> At {
        cluster::at(&self.stl, node, core)
    }

    /// Looks who is there. Waits for the registry, gossip, and worker cores that are new.
    pub async fn look(&self) -> CallResult<()> {
        let own = cluster::identity(&self.stl).await?;
        let places = cluster::places(&self.stl, workers::SERVICE).await?;
        let places: SortedSet<Place> = places.into_iter().map(|(_, place)| place).collect();
        let stores = cluster::known_stores(&self.stl).await?;
        let stores: Vec<Place> = stores.into_iter().map(|it| it.place).collect();
        let members = match cluster::member(&self.stl) {
            None => SortedMap::from([(own.0, true)]),
            Some(_) => self.members().await,
        };
        let (new, doubtful): (Vec<Place>, Vec<Place>) = {
            let seen = &mut *self.seen.borrow_mut();
            if seen.own.replace(own) != Some(own) {
                seen.workers.clear();
            }
            // That gossip begins anew says nothing about others.
            if !members.is_empty() {
                seen.members = members;
            }
            seen.disks.retain(|place, _| stores.contains(place));
            seen.workers.retain(|place, _| places.contains(place));
            (
                places.into_iter().filter(|place| !seen.workers.contains_key(place)).collect(),
                stores.into_iter().filter(|place| seen.disks.get(place) != Some(&true)).collect(),
            )
        };
        let stl = self.stl.with_patience(SOON);
        let usable = all(doubtful.into_iter().map(|place| {
            let stl = stl.clone();
            async move {
                let formatted = DatasetClient::at(&stl, place).is_formatted().await;
                // One that does not answer is dead rather than damaged.
                (place, !formatted.is_err_and(|error| error.status == Status::Failed))
            }
        }));
        let usable = usable.await;
        self.seen.borrow_mut().disks.extend(usable);
        let found = all(new.into_iter().map(|place| {
            let stl = stl.clone();
            async move { Some((place, Line::open(&stl, place).await.ok()?)) }
        }));
        let found = found.await;
        self.seen.borrow_mut().workers.extend(found.into_iter().flatten());
        Ok(())
    }

    /// Looks who is there, until there are so many worker cores [on](Cluster::workers_on) these
    /// nodes or it has taken [`COMING`]: one that has just come back may be known to whoever asks
    /// for it before it is known here.
    pub async fn look_for(&self, workers: usize, on: &[NodeId]) -> CallResult<()> {
        let host = self.stl.host();
        let end = host.now() + COMING;
        loop {
            self.look().await?;
            if self.workers_on(on).len() >= workers || host.now() >= end {
                return Ok(());
            }
            host.pause(BETWEEN).await;
        }
    }

    async fn members(&self) -> SortedMap<NodeId, bool> {
        let Ok(gossip) = GossipClient::find(&self.stl).await else { return SortedMap::new() };
        let members = gossip.everyone().await.unwrap_or_default();
        let member =
            members.iter().map(|it| (NodeId(it.identity.node), it.state != MemberState::Down));
        member.collect()
    }

    /// The worker cores that can be used: what they write they write to their node's disk.
    pub fn workers(&self) -> Vec<WorkerId> {
        let seen = self.seen.borrow();
        let has_disk = |node| seen.disks.iter().any(|(at, usable)| at.node == node && *usable);
        let usable = seen.workers.iter().filter(|(at, _)| has_disk(at.node));
        usable.map(|(_, line)| line.id).collect()
    }

    /// Those of them that are on these nodes; without any, all.
    pub fn workers_on(&self, nodes: &[NodeId]) -> Vec<WorkerId> {
        let mut workers = self.workers();
        workers.retain(|it| nodes.is_empty() || nodes.contains(&it.node));
        workers
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

    /// The stores of the nodes, in the order of the nodes' numbers and cores.
    pub async fn stores(&self) -> CallResult<Vec<Store>> {
        cluster::stores(&self.stl.with_patience(SOON)).await
    }

    /// The stores of this node.
    pub async fn own_stores(&self) -> CallResult<Vec<Store>> {
        Ok(self.stores().await?.into_iter().filter(|store| store.is_here()).collect())
    }

    /// The nodes that have a job service.
    pub async fn nodes(&self) -> CallResult<Vec<NodeId>> {
        let places = cluster::places(&self.stl, "job").await?.into_iter();
        let mut nodes: Vec<NodeId> = places.map(|(node, _)| node).collect();
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
