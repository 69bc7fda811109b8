//! The services of a node: one folder each beside `src`. To add one, add a folder
//! (docs/write-a-service.md); the build script finds it.
//!
//! * [`deploy`]: what runs where, and how a core's services get into the registry.
//! * [`cluster`]: which node this is, and what the others have.
//! * [`ALL`]: every service's registration; [`PROTOCOLS`]: those of one network core.
//! * [`only`]: what an image has that is made for some of them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod alarm;
pub mod cluster;
pub mod deploy;
mod in_time;
mod instance;
mod line;
mod missed;
pub mod only;
mod page;
mod sweeping;

pub use deploy::{deploy, deploy_offered};

include!(concat!(env!("OUT_DIR"), "/services.rs"));

/// The services that can be named to give out roles: the optimisers, and whatever else is of their
/// type.
pub fn role_policies() -> impl Iterator<Item = &'static str> + Clone {
    let type_name = role_assignment::REGISTRATION.interface.name;
    let is_one = move |it: &&&nile_stl::Registration| {
        it.interface.ty.is_some_and(|ty| ty.name == type_name) && it.name() != type_name
    };
    let optimisers = HAS_OPTIMISERS.then(role_assignment::names).into_iter().flatten();
    optimisers.chain(ALL.iter().filter(is_one).map(|it| it.name()))
}

/// The services that are protocols of the network: each runs on one network core.
pub static PROTOCOLS: [&nile_stl::Registration; 2] = [&bulk::REGISTRATION, &network::REGISTRATION];
