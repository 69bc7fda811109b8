//! Every service is where its source says, and in the registry.

mod node;

use nile_abi::CoreId;
use nile_interfaces::registry::RegistryClient;
use nile_services::{ALL, bulk, domains, gossip, network};
use nile_stl::On;

#[test]
fn every_service_is_published_where_it_belongs() {
    node::run(4, |stl| async move {
        let listed = RegistryClient::find(&stl).await?.list_all().await?;
        for registration in ALL.into_iter().filter(|it| it.kernel.is_some()) {
            let name = registration.name();
            let on = listed.iter().filter(|it| it.name == name).map(|it| CoreId(it.found.core));
            let mut on: Vec<CoreId> = on.collect();
            on.sort();
            if [network::REGISTRATION.name(), gossip::REGISTRATION.name()].contains(&name) {
                assert!(on.is_empty(), "{name} is for clusters, and this node is alone");
                continue;
            }
            if name == bulk::REGISTRATION.name() {
                assert!(on.is_empty(), "{name} is for nodes with a pool, and this one has none");
                continue;
            }
            if name == domains::REGISTRATION.name() {
                assert!(on.is_empty(), "{name} is for supervisors, and this node is none");
                continue;
            }
            match registration.on {
                On::Manager => assert_eq!(on, [CoreId::BOOT], "{name}"),
                On::Every => assert_eq!(on, [0, 1, 2, 3].map(CoreId), "{name}"),
                On::Roles(_) => assert!(!on.is_empty(), "{name}"),
            }
            let document = stl.discover(name).await?;
            assert!(document.contains(name), "{name}: {document}");
        }
        Ok(())
    });
}

/// The compiler sees to the rest of a type, but does not know who else there is.
#[test]
fn every_default_is_a_service_of_its_type() {
    for registration in ALL {
        let Some(ty) = registration.interface.ty else { continue };
        let Some(default) = ty.default_instance.as_deref() else { continue };
        let known = ALL.into_iter().find(|it| it.name() == default);
        let is_of_it = known.is_some_and(|it| it.interface.ty.is_some_and(|of| of.name == ty.name));
        assert!(is_of_it, "{default}, the default of {}, is no service of this type", ty.name);
    }
}
