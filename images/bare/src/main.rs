//! The bare image: the one place that sees both the kernel and the x86_64 platform.
#![no_std]
#![no_main]

extern crate alloc;

mod runtime;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_abi::RoleSet;
use nile_kernel::{Config, ConfigError};
use nile_package::BootModule;
use nile_platform::Outcome;
use nile_platform_x86_64::{Core, Image};

/// What the platform calls, found by its name.
#[unsafe(no_mangle)]
static NILE_IMAGE: Image = Image { roles, run };

/// On the boot path: whether the node can do what it is asked for, and which core does what.
fn roles(module: &'static [u8], program: &str, cores: usize) -> Result<Vec<RoleSet>, String> {
    nile_scenarios::check(program).map_err(|error| error.to_string())?;
    let module = BootModule::parse(module).map_err(|error| error.to_string())?;
    let config = Config::parse(module.config).map_err(|error| name_line(&error))?;
    nile_scenarios::check_services(&config).map_err(|error| name_line(&error))?;
    config.roles(cores).map_err(|error| name_line(&error))
}

fn name_line(ConfigError { line, message }: &ConfigError) -> String {
    match line {
        Some(line) => format!("nile.toml:{line}: {message}"),
        None => format!("nile.toml: {message}"),
    }
}

/// One core's whole life.
fn run(machine: Core, module: &'static [u8], program: &str) -> Outcome {
    const PARSED: &str = "the boot path has parsed it";
    let module = BootModule::parse(module).expect(PARSED);
    let mut config = Config::parse(module.config).expect(PARSED);
    config.packages = module.packages;
    nile_kernel::run(machine, &config, |core| nile_scenarios::start(core, program))
}
