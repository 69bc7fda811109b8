//! Deployment: which services a core starts, and how the node learns of them.
//!
//! The registry is the first service of the managing core, so every core knows where it is. When
//! that core restarts, its registry is empty, and the other cores publish what they have anew.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_registry::Caller as Binder;
use nile_stl::node::Line;
use nile_stl::{
    At, CallResult, Directory, FIRST_SERVICE, LocalFuture, Measured, On, Place, Published, Stl,
};

use crate::network::gateway::ByNetwork;
use crate::{
    ALL, HAS_DATASETS, HAS_OPTIMISERS, HAS_RECORDS, bulk, dataset, domains, gossip, network,
    role_assignment, timer_source, worker,
};
use crate::{records, registry};
use nile_interfaces::registry::{Rating, RegistryClient};

/// How often a core tells a registry that is not there yet, and how long it waits in between.
const MOST_ATTEMPTS: u32 = 1000;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// Starts the services of a core with these roles, and publishes them, each where its source puts
/// it. What could not be published is logged and not callable.
pub async fn deploy(stl: &Stl, roles: RoleSet) {
    deploy_offered(stl, roles, |_| None).await;
}

/// Starts the services of a core with these roles, and publishes them: those that the node's
/// configuration `offers` here, and where it says nothing, those that their sources put here. What
/// could not be published is logged and not callable.
pub async fn deploy_offered(stl: &Stl, roles: RoleSet, offers: impl Fn(&str) -> Option<bool>) {
    let host = stl.host();
    let manages = host.core() == CoreId::BOOT;
    if manages && let Some(make) = registry::REGISTRATION.kernel {
        let place = stl.install(&registry::REGISTRATION, make);
        debug_assert!(place.is_ok_and(|place| place.number == FIRST_SERVICE));
    }
    stl.set_directory(Rc::new(NodeRegistry { stl: stl.acting_as(Binder::Operator) }));
    let in_cluster = stl.node().is_ok_and(|node| node.member().is_some());
    let has_pool = stl.node().is_ok_and(|node| node.pool().is_some());
    if in_cluster {
        stl.set_gateway(Rc::new(ByNetwork::new(stl)));
    }
    if manages {
        publish_again(stl).await;
    } else {
        let again = stl.clone();
        stl.on_death(move |core, _| {
            if core == CoreId::BOOT {
                let stl = again.clone();
                again.host().spawn(Box::pin(async move { publish_again(&stl).await }));
            }
        });
    }
    if manages && offers(domains::REGISTRATION.name()).unwrap_or(true) {
        domains::managing::start(stl);
    }
    let here = |on: On| match on {
        On::Manager => manages,
        On::Roles(wanted) => roles.iter().any(|role| wanted.contains(role)),
        On::Every => true,
    };
    for registration in ALL.into_iter().filter(|it| offers(it.name()).unwrap_or(here(it.on))) {
        let Some(make) = registration.kernel else { continue };
        let needed = match registration.name() {
            name if name == registry::REGISTRATION.name() => false,
            // One core has each protocol of the network: the first, unless another was named.
            name if name == network::REGISTRATION.name() => {
                in_cluster && (offers(name).is_some() || leads_network(stl))
            }
            // There are mailboxes on a node alone, too.
            name if name == bulk::REGISTRATION.name() => {
                has_pool && (offers(name).is_some() || leads_network(stl))
            }
            name if name == gossip::REGISTRATION.name() => in_cluster,
            name if name == domains::REGISTRATION.name() => domains::is_of_use(stl),
            // A worker that could run no package would have each task of a job fail.
            name if name == worker::REGISTRATION.name() => {
                stl.node().is_ok_and(|node| node.may_run_packages())
            }
            // What the node's datasets are asked of has a disk, if the node has one.
            name if name == dataset::REGISTRATION.name() => !has_disks_elsewhere(stl),
            _ => true,
        };
        if !needed {
            continue;
        }
        let published = match stl.install(registration, make) {
            Ok(place) => tell(stl, Published::Linked(registration), place).await,
            Err(error) => Err(error),
        };
        if let Err(error) = published {
            host.log(format_args!("service {} is not published: {error}", registration.name()));
            // Nobody could find it; that the registry does not know it is no news.
            let _ = stl.unpublish(registration.name()).await;
        }
    }
    let its = &dataset::REGISTRATION;
    if HAS_DATASETS && offers(its.name()).unwrap_or(here(its.on)) {
        dataset::publish_others(stl).await;
    }
    if offers(timer_source::REGISTRATION.name()).unwrap_or(manages) {
        timer_source::publish_all(stl).await;
    }
    let its = &records::REGISTRATION;
    if HAS_RECORDS && offers(its.name()).unwrap_or(here(its.on)) {
        records::publish_shared(stl).await;
    }
    if HAS_OPTIMISERS && offers(role_assignment::REGISTRATION.name()).unwrap_or(manages) {
        role_assignment::publish_all(stl).await;
    }
}

