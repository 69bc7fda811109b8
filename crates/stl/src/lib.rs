//! The service transport layer, STL (NileOS paper, III.B and III.F): services are called by name,
//! on the same core, on another one, from a package; the caller cannot tell.
//!
//! Each core has one, and so has each package. A call on the same core is a direct call; to
//! another core it travels as a frame over a channel; a package's call that needs the kernel is
//! relayed by a system call. The layer is sans-IO: its [`Host`] sends frames and keeps the time.
//!
//! * [`error`]: how a call fails.
//! * [`service`]: a service as `#[service]` generates it.
//! * [`host`]: what the layer needs from the core beneath and from the registry.
//! * [`node`]: what a service's kernel half may ask of the kernel beneath; `pool_disk`, its disks.
//! * [`stl`]: [`Stl`], one core's services; `invoke`, calls by name; [`target`], typed calls.
//! * [`published`]: what is known of a service that is callable.
//! * [`quality`]: how instances elsewhere were found to serve.
//! * [`composite`]: services made of services.
//! * [`all()`]: several futures at once. [`Allowance`]: so much of something in a second.
//! * [`frame`]: calls as they cross between cores; [`relay`]: between a package and its kernel.
//! * `calls`, `serving`, `deliver`: calls that go out, and calls that come in; `documents`: what
//!   those who are called say about themselves.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// What the macros generate names this crate, and is used in it too.
extern crate self as nile_stl;

mod all;
mod allowance;
mod calls;
pub mod composite;
mod deliver;
mod documents;
pub mod error;
pub mod frame;
mod handles;
pub mod host;
mod invoke;
pub mod node;
mod pool_disk;
pub mod published;
pub mod quality;
pub mod relay;
mod samples;
pub mod service;
mod serving;
pub mod stl;
pub mod target;
#[cfg(test)]
mod tests;
mod usage;

pub use all::all;
pub use allowance::{Admitted, Allowance};
pub use composite::{Composite, CompositeType, Parts};
pub use deliver::PeerEnd;
pub use error::{CallError, CallResult};
pub use frame::{CallId, MethodNumber, ServiceNumber};
pub use host::{Directory, Gateway, Host, Place, Upstream};
pub use invoke::DISCOVER;
pub use nile_registry::Place as At;
pub use published::{Described, Fingerprint, Published};
pub use quality::{Measured, is_failure};
pub use service::{
    Caller, Client, Dispatched, Half, Interface, LocalFuture, Methods, On, Origin, Registration,
    Service, Start,
};
pub use stl::{DEFAULT_PATIENCE, Engaged, FIRST_SERVICE, Stl};
pub use target::Target;

pub use nile_stl_macros::{Record, half, service};

/// What the code that `#[service]` generates names, so that a service needs no other crates.
#[doc(hidden)]
pub mod generated;
