//! The registry by example, and against a naive one.

mod examples;
mod extended;
mod model;
mod objective;
mod random;
mod refused;

use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId};
use nile_bosml::schema::Service;

use crate::*;

/// A scheduling policy's type, as in Dhara's case study.
fn scheduling() -> ServiceType {
    ServiceType {
        name: "sched".into(),
        subsystem: "process management".into(),
        capability: "scheduling".into(),
        layer: Layer::High,
        extends: None,
        description: "who runs next".into(),
        profile: Service { name: "sched".into(), doc: "".into(), methods: Vec::new().into() },
        state: [Attribute::int("runnable", 0)].to_vec().into(),
        attributes: [rule("global_priority", AttributeKind::Int, true)].to_vec().into(),
        parameters: [rule("local_priority", AttributeKind::Int, false)].to_vec().into(),
        default_instance: Some("fair".into()),
    }
}

/// The same, under another name and in another layer.
fn other(name: &'static str, layer: Layer) -> ServiceType {
    ServiceType { name: name.into(), capability: name.into(), layer, ..scheduling() }
}

fn rule(name: &'static str, kind: AttributeKind, required: bool) -> AttributeRule {
    AttributeRule { name: name.into(), kind, range: None, required }
}

fn policy(name: &'static str, priority: i64, keywords: &[(&'static str, u16)]) -> NewInstance {
    let keyword =
        |(word, weight): &(&'static str, u16)| Keyword { word: (*word).into(), weight: *weight };
    NewInstance {
        name: name.into(),
        working: "".into(),
        attributes: [Attribute::int("global_priority", priority)].to_vec().into(),
        keywords: keywords.iter().map(keyword).collect(),
    }
}

fn core(core: u16) -> Place {
    Place { node: NodeId(1), core: CoreId(core) }
}
