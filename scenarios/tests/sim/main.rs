//! Nodes in the simulator: scenarios under many seeds, both ways of waking, with faults.
//!
//! * [`scenarios`]: every scenario of one node.
//! * [`packages`]: those of packages, linked in.
//! * [`domains`]: a machine that is shared out.
//! * [`cluster`]: several nodes with a switch between them.
//! * [`hostile`]: packages that mean harm.
//! * [`shifting`]: cores that leave, come and change roles.
//! * [`interleavings`]: what was wrong once.

mod cluster;
mod domains;
mod hostile;
mod interleavings;
mod packages;
mod scenarios;
mod shifting;

use std::time::Duration;

use nile_kernel::{Config, Report};
use nile_platform::Outcome;
use nile_platform_sim::{Faults, Finished, Options};

/// A node of so many cores, without packages and faults.
fn options(seed: u64, cores: usize) -> Options {
    Options {
        seed,
        roles: Config::default().roles(cores).expect("the default fits any number of cores"),
        memory_bytes: 64 << 20,
        pool_bytes: 0,
        wake_mode: None,
        packages: Vec::new(),
        disks: Vec::new(),
        files: Vec::new(),
        faults: Faults::default(),
        limit: Duration::from_secs(120),
    }
}

/// The report of a run, which must say that all held.
fn passed(finished: &Finished, command: &str, seed: u64) -> Report {
    let [document] = finished.reports.as_slice() else {
        panic!("{command}, seed {seed}: {} reports", finished.reports.len());
    };
    let report: Report = serde_json::from_str(document).expect("the report is the contract's");
    if let Some(program) = &report.program {
        let log = finished.log.join("\n");
        assert!(program.passed, "{command}, seed {seed}: {program:?}\n{log}");
    }
    assert_eq!(finished.outcome, Outcome::Success, "{command}, seed {seed}");
    report
}
