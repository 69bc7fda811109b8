//! Every scenario on every machine: a node that was started for one reports whether all that it
//! checked held.

use std::fs;

use nile_scenarios::{PROGRAMS, needs_cluster};
use serde_json::Value;

use crate::support::{launcher, run};

/// Asks for the tick on workers too, which one scenario needs: it is the control of another.
const TICKS: &str = "[timer]\ntick_hz = 100\ntick_workers = true\n";

/// Gives the node a pool.
const POOL: &str = "[pool]\nbytes = \"4M\"\n";

#[track_caller]
fn all_hold_on(machine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let ticks = folder.path().join("ticks.toml");
    fs::write(&ticks, TICKS).unwrap();
    let pool = folder.path().join("pool.toml");
    fs::write(&pool, POOL).unwrap();
    // What boots is checked in more detail elsewhere, and so are clusters.
    let alone = |program: &&str| *program != "boot" && !needs_cluster(program);
    for program in PROGRAMS.into_iter().filter(alone) {
        let mut command = launcher();
        command.args(["boot", "--json", "--machine", machine, "--program", program]);
        match program {
            "ticked" => drop(command.arg("--config").arg(&ticks)),
            "pool" => drop(command.arg("--config").arg(&pool)),
            _ => {}
        }
        let said = run(&mut command, &[]).expect(0);
        let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
        let end = &report["program"];
        assert_eq!(end["name"], program);
        assert_eq!(end["passed"], true, "{machine} {program}: {end}");
    }
}

#[test]
fn all_scenarios_hold_in_the_simulator() {
    all_hold_on("sim");
}

#[test]
fn all_scenarios_hold_on_linux() {
    all_hold_on("hosted");
}

#[test]
fn all_scenarios_hold_in_qemu() {
    all_hold_on("qemu");
}
