//! The scenario `shifting` under a seed, which also says how many cores the node has, and how late
//! signals may come.

use std::time::Duration;

use nile_kernel::Config;
use nile_platform_sim::{DiskOptions, Faults, Finished, Options, Stuck, simulate};

use crate::{PACKAGES, STORE, scenario};

/// A node whose pool is small, and whose roles are those of the configuration.
const CONFIG: &str = "[pool]\nbytes = \"2M\"\nbuffer = \"32K\"\n";

/// Runs it to its end. If `by_force`, cores are ended by force where they would begin anew as
/// planned: then what must hold does not.
pub fn shifting(seed: u64, by_force: bool) -> Result<Finished, Stuck> {
    let mut config = Config::parse(CONFIG).expect("the configuration is valid");
    config.packages = STORE;
    let cores = 3 + seed as usize % 5;
    let faults = Faults { signal_delay: Duration::from_micros(seed % 3 * 20), ..Faults::default() };
    let disk = DiskOptions { bytes: 16 << 20, ..DiskOptions::default() };
    let options = Options {
        seed,
        roles: config.roles(cores).expect("the default fits any number of cores"),
        memory_bytes: 64 << 20,
        pool_bytes: 2 << 20,
        wake_mode: None,
        packages: PACKAGES.into(),
        disks: vec![disk; 2],
        faults,
        limit: Duration::from_secs(120),
    };
    let command = format!("shifting seed={seed} force={}", u64::from(by_force));
    simulate(&options, |machine| scenario(machine, &config, &command))
}
