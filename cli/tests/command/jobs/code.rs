//! What the authors of jobs get to see when their code is slow, loops, fails or panics: the package
//! `unsteady` does what its input says.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{job, packages};
use crate::cluster::Place;
use crate::support::{Said, run};

/// A package where the source tree's are built is built before it runs, one elsewhere is not.
#[test]
fn a_package_of_the_source_tree_runs_as_its_source_is() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let needs = |package: &Path| {
        let mut command = place.nile();
        command.env("NILE_PACKAGES", folder.path());
        run(&mut command, &["needs", "--", "run", package.to_str().unwrap()])
    };
    let builds = |said: Said| said.expect(0).out.lines().any(|line| line == "packages");
    assert!(builds(needs(&folder.path().join("not-yet-built.elf"))));
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::copy(packages().join("hello.elf"), elsewhere.path()).unwrap();
    assert!(!builds(needs(elsewhere.path())));
    assert!(needs(&elsewhere.path().join("none")).expect(2).err.contains("no file"));
}

/// Runs the package on these lines.
pub fn unsteady(place: &Place, lines: &str, more: &[&str]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let (input, package) = (folder.path().join("lines"), packages().join("unsteady.elf"));
    fs::write(&input, lines).unwrap();
    let [input, package] = [&input, &package].map(|it| it.to_str().unwrap());
    job(place, &[&[package, "--input", input], more].concat())
}

/// On a cluster that is up; nothing of it is left.
pub fn wrong_code(place: &Place) {
    for (lines, says) in [
        ("fine\ninput bad thing\n", &["map 0 failed: bad thing", "(block 0 of /"][..]),
        ("fine\ncode my fault\n", &["map 0 failed: my fault", "in the line \"code my fault\""]),
        (
            "panic oh no\n",
            &["unsteady ended: panicked at packages/unsteady/src/lib.rs:", ": oh no"],
        ),
        ("reduce input bad thing\n", &["reduce ", " failed: bad thing"]),
        ("reduce panic oh no\n", &["panicked at packages/unsteady/src/lib.rs:", ": oh no"]),
        ("loop\n", &["map 0 failed: it has done nothing for 1 s", "--task-timeout"]),
        ("reduce loop\n", &["it has done nothing for 1 s"]),
    ] {
        let said = unsteady(place, lines, &["--task-timeout", "1"]).expect(1);
        for text in says {
            assert!(said.err.contains(text), "no {text:?}: {}", said.err);
        }
    }
    let package = packages().join("unsteady.elf");
    let said = job(place, &[package.to_str().unwrap()]).expect(1);
    assert!(said.err.contains("add --input"), "{}", said.err);
}

/// What computes for longer than a worker may be silent runs once, and pieces come meanwhile.
pub fn slow_code(place: &Place) {
    let lines = "slow 3000\nreduce slow 3000 a\nreduce slow 3000 b\nreduce slow 3000 c\n";
    let said = unsteady(place, lines, &["--output", "slow", "--json"]).expect(0);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&document["records"], &document["retries"]), (&4.into(), &0.into()), "{document}");
    place.run(&["rm", "slow"]).expect(0);
}

/// After Ctrl-C what loops is stopped, and the next job has the workers.
pub fn interrupted_loop(place: &Place) {
    unsteady(place, "loop\n", &["--at", "unsteady:mapping=kill -INT $PPID"]).expect(130);
    let said = unsteady(place, "fine\nfine\n", &[]).expect(0);
    assert_eq!(said.out, "fine\t2\n");
}

/// After Ctrl-C a package that takes all buffers, writes to the log without end, or parks is
/// stopped, and the next job has the workers.
pub fn greedy_code(place: &Place) {
    let interrupt = ["--at", "unsteady:mapping=sleep 1; kill -INT $PPID"];
    for greed in ["hoard", "log", "park"] {
        unsteady(place, &format!("greedy {greed}\n"), &interrupt).expect(130);
        let said = unsteady(place, "fine\nfine\n", &[]).expect(0);
        assert_eq!(said.out, "fine\t2\n", "after {greed}");
    }
}
