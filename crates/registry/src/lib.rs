//! The service abstraction pattern of Dhara (III and IV.A): service types and their instances,
//! published in the registry of their layer, found by keywords and attributes, bound by subjects.
//!
//! A plain data structure: it has no clock, sends nothing and knows no core but by name. The
//! service that owns it on the management core passes requests in and carries out what comes out.
//!
//! * [`layer`]: the three layers, and who may bind which.
//! * [`attribute`]: named values, and the rules that types set for them.
//! * [`service`]: what is registered: types; what is published: instances; where they are.
//! * [`priority`]: the order of a type's instances, in which no two are equal.
//! * `postings`, `keywords`, `entry`: a type with its instances, and the index of its keywords.
//! * [`registry`]: register, publish, move, unpublish.
//! * [`find`]: from a query to an instance.
//! * [`least`]: the best by an attribute, and a balance among those that are about as good.
//! * [`bind`]: from a subject to an instance.
//! * [`watch`]: what happens to instances, told in order.
//! * [`composition`]: services made of services.
//! * [`error`], [`limits`]: what is refused.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attribute;
pub mod bind;
pub mod composition;
mod entry;
pub mod error;
pub mod find;
mod keywords;
pub mod layer;
pub mod least;
pub mod limits;
mod postings;
pub mod priority;
pub mod registry;
pub mod service;
pub mod watch;

#[cfg(test)]
mod tests;

pub use attribute::{Attribute, AttributeError, AttributeKind, AttributeRule, AttributeValue};
pub use bind::{Bound, HandleState, Subject, Target, Unbound};
pub use composition::{Composed, Composition, Plan};
pub use error::{
    BindError, FindError, MoveError, PublishError, RegisterError, UnknownInstance, UnregisterError,
};
pub use find::{Constraint, Found, Match, Query, Relation, TypeQuery};
pub use layer::{Caller, Layer, LayerError};
pub use least::Least;
pub use priority::Priority;
pub use registry::{Moved, Registry, Unpublished};
pub use service::{
    EXPELLED, FAILURES, Handle, Instance, InstanceId, Keyword, LATENCY, Location, NewInstance,
    PER_SECOND, Parent, Place, Quality, ServiceNumber, ServiceType, TypeId,
};
pub use watch::{Event, WatchError, WatchFilter, WatcherId};
