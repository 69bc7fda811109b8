//! `nile package`: packages that have a worker core, for themselves or with others, on a cluster of
//! three hosted nodes with one worker each that is up for other tests, too.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{job, packages};
use crate::cluster::{Place, refused};

const KEEP: u64 = (2 << 20) + 4096;

/// The same package with an instruction that is none where it begins.
fn broken(package: &Path, to: &Path) {
    let mut file = fs::read(package).unwrap();
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (entry, headers) = (word(24), word(32));
    let segments = (0..16).map(|number| headers + number * 56);
    let (offset, start) = segments
        .map(|at| (word(at + 8), word(at + 16), word(at + 32)))
        .find(|(_, start, bytes)| (*start..start + bytes).contains(&entry))
        .map(|(offset, start, _)| (offset, start))
        .unwrap();
    file[offset + entry - start..][..2].copy_from_slice(&[0x0f, 0x0b]);
    fs::write(to, file).unwrap();
}

/// On a cluster that is up; nothing of it is left.
pub fn check(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad keeper.elf");
    let keeper = packages().join("keeper.elf");
    broken(&keeper, &bad);
    let hello = packages().join("hello.elf");
    let [keeper, bad, hello] = [&keeper, &bad, &hello].map(|it| it.to_str().unwrap());
    let start = |more: &[&str]| {
        let argument = format!("{KEEP} hold");
        place.run(&[&["package", "start", keeper, "--argument", &argument], more].concat())
    };
    let listed = || place.json(&["package", "list"])["packages"].as_array().unwrap().clone();
    let keeps = |node: &str| {
        let call = ["call", "core_manager.keeps", "--core", node];
        place.json(&call)["reply"]["keeps"].as_array().unwrap().clone()
    };
    let said = start(&["--on", "n2.c2"]).expect(0).out;
    assert_eq!(said, "the package is started on n2.c2\n");
    let is_it = |it: &Value, begun: u64| {
        (&it["name"], &it["core"], &it["state"], &it["begun"])
            == (&"keeper".into(), &"n2.c2".into(), &"runs".into(), &begun.into())
    };
    assert!(matches!(&listed()[..], [it] if is_it(it, 1)), "{:?}", listed());
    refused(start(&["--on", "n2.c2"]), "keeper is on this core already");
    refused(start(&["--on", "n2.c0"]), "no worker core");
    beside(place);
    // What has the core is there, and jobs go by.
    let counted = job(place, &["wordcount", "text", "--output", "beside"]);
    counted.expect(0);
    place.run(&["rm", "beside"]).expect(0);

    let replace = |file| place.run(&["package", "replace", "keeper", file]);
    assert_eq!(replace(keeper).expect(0).out, "the package is replaced on n2.c2\n");
    assert!(matches!(&listed()[..], [it] if is_it(it, 2)), "{:?}", listed());
    let said = replace(bad).expect(1).err;
    assert!(said.contains("; the former one is run again"), "{said}");
    assert!(matches!(&listed()[..], [it] if is_it(it, 4)), "{:?}", listed());
    refused(replace(hello), "hello is another package");
    refused(place.run(&["package", "replace", "hello", hello]), "no core has a package hello");
    // What it keeps is there when it has ended, until it is dropped, and not while it has it.
    let drop = ["call", "core_manager.drop_keep", "name=keeper/count", "--core", "n2.c0"];
    assert!(place.run(&drop).expect(1).err.contains("a package has it"));
    let stopped = place.run(&["package", "stop", "n2.c2"]).expect(0).out;
    assert_eq!(stopped, "the package is stopped on n2.c2\n");
    assert!(listed().is_empty());
    let kept = keeps("n2.c0");
    assert_eq!((kept.len(), &kept[0]["bytes"]), (1, &KEEP.into()));
    place.run(&drop).expect(0);
    assert!(keeps("n2.c0").is_empty() && keeps("n1.c0").is_empty());
    refused(place.run(&["package", "stop", "keeper"]), "no core has a package keeper");
    // One that is done gives its core back; one that fails at once says why.
    let hold = place.run(&["package", "start", hello, "--argument", "hi", "--on", "n3.c2"]);
    hold.expect(0);
    let wrong = ["package", "start", keeper, "--argument", "nonsense", "--on", "n3.c2"];
    let said = place.run(&wrong).expect(1).err;
    assert!(said.contains("exited with 3"), "{said}");
    assert!(listed().is_empty());
}

/// Another package shares the keeper's core, for a while.
fn beside(place: &Place) {
    let unruly = packages().join("unruly.elf");
    let start = |more: &[&str]| {
        let words = ["package", "start", unruly.to_str().unwrap(), "--argument", "loop"];
        place.run(&[&words, more].concat())
    };
    refused(start(&["--on", "n2.c2"]), "keeper has this core; --share runs unruly beside");
    refused(start(&["--share"]), "--on");
    start(&["--on", "n2.c2", "--share"]).expect(0);
    shown(place);
    refused(place.run(&["package", "stop", "n2.c2"]), "name one: n2.c2/keeper, n2.c2/unruly");
    refused(place.run(&["package", "stop", "n2.c2/none"]), "has keeper and unruly, and not none");
    place.run(&["package", "stop", "n2.c2/unruly"]).expect(0);
}

/// What the two that share n2.c2 have and have used is in the state of the cluster.
fn shown(place: &Place) {
    let status = place.json(&["status"]);
    let packages = |node: usize, core: usize| {
        let core = &status["nodes"][node]["cores"][core];
        core["packages"].as_array().cloned().unwrap_or_else(|| panic!("no packages: {core}"))
    };
    let both = packages(1, 2);
    let names: Vec<&str> = both.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["keeper", "unruly"]);
    let [keeper, unruly] = &both[..] else { panic!("{both:?}") };
    assert!(keeper["memory_bytes"].as_u64() >= Some(1) && keeper["state"] == "runs", "{keeper}");
    assert!(keeper["system_calls"].as_u64() >= Some(1), "{keeper}");
    assert!(unruly["busy_us"].as_u64() >= Some(1), "it loops: {unruly}");
    assert!(packages(0, 2).is_empty() && packages(1, 0).is_empty());
    let text = place.run(&["status"]).expect(0).out;
    for name in ["keeper", "unruly"] {
        let row = |it: &&str| it.starts_with("n2.c2") && it.contains(name) && it.contains("KiB");
        assert_eq!(text.lines().filter(row).count(), 1, "{text}");
    }
}