/// Whether this core drives none of the node's disks, of which there are some.
fn has_disks_elsewhere(stl: &Stl) -> bool {
    let Ok(node) = stl.node() else { return false };
    let drivers = Line::all().filter(|it| it.is_disk()).filter_map(|it| node.driver_of(it));
    let drivers: Vec<CoreId> = drivers.collect();
    !drivers.is_empty() && !drivers.contains(&stl.host().core())
}

/// Whether this is the first of the network cores.
fn leads_network(stl: &Stl) -> bool {
    let Ok(node) = stl.node() else { return true };
    let mut before = (0..stl.host().core().0).filter_map(|core| node.state_of(CoreId(core)));
    before.all(|state| !state.roles.contains(Role::Network))
}

/// Tells the registry of everything that is here: it has forgotten, or it is new.
async fn publish_again(stl: &Stl) {
    for (published, place) in stl.findable() {
        if let Err(error) = tell(stl, published.clone(), place).await {
            let name = published.name();
            stl.host().log(format_args!("service {name} is not published again: {error}"));
        }
    }
}

/// Tells the registry of an instance here, unless that has ended meanwhile. The managing core's
/// new incarnation may not have a registry yet.
async fn tell(stl: &Stl, published: Published, place: Place) -> CallResult<()> {
    let (host, registry) = (stl.host(), NodeRegistry { stl: stl.acting_as(Binder::Operator) });
    let is_here = || stl.installed().iter().any(|(_, known)| *known == place);
    let mut attempts = 0;
    while is_here() {
        match registry.publish(published.clone(), place).await {
            Err(error) if error.status == Status::Dead && attempts < MOST_ATTEMPTS => {
                attempts += 1;
                host.pause(BETWEEN_ATTEMPTS).await;
            }
            // Its end may have been told before it was.
            Ok(()) if !is_here() => return registry.unpublish(place).await,
            result => return result,
        }
    }
    Ok(())
}

/// The registry of the node as the directory of one core.
struct NodeRegistry {
    stl: Stl,
}

impl NodeRegistry {
    /// The registry in the managing core's present incarnation.
    fn client(&self) -> RegistryClient {
        let generation = self.stl.host().generation_of(CoreId::BOOT);
        let (node, core) = (Place::HERE, CoreId::BOOT);
        let place = Place { node, core, generation, number: FIRST_SERVICE };
        RegistryClient::at(&self.stl, place)
    }
}

impl Directory for NodeRegistry {
    fn find(&self, caller: Binder, name: &str) -> LocalFuture<'static, CallResult<Place>> {
        let (registry, name) = (self.client(), String::from(name));
        Box::pin(async move { Ok(registry.locate(caller, &name).await?.into()) })
    }

    fn find_at(
        &self,
        caller: Binder,
        at: At,
        name: &str,
    ) -> LocalFuture<'static, CallResult<Place>> {
        let (registry, name, asker) = (self.client(), String::from(name), caller);
        Box::pin(
            async move { Ok(registry.locate_at(asker, at.node.0, at.core.0, &name).await?.into()) },
        )
    }

    fn publish(&self, published: Published, place: Place) -> LocalFuture<'static, CallResult<()>> {
        let registry = self.client();
        let publication = registry::publication(&published, place);
        Box::pin(async move { registry.publish(publication).await })
    }

    fn is_reserved(&self, name: &str) -> bool {
        ALL.into_iter().any(|known| known.name() == name)
    }

    fn observe(&self, measured: Vec<Measured>) -> LocalFuture<'static, CallResult<()>> {
        let registry = self.client();
        let ratings = measured.into_iter().map(Rating::from).collect();
        Box::pin(async move { registry.observe(ratings).await })
    }

    fn unpublish(&self, place: Place) -> LocalFuture<'static, CallResult<()>> {
        let registry = self.client();
        Box::pin(async move { registry.unpublish(place.generation.0, place.number.0).await })
    }
}
