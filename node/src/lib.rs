//! What a node does, on every machine: its configuration is checked against the services that
//! there are, its cores start those services, and it boots or serves. Images bind this to a
//! machine; what else a node can be started for, tests say.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::RoleSet;
use nile_kernel::{Config, ConfigError, Core, Join};
use nile_platform::Machine;

pub use nile_services::ALL as SERVICES;
pub use nile_services::only::only;

/// The programs that a node of some image can be started for, on the machine `M`. A program is a
/// name, and whatever follows it after a space.
pub trait Programs<M: Machine> {
    /// Whether there is such a program, else what there is.
    fn check(program: &str) -> Result<(), String>;

    /// Starts a core's part of a program that was checked before.
    fn start(core: &Core<M>, program: &str);
}

/// A node with its services: `boot` has it report and end, `serve` has it report and stay.
pub struct Node;

impl<M: Machine> Programs<M> for Node {
    fn check(program: &str) -> Result<(), String> {
        match program {
            "boot" | "serve" => Ok(()),
            other => Err(format!("no program {other}: this image boots a node or lets it serve")),
        }
    }

    fn start(core: &Core<M>, program: &str) {
        deploy(core);
        match program {
            "serve" => core.boot_and_serve(),
            _ => core.boot_and_report(),
        }
    }
}

/// Starts the services of a core: those that its roles and the node's configuration give it.
pub fn deploy<M: Machine>(core: &Core<M>) -> Join<()> {
    let node = core.clone();
    core.spawn(async move {
        let (stl, roles) = (node.stl(), node.roles());
        nile_services::deploy_offered(&stl, roles, |name| node.offers(name)).await;
    })
}

/// The configuration in `text`, which names no services but those that there are.
pub fn configuration(text: &str) -> Result<Config, ConfigError> {
    let config = Config::parse(text)?;
    config.check_services(SERVICES.iter().map(|service| service.name()))?;
    config.check_role_policy(nile_services::role_policies())?;
    Ok(config)
}

/// The roles of each of `cores` cores, of which those that drive the network have the protocols
/// that the configuration places.
pub fn roles(config: &Config, cores: usize) -> Result<Vec<RoleSet>, ConfigError> {
    let roles = config.roles(cores)?;
    let protocols = nile_services::PROTOCOLS.iter().map(|service| service.name());
    config.check_protocols(protocols, &roles)?;
    Ok(roles)
}
