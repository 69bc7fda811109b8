//! The services of a node: one folder each beside `src`. To add one, add a folder
//! (docs/write-a-service.md); the build script finds it.
//!
//! * [`deploy`]: what runs where, and how a core's services get into the registry.
//! * [`ALL`]: every service's registration.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod alarm;
pub mod deploy;
mod in_time;

pub use deploy::{deploy, deploy_offered, install_user_halves};

include!(concat!(env!("OUT_DIR"), "/services.rs"));
