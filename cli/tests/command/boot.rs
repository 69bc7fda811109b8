//! One node on every machine, from the launcher to the report, as the contract for tools has it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use crate::support::{launcher, launcher_again, root, run};
use serde_json::Value;

/// Boots a node and gives its report.
#[track_caller]
fn boot(arguments: &[&str]) -> Value {
    let request = [&["boot", "--json"], arguments].concat();
    let said = run(&mut launcher(), &request).expect(0);
    assert_eq!(said.out.lines().count(), 1, "one document and nothing else: {}", said.out);
    serde_json::from_str(&said.out).expect("the document is JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

/// Checks everything that the contract says about the report of a node with `cores` cores.
#[track_caller]
fn check(report: &Value, machine: &str, cores: usize) {
    assert_eq!(report["machine"], machine);
    let boot_us = number(&report["boot_us"]);
    let steps = list(&report["steps"]);
    assert!(!steps.is_empty() && steps.iter().all(|step| step["name"].is_string()));
    let sum: u64 = steps.iter().map(|step| number(&step["us"])).sum();
    // Each step is rounded to a microsecond.
    assert!(sum <= boot_us + steps.len() as u64, "steps take {sum} of {boot_us} us");
    let memory = &report["memory"];
    assert!(0 < number(&memory["free_bytes"]));
    assert!(number(&memory["free_bytes"]) <= number(&memory["total_bytes"]));
    let listed = list(&report["cores"]);
    assert_eq!(listed.len(), cores);
    for (id, core) in listed.iter().enumerate() {
        assert_eq!(number(&core["id"]), id as u64);
        assert!(!list(&core["roles"]).is_empty());
        assert_eq!(number(&core["generation"]), 1);
        assert_eq!(core["state"], "running");
        assert!(core["interrupts"].as_object().is_some_and(|causes| causes.contains_key("tick")));
    }
    let hardware: BTreeSet<u64> = listed.iter().map(|core| number(&core["hardware_id"])).collect();
    assert_eq!(hardware.len(), cores, "every core has a name of its own");
    assert!(list(&listed[0]["roles"]).contains(&"management".into()));
}

#[test]
fn qemu_boots_with_any_number_of_cores() {
    for cores in [1, 2, 4, 64] {
        let report = boot(&["--cores", &cores.to_string()]);
        let machine = report["machine"].as_str().unwrap_or_default();
        assert!(["qemu", "kvm"].contains(&machine), "{machine}");
        check(&report, machine, cores);
        let total = number(&report["memory"]["total_bytes"]);
        assert!((400 << 20..=512 << 20).contains(&total), "{total} bytes of 512 MiB");
        let image = number(&report["image_bytes"]);
        assert!((1..=4 << 20).contains(&image), "the image has {image} bytes");
    }
}

#[test]
fn hosted_boots_with_any_number_of_cores() {
    for cores in [1, 4] {
        let cores_text = cores.to_string();
        check(&boot(&["--machine", "hosted", "--cores", &cores_text]), "hosted", cores);
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let simulate = |seed| boot(&["--machine", "sim", "--cores", "4", "--seed", seed]);
    let report = simulate("7");
    check(&report, "sim", 4);
    assert_eq!(report, simulate("7"));
    assert_ne!(report, simulate("8"));
}

#[test]
fn the_configuration_gives_the_roles_on_every_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nile.toml");
    let roles = "[roles]\nmanagement = 1\nnetwork = [2]\ndisk = [2]\nworker = 1\n";
    // As large as one may be, in bytes and in what they say.
    let lines = "\n".repeat(4000);
    let comment = "#".repeat((16 << 10) - lines.len() - roles.len() - 1);
    fs::write(&file, format!("{lines}{roles}{comment}\n")).unwrap();
    for machine in ["qemu", "hosted", "sim"] {
        let config = file.to_str().unwrap();
        let report = boot(&["--machine", machine, "--cores", "3", "--config", config]);
        let roles: Vec<&Value> = list(&report["cores"]).iter().map(|core| &core["roles"]).collect();
        let expected = serde_json::json!([["management"], ["worker"], ["network", "disk"]]);
        assert_eq!(serde_json::json!(roles), expected, "{machine}");
    }
}

/// A configuration that can be read only once is in force on every machine, and everybody but the
/// command itself leaves it alone.
#[test]
fn the_configuration_may_be_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[roles]\nmanagement = 1\nnetwork = [2]\ndisk = [2]\nworker = 1\n";
    fs::write(folder.path().join("file"), text).unwrap();
    let nile = root().join("nile");
    let (sim, qemu) = ("--machine sim", "--machine qemu");
    for script in [
        format!("cat file | \"$0\" boot {sim} --config /dev/stdin --cores 3 --json"),
        format!("\"$0\" boot {sim} --config /dev/stdin --cores 3 --json <file"),
        format!("\"$0\" boot {qemu} --config <(cat file) --cores 3 --json"),
        "mkfifo p; cat file >p & \"$0\" boot --machine hosted --config p --cores 3 --json".into(),
    ] {
        let mut command = Command::new("bash");
        command.args(["-c", &script]).arg(&nile).current_dir(folder.path());
        let said = run(&mut command, &[]).expect(0);
        let report: Value = serde_json::from_str(&said.out).expect("the document is JSON");
        let roles = list(&report["cores"]).iter().map(|core| &core["roles"]);
        let expected = serde_json::json!([["management"], ["worker"], ["network", "disk"]]);
        assert_eq!(serde_json::json!(Vec::from_iter(roles)), expected, "{script}");
    }
    let script = "\"$0\" up --machine hosted --config <(echo '[node]')";
    let mut command = Command::new("bash");
    let said = run(command.args(["-c", script]).arg(&nile), &[]).expect(2);
    assert!(said.err.contains(":1: [node] is written by `nile up`"), "{}", said.err);
}

#[test]
fn a_processor_that_lacks_something_is_told_on_the_serial_line() {
    for (cpu, lacks) in [("qemu64,-nx", "(NX)"), ("qemu64,-lm", "no long mode (x86_64)")] {
        let said = run(&mut launcher(), &["boot", "--cpu", cpu]).expect(1);
        let line = said.err.lines().find(|line| line.contains("does not start")).unwrap_or("");
        assert!(line.contains("this processor") && line.contains(lacks), "{}", said.err);
    }
}

/// Names of files that are not UTF-8 text, or mean something to QEMU, on every machine.
#[test]
fn files_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, number) in [&b"a\xffb.toml"[..], b"a,b:4M", b"-a b"].into_iter().zip(0..) {
        let name = OsStr::from_bytes(name);
        fs::write(
            folder.path().join(name),
            "[roles]\nmanagement = [0]\nnetwork = [0]\ndisk = [0]\nworker = 2\n",
        )
        .unwrap();
        for machine in ["qemu", "hosted", "sim"] {
            let mut command = if number == 0 { launcher() } else { launcher_again() };
            command.args(["boot", "--machine", machine, "--cores", "3", "--json"]);
            command.arg(joined("--config=", name)).current_dir(folder.path());
            if machine != "sim" {
                let disk = OsString::from_vec([b"disk ", name.as_bytes(), b":2M"].concat());
                command.arg(joined("--disk=", &disk));
            }
            let said = run(&mut command, &[]).expect(0);
            let report: Value = serde_json::from_str(&said.out).expect("the document is JSON");
            let role = &report["cores"][2]["roles"];
            assert_eq!(role, &serde_json::json!(["worker"]), "{name:?} on {machine}");
        }
        let disk = OsString::from_vec([b"disk ", name.as_bytes()].concat());
        assert_eq!(fs::metadata(folder.path().join(disk)).unwrap().len(), 2 << 20);
    }
}

fn joined(option: &str, value: &OsStr) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(value);
    argument
}

#[test]
fn a_person_gets_tables() {
    let said = run(&mut launcher(), &["boot", "--cores", "4"]).expect(0);
    for part in ["booted in", "4 cores", "c3", "network, disk", "page tables"] {
        assert!(said.out.contains(part), "{part:?} is not in {}", said.out);
    }
}

#[test]
fn too_little_memory_is_refused_with_the_number() {
    for machine in ["qemu", "hosted"] {
        let request = ["boot", "--machine", machine, "--memory", "17M", "--cores", "64"];
        let said = run(&mut launcher(), &request).expect(2);
        for part in ["too little", "for 64 cores", " MiB"] {
            assert!(said.err.contains(part), "{machine} should say {part:?}: {}", said.err);
        }
        assert_eq!(said.out, "");
    }
}
