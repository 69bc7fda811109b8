//! `nile boot --machine sim`: a node in the simulator, inside this process: the same seed gives the
//! same run.

use nile_platform::Outcome;
use nile_platform_sim::{DiskOptions, Faults, MachineOptions, Options, simulate, simulate_machine};

use nile_cli::args::Boot;
use nile_cli::boot::{self, Ran};
use nile_cli::config;
use nile_cli::disk::Disk;
use nile_cli::failure::Failure;

/// The seed when none is given.
const DEFAULT_SEED: u64 = 1;

/// Simulates the node that `options` describe and prints its report.
pub fn run(options: &Boot) -> Result<(), Failure> {
    check(options)?;
    boot::show(options, simulated(options)?)
}

/// Refuses what no simulated node could do.
pub fn check(options: &Boot) -> Result<(), Failure> {
    boot::check(options)?;
    nile_scenarios::check(options.program.as_str())
        .map_err(|error| Failure::request(format!("--program: {error}")))
}

/// Simulates a node to its end. `--limit` counts in virtual time.
fn simulated(options: &Boot) -> Result<Ran, Failure> {
    let mut config = config::read(options.config.as_ref())?;
    let file = options.config.as_ref().map(config::File::path);
    config.packages = nile_sim::STORE;
    let whole = (options.cores, options.memory.0);
    let (cores, memory) = config::own_part(file, &config, whole)?;
    let run = Options {
        seed: options.seed.unwrap_or(DEFAULT_SEED),
        roles: config::roles(file, &config, cores)?,
        memory_bytes: memory,
        pool_bytes: config::pool(file, &config, memory)?,
        wake_mode: None,
        packages: nile_sim::PACKAGES.to_vec(),
        disks: disks(options)?,
        files: Vec::new(),
        faults: Faults::default(),
        limit: options.limit,
    };
    let program = options.program.as_str();
    let ended = match config.supervisor {
        None => simulate(&run, |machine| nile_sim::scenario(machine, &config, program)),
        Some(kept) => {
            let (cores, memory) = (whole.0 - cores, whole.1 - memory);
            let parts = kept.parts.map_or((0, 0), |parts| (parts.count, parts.bytes));
            let machine = MachineOptions { supervisor: run, cores, memory, parts, zeroes: false };
            simulate_machine(&machine, &nile_sim::Nodes { config: &config, command: program })
        }
    };
    match ended {
        Ok(finished) => {
            finished.log.iter().for_each(|line| nile_cli::say(format_args!("{line}")));
            nile_cli::say(format_args!(
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
            stuck.log.iter().for_each(|line| nile_cli::say(format_args!("{line}")));
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
