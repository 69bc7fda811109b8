//! Instances of a type that are made while the node runs, for what there is of its kind.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use nile_registry::Attribute;
use nile_stl::published::Fingerprint;
use nile_stl::{CallResult, Half, Interface, On, Registration, Stl};

/// Publishes an instance of the type that `usual` is of, on this core. What is said of a service
/// lives as long as the core's incarnation, which publishes one of a name once.
pub async fn publish<const K: usize, const A: usize>(
    stl: &Stl,
    usual: &Registration,
    name: &'static str,
    keywords: [(&'static str, u32); K],
    attributes: [Attribute; A],
    make: impl FnOnce(&Stl) -> Half,
) -> CallResult<()> {
    let schema = Box::leak(Box::new(usual.interface.schema.clone()));
    schema.name = Cow::Borrowed(name);
    let fingerprint = Fingerprint::of(schema);
    let interface = Interface { name, schema, fingerprint, ..*usual.interface };
    let registration = Registration {
        interface: Box::leak(Box::new(interface)),
        working: "",
        keywords: Box::leak(Box::new(keywords)),
        attributes: Box::leak(Box::new(attributes)),
        on: On::Manager,
        kernel: None,
        user: None,
        policy: None,
    };
    stl.publish(Box::leak(Box::new(registration)), make).await.map(drop)
}
