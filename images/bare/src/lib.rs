//! Bare images: the one place that sees both the kernel and the x86_64 platform. A program names
//! what its nodes can be started for; [`image`] is what the platform calls.
//!
//! * `runtime`: what a freestanding program must bring itself.
#![no_std]

extern crate alloc;

mod runtime;

use alloc::format;
use alloc::string::{String, ToString};

use nile_kernel::{Config, ConfigError};
use nile_node::Programs;
use nile_package::BootModule;
use nile_platform::Outcome;
use nile_platform_x86_64::{Core, Image, Keeps, Plan};

/// The image that runs these programs.
pub const fn image<P: Programs<Core>>() -> Image {
    Image { plan: plan::<P>, run: run::<P> }
}

/// On the boot path: whether the node can do what it is asked for, and what its cores and memory
/// are for.
fn plan<P: Programs<Core>>(
    module: &'static [u8],
    program: &str,
    cores: usize,
    memory: u64,
) -> Result<Plan, String> {
    P::check(program)?;
    let module = BootModule::parse(module).map_err(|error| error.to_string())?;
    let config = nile_node::configuration(module.config).map_err(|error| name_line(&error))?;
    let (mut own, mut memory) = (cores, memory);
    if let Some(kept) = config.supervisor {
        if kept.cores >= cores || kept.memory >= memory {
            let message = format!(
                "the supervisor leaves nothing of {cores} cores and {} MiB to domains",
                memory >> 20
            );
            return Err(name_line(&ConfigError { line: Some(kept.line), message }));
        }
        (own, memory) = (kept.cores, kept.memory);
    }
    let roles = nile_node::roles(&config, own).map_err(|error| name_line(&error))?;
    let pool = config.pool_bytes(memory).map_err(|error| name_line(&error))?;
    let keeps = config.supervisor.map(|kept| Keeps {
        memory: kept.memory,
        disks: kept.disks,
        parts: kept.parts.map(|parts| (parts.count, parts.bytes)),
    });
    Ok(Plan { roles, pool, keeps, is_guarded: config.is_guarded })
}

fn name_line(ConfigError { line, message }: &ConfigError) -> String {
    match line {
        Some(line) => format!("nile.toml:{line}: {message}"),
        None => format!("nile.toml: {message}"),
    }
}

/// One core's whole life.
fn run<P: Programs<Core>>(machine: Core, module: &'static [u8], program: &str) -> Outcome {
    const PARSED: &str = "the boot path has parsed it";
    let module = BootModule::parse(module).expect(PARSED);
    let mut config = Config::parse(module.config).expect(PARSED);
    config.packages = module.packages;
    nile_kernel::run(machine, &config, |core| P::start(core, program))
}
