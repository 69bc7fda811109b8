//! One node on every machine, from the launcher to the report, as the contract for tools has it.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{launcher, run};
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
        assert!((1..=3 << 20).contains(&image), "the image has {image} bytes");
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
    fs::write(&file, "[roles]\nmanagement = 1\nnetwork = [2]\ndisk = [2]\nworker = 1\n").unwrap();
    for machine in ["qemu", "hosted", "sim"] {
        let config = file.to_str().unwrap();
        let report = boot(&["--machine", machine, "--cores", "3", "--config", config]);
        let roles: Vec<&Value> = list(&report["cores"]).iter().map(|core| &core["roles"]).collect();
        let expected = serde_json::json!([["management"], ["worker"], ["network", "disk"]]);
        assert_eq!(serde_json::json!(roles), expected, "{machine}");
    }
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
