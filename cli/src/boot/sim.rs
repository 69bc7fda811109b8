//! A node in the simulator, inside this process: the same seed gives the same run.

use nile_platform::Outcome;
use nile_platform_sim::{DiskOptions, Faults, Options, simulate};

use super::Ran;
use crate::args::Boot;
use crate::config;
use crate::disk::Disk;
use crate::failure::Failure;

/// The seed when none is given.
const DEFAULT_SEED: u64 = 1;

/// Simulates a node to its end. `--limit` counts in virtual time.
pub fn boot(options: &Boot) -> Result<Ran, Failure> {
    let mut config = config::read(options.config.as_ref())?;
    let file = options.config.as_ref().map(config::File::path);
    config.packages = nile_sim::STORE;
    let run = Options {
        seed: options.seed.unwrap_or(DEFAULT_SEED),
        roles: config::roles(file, &config, options.cores)?,
        memory_bytes: options.memory.0,
        pool_bytes: config::pool(file, &config, options.memory.0)?,
        wake_mode: None,
        packages: nile_sim::PACKAGES.to_vec(),
        disks: disks(options)?,
        faults: Faults::default(),
        limit: options.limit,
    };
    let program = options.program.as_str();
    match simulate(&run, |machine| nile_sim::scenario(machine, &config, program)) {
        Ok(finished) => {
            finished.log.iter().for_each(|line| crate::say(format_args!("{line}")));
            crate::say(format_args!(
                "trace {:016x}, {} events",
                finished.trace_hash, finished.events
            ));
            let outcome = match finished.outcome {
                Outcome::Success => Ok(()),
                Outcome::Failure => {
                    Err(Failure::failed("the simulated node failed; its log is above"))
                }
            };
            Ok((finished.reports.into_iter().next_back(), outcome))
        }
        Err(stuck) => {
            stuck.log.iter().for_each(|line| crate::say(format_args!("{line}")));
            Err(Failure::failed(stuck.to_string()))
        }
    }
}

/// Simulated disks begin empty and end with the run.
fn disks(options: &Boot) -> Result<Vec<DiskOptions>, Failure> {
    let disk = |disk: &Disk| match disk {
        Disk::Fresh(bytes) => Ok(DiskOptions { bytes: bytes.0, ..DiskOptions::default() }),
        Disk::File(..) => {
            Err(Failure::request("--disk: a simulated disk is no file; give it a size, as 64M"))
        }
    };
    options.disks.iter().map(disk).collect()
}
