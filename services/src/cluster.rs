//! The cluster as the services of a node see it: which node this is, where the instances of a
//! service are, and which stores there are. Whoever wants something of which there are copies asks
//! for the [first] that is good.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, CorePhase, Generation, NodeId, Status};
use nile_interfaces::dataset::{self, DatasetClient};
use nile_interfaces::network::NetworkClient;
use nile_interfaces::registry::RegistryClient;
use nile_stl::node::{Line, Member};
use nile_stl::{At, CallError, CallResult, Place, Stl};
use nile_store::Home;

/// A node that is in no cluster.
const ALONE: (NodeId, Generation) = (NodeId(1), Generation::FIRST);

/// What this node is in its cluster; `None` if it is in none.
pub fn member(stl: &Stl) -> Option<Member> {
    stl.node().ok()?.member()
}

/// This node, by its name.
pub fn node(stl: &Stl) -> NodeId {
    life(stl).0
}

/// This node, and its incarnation as the calling core knows it.
pub fn life(stl: &Stl) -> (NodeId, Generation) {
    member(stl).map_or(ALONE, |member| (member.node, member.generation))
}

/// Whose the disks of this node are.
pub fn home(stl: &Stl) -> Home {
    let cluster = member(stl).map_or(0, |member| member.cluster);
    Home { cluster, node: node(stl) }
}

/// This node, and its incarnation as other nodes know it. Waits for the network core.
pub async fn identity(stl: &Stl) -> CallResult<(NodeId, Generation)> {
    if member(stl).is_none() {
        return Ok(ALONE);
    }
    let own = NetworkClient::find(stl).await?.identity().await?;
    Ok((NodeId(own.node), Generation(own.generation)))
}

/// How a core of a node, which may be this one, is named in calls.
pub fn at(stl: &Stl, node: NodeId, core: CoreId) -> At {
    At { node: if node == self::node(stl) { Place::HERE } else { node }, core }
}

/// Where the instances of a service are, with the names of their nodes, in the order of nodes and
/// cores. Waits for the registry, a page at a time.
pub async fn places(stl: &Stl, service: &str) -> CallResult<Vec<(NodeId, Place)>> {
    let own = node(stl);
    let name = |place: Place| (if place.is_here() { own } else { place.node }, place);
    let places = RegistryClient::find(stl).await?.places(service).await?;
    let mut places: Vec<_> = places.into_iter().map(name).collect();
    nile_order::sort_by_key(&mut places, |(node, place)| (*node, place.core));
    Ok(places)
}

/// All stores of datasets that are known here, in the order of nodes; those of this node in the
/// order of its disks, whichever core drives them. Waits for the registry.
pub async fn known_stores(stl: &Stl) -> CallResult<Vec<Store>> {
    let (mut all, drivers) = (Vec::new(), drivers(stl));
    let number = |place: Place, disk: usize| {
        let its = drivers.iter().enumerate().filter(|(_, it)| it.core == place.core);
        let known = place.is_here().then(|| its.map(|(number, _)| number).nth(disk)).flatten();
        known.unwrap_or(drivers.len() + disk)
    };
    for (disk, name) in dataset::NAMES.into_iter().enumerate() {
        let found = places(stl, name).await?;
        if found.is_empty() {
            // A core that has a second disk has a first one.
            break;
        }
        all.extend(found.into_iter().map(|(node, place)| {
            let client = DatasetClient::at(stl, place);
            Store { node, place, disk, number: number(place, disk), client }
        }));
    }
    nile_order::sort_by_key(&mut all, |it: &Store| (it.node, it.number, it.place.core));
    Ok(all)
}

/// How long it is waited until the core that drives the node's disk runs, how long after that until
/// its store is known, and how often it is looked.
const MOVED: Duration = Duration::from_secs(3);
const PUBLISHED: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(2);

