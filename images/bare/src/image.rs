//! What the platform calls, for an image that runs some set of programs.

use alloc::format;
use alloc::string::{String, ToString};

use nile_kernel::{Config, ConfigError};
use nile_package::BootModule;
use nile_platform::Outcome;
use nile_platform_x86_64::{Core, Image, Plan};

/// The programs that a node can be started for.
pub trait Programs {
    /// Whether there is a program of this name, else what there is.
    fn check(program: &str) -> Result<(), String>;

    /// Starts a core's part of a program.
    fn start(core: &nile_kernel::Core<Core>, program: &str);
}

/// The image that runs these programs.
pub const fn image<P: Programs>() -> Image {
    Image { plan: plan::<P>, run: run::<P> }
}

/// On the boot path: whether the node can do what it is asked for, and what its cores and memory
/// are for.
fn plan<P: Programs>(
    module: &'static [u8],
    program: &str,
    cores: usize,
    memory: u64,
) -> Result<Plan, String> {
    P::check(program)?;
    let module = BootModule::parse(module).map_err(|error| error.to_string())?;
    let config = Config::parse(module.config).map_err(|error| name_line(&error))?;
    let services = nile_services::ALL.iter().map(|service| service.name());
    config.check_services(services).map_err(|error| name_line(&error))?;
    let roles = config.roles(cores).map_err(|error| name_line(&error))?;
    let protocols = nile_services::PROTOCOLS.iter().map(|service| service.name());
    config.check_protocols(protocols, &roles).map_err(|error| name_line(&error))?;
    let pool = config.pool_bytes(memory).map_err(|error| name_line(&error))?;
    Ok(Plan { roles, pool })
}

fn name_line(ConfigError { line, message }: &ConfigError) -> String {
    match line {
        Some(line) => format!("nile.toml:{line}: {message}"),
        None => format!("nile.toml: {message}"),
    }
}

/// One core's whole life.
fn run<P: Programs>(machine: Core, module: &'static [u8], program: &str) -> Outcome {
    const PARSED: &str = "the boot path has parsed it";
    let module = BootModule::parse(module).expect(PARSED);
    let mut config = Config::parse(module.config).expect(PARSED);
    config.packages = module.packages;
    nile_kernel::run(machine, &config, |core| P::start(core, program))
}
