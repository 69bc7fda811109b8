//! The scenario `shifting` under a seed, which also says how many cores the node has, and how late
//! signals may come.

use std::time::Duration;

use nile_kernel::Config;
use nile_platform_sim::{DiskOptions, Faults, Finished, Options, Stuck, image, simulate};
use nile_scenarios::File;

use crate::{PACKAGES, STORE, scenario};

/// A node whose pool is small, whose roles are those of the configuration, and whose jobs have
/// the scenario's master.
const CONFIG: &str = "[pool]\nbytes = \"2M\"\nbuffer = \"32K\"\n[services]\njob = []\n";

/// What each job sorts.
const BLOCKS: u64 = 6;

/// Passes after which an image fails in the midst of its work.
const LATER: (u64, u64) = (200, 1500);

/// What goes wrong, so that something does not hold which must.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Nothing does.
    Nothing,
    /// Cores are ended by force where they would begin anew as planned.
    Force,
    /// Cores begin with the node's own image, whatever they were given.
    OwnImage,
}

/// Runs it to its end.
pub fn shifting(seed: u64, control: Control) -> Result<Finished, Stuck> {
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
        files: File::ALL.map(|it| file(it, seed)).into(),
        faults,
        limit: Duration::from_secs(120),
    };
    // What fails in the midst of its work may lose a call: only some seeds have it.
    let files = File::ALL.len() as u64 - u64::from(!seed.is_multiple_of(4));
    let force = u64::from(control == Control::Force);
    let command = format!("shifting seed={seed} force={force} files={files} blocks={BLOCKS}");
    simulate(&options, |machine| {
        let image = if control == Control::OwnImage { 0 } else { machine.image() };
        scenario(machine, &config, &format!("{command} image={image}"))
    })
}

/// What is handed to the node.
fn file(what: File, seed: u64) -> Vec<u8> {
    let label = format!("{what:?}");
    match what {
        File::FailsAtOnce => image::file(image::ABI, Some(0), &label),
        File::FailsLater => {
            let (least, most) = LATER;
            image::file(image::ABI, Some(least + seed * 37 % (most - least)), &label)
        }
        File::OtherAbi => image::file(image::ABI + 1, None, &label),
        File::NoImage | File::Missing => label.into(),
        File::First | File::Second => image::file(image::ABI, None, &label),
    }
}