/// A store of datasets.
pub struct Store {
    /// Its node, by its name.
    pub node: NodeId,
    /// Where it is.
    pub place: Place,
    /// On which of its core's disks.
    pub disk: usize,
    /// On which of its node's, if it is on this one and its disk interrupts.
    number: usize,
    /// The way to it.
    pub client: DatasetClient,
}

impl Store {
    /// Whether it is on this node.
    pub fn is_here(&self) -> bool {
        self.place.is_here()
    }

    /// Whether it is on the first disk of this node.
    pub fn is_first(&self) -> bool {
        self.is_here() && self.number == 0
    }
}

/// The same; waits a while for the stores of disks of this node that are on their way to another
/// core, or whose core begins anew.
pub async fn stores(stl: &Stl) -> CallResult<Vec<Store>> {
    let host = stl.host();
    let (begun, mut runs) = (host.now(), None);
    loop {
        let found = known_stores(stl).await?;
        let here = found.iter().filter(|it| it.is_here()).count();
        let now = host.now();
        let mut drivers = drivers(stl);
        // One that has stopped for good is not waited for.
        drivers.retain(|it| !it.has_stopped);
        let is_due = match drivers.iter().all(|it| it.runs) {
            true => now.since(*runs.get_or_insert(now)) > PUBLISHED,
            false => now.since(begun) > MOVED,
        };
        if is_due || here >= drivers.len() {
            return Ok(found);
        }
        host.pause(LOOK).await;
    }
}

/// A core that drives a disk of this node.
struct Driver {
    core: CoreId,
    runs: bool,
    has_stopped: bool,
}

/// Who drives this node's disks, as far as these interrupt, in the order of the disks.
fn drivers(stl: &Stl) -> Vec<Driver> {
    let Ok(node) = stl.node() else { return Vec::new() };
    let drivers = Line::all().filter(|it| it.is_disk()).filter_map(|it| node.driver_of(it));
    let driver = |core: CoreId| {
        let phase = node.state_of(core).map(|it| it.phase);
        let is = |other| phase == Some(other);
        Driver { core, runs: is(CorePhase::Running), has_stopped: is(CorePhase::Stopped) }
    };
    drivers.map(driver).collect()
}

/// What the first of these says that has it. Else the error of the last one that failed; one that
/// does not have it is told of only if no other has failed, and `missing` if none was asked.
pub async fn first<C, T>(
    copies: impl IntoIterator<Item = C>,
    missing: CallError,
    mut ask: impl AsyncFnMut(C) -> CallResult<T>,
) -> CallResult<T> {
    let mut error = missing;
    for copy in copies {
        match ask(copy).await {
            Err(other) => error = worse(error, other),
            found => return found,
        }
    }
    Err(error)
}

/// Which of two failures is told: what is damaged rather than what is not there.
fn worse(first: CallError, second: CallError) -> CallError {
    match (first.status, second.status) {
        (Status::NotFound, _) => second,
        (_, Status::NotFound) => first,
        _ => second,
    }
}

#[cfg(test)]
mod tests {
    use core::future::Future;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    use super::*;

    fn ready<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn damage_is_told_rather_than_absence() {
        let missing = || CallError::new(Status::NotFound, "nobody was asked");
        let found = |copies: &[Result<u32, Status>]| {
            let mut asked = 0;
            let result = ready(first(copies, missing(), async |copy| {
                asked += 1;
                (*copy).map_err(|status| CallError::new(status, "said so"))
            }));
            (result.map_err(|error| error.status), asked)
        };
        assert_eq!(found(&[]), (Err(Status::NotFound), 0));
        assert_eq!(found(&[Err(Status::NotFound), Ok(2), Ok(3)]), (Ok(2), 2));
        let damaged = [Err(Status::NotFound), Err(Status::Failed), Err(Status::NotFound)];
        assert_eq!(found(&damaged), (Err(Status::Failed), 3));
        assert_eq!(found(&[Err(Status::Failed), Err(Status::Dead)]), (Err(Status::Dead), 2));
    }
}
