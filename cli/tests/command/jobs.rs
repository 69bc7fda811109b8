//! Jobs as people run them: on a cluster that is started for them, and on one that is up, whole or
//! broken in the midst. What they make is checked by another program in another language.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::{Place, document, hosted, refused, send};
use crate::support::{Said, launcher, root, run};

/// The folder with the packages, built as the launcher builds them: for a job that runs.
fn packages() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(given) = std::env::var_os("NILE_PACKAGES") {
            return given.into();
        }
        let place = Place::new();
        let mut command = launcher();
        place.in_here(&mut command);
        let text = root().join("LICENSE-MIT");
        let said = run(&mut command, &["run", "wordcount", text.to_str().unwrap()]).expect(0);
        assert!(said.out.lines().any(|line| line.starts_with("Software\t")), "{}", said.out);
        hosted().parent().unwrap().parent().unwrap().join("packages/elf")
    })
}

/// The command with all that jobs need.
fn nile(place: &Place) -> Command {
    let mut command = place.nile();
    command.env("NILE_PACKAGES", packages());
    command
}

fn job(place: &Place, arguments: &[&str]) -> Said {
    run(&mut nile(place), &[&["run"], arguments].concat())
}

/// Three nodes with a worker core each.
fn cluster() -> Place {
    let place = Place::new();
    let nodes = ["up", "--machine", "hosted", "--nodes", "3", "--cores", "3", "--memory", "256M"];
    place.run(&[&nodes[..], &["--disk", "512M", "--pool", "96M"]].concat()).expect(0);
    place
}

/// What the independent program says of results.
fn checked(arguments: &[&str]) -> Value {
    let script = root().join("tests/check_results.py");
    let mut command = Command::new("python3");
    let said = run(command.arg(script), arguments).expect(0);
    serde_json::from_str(&said.out).expect("it prints a document")
}

/// The datasets that there are.
fn names(place: &Place) -> Vec<String> {
    let listed = place.json(&["ls"]);
    let listed = listed["datasets"].as_array().unwrap().iter();
    listed.map(|it| it["name"].as_str().unwrap().to_string()).collect()
}

#[track_caller]
fn sorted(place: &Place, more: &[&str]) -> Value {
    let usual = ["terasort", "--size", "20M", "--json"];
    let sorted = document(&job(place, &[&usual, more].concat()).expect(0));
    assert_eq!((&sorted["valid"], &sorted["records"]), (&true.into(), &209_715.into()));
    sorted
}

/// On three nodes, by the step `jobs-long` of `./nile test --full`.
#[test]
fn on_three_nodes_what_jobs_make_is_right() {
    let place = cluster();
    let folder = tempfile::tempdir().unwrap();
    let [out, text] = ["out", "text"].map(|it| folder.path().join(it));
    let [out, text] = [&out, &text].map(|it| it.to_str().unwrap());

    let first = sorted(&place, &["--keep"]);
    for field in ["seconds", "imbalance", "peak_memory_bytes", "spilled_bytes", "retries"] {
        assert!(first[field].is_number(), "{field}: {first}");
    }
    let phases: Vec<&str> =
        first["phases"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(phases.starts_with(&["generating"]) && phases.ends_with(&["validating"]), "{phases:?}");
    place.run(&["get", "terasort.output", out]).expect(0);
    let checked_sort = checked(&["terasort", out]);
    assert_eq!(checked_sort["records"], 209_715);
    assert_eq!(checked_sort["checksum"], first["checksum"]);
    place.run(&["get", "terasort.input", out]).expect(0);
    refused(job(&place, &["terasort", "--size", "1M"]), "there is a dataset `terasort.input`");
    assert_eq!(
        sorted(&place, &["--name", "other", "--reducers", "2"])["checksum"],
        first["checksum"]
    );
    for name in ["terasort.input", "terasort.output", "terasort.report"] {
        place.run(&["rm", name]).expect(0);
    }

    let tight = ["terasort", "--size", "60M", "--memory", "16M", "--reducers", "1", "--json"];
    let spilled = document(&job(&place, &tight).expect(0));
    assert!(spilled["spilled_bytes"].as_u64() > Some(0), "{spilled}");

    let source = fs::read(root().join("cli/src/cluster/up.rs")).unwrap();
    fs::write(text, source.repeat(40)).unwrap();
    place.run(&["put", text, "text"]).expect(0);
    for given in ["text", text] {
        let counted = job(&place, &["wordcount", given]).expect(0);
        fs::write(out, &counted.out).unwrap();
        assert_eq!(checked(&["wordcount", text, out])["different"], 0);
    }
    job(&place, &["wordcount", "text", "--output", "counts"]).expect(0);
    place.run(&["get", "counts", out]).expect(0);
    assert_eq!(checked(&["wordcount", text, out])["different"], 0);
    assert_eq!(names(&place), ["counts", "text"], "nothing else is left");
    wrong_input(&place);
    interrupted(&place);
    assert_eq!(names(&place), ["counts", "text"], "nothing half-written is left");
}

/// What cannot be done, on a cluster that is up.
fn wrong_input(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short");
    fs::write(&short, vec![7; 250]).unwrap();
    let tera = packages().join("tera.elf");
    let [short, tera] = [&short, &tera].map(|it| it.to_str().unwrap());
    let cut =
        job(place, &[tera, "--samples", "1", "--input", short, "--output", "x", "sort"]).expect(1);
    assert!(cut.err.contains("100"), "it should name the length of a record: {}", cut.err);
    refused(job(place, &["terasort", "--size", "1M", "--reducers", "4"]), "3 worker cores");
    refused(job(place, &["wordcount", "no such text", "--output", "x"]), "no such text");
    refused(job(place, &[tera, "--input", "text", "--output", "counts", "sort"]), "`counts`");
    let full = job(place, &["terasort", "--size", "2G"]).expect(1);
    assert!(full.err.contains("full"), "{}", full.err);
}

/// Ctrl-C in the midst of a sort.
fn interrupted(place: &Place) {
    let mut command = nile(place);
    command.args(["run", "terasort", "--size", "200M", "--at", "sort:mapping=sleep 1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let is_sorting = || {
        let jobs = place.json(&["call", "job.list"]);
        jobs["reply"]["jobs"].as_array().unwrap().iter().any(|it| it["name"] == "sort")
    };
    let begun = Instant::now();
    while !is_sorting() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(50));
    }
    send("-INT", child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// What is done to the cluster when the sort comes to a phase.
fn at(phase: &str, faults: &str) -> String {
    let nile = env!("CARGO_BIN_EXE_nile");
    let commands: Vec<String> =
        faults.split(';').map(|fault| format!("{nile} fault {fault} >/dev/null")).collect();
    format!("sort:{phase}={}", commands.join(" && "))
}

/// On three nodes, by the step `jobs-long` of `./nile test --full`.
#[test]
fn on_three_nodes_a_sort_survives_whatever_dies_if_there_is_another_copy() {
    let place = cluster();
    let expected = sorted(&place, &["--copies", "2"])["checksum"].clone();
    for phase in ["mapping", "reducing"] {
        for dies in ["n2.c2", "n3", "n1"] {
            let hook = at(phase, &format!("kill {dies}"));
            let survived = sorted(&place, &["--copies", "2", "--at", &hook]);
            assert_eq!(survived["checksum"], expected, "{dies} died while {phase}");
            if !dies.contains('.') {
                place.run(&["fault", "restart", dies]).expect(0);
                // What the node has that was removed while it was away.
                for name in names(&place) {
                    place.run(&["rm", &name]).expect(0);
                }
            }
        }
    }
    let hook = at("mapping", "kill n2");
    let usual = ["terasort", "--size", "20M", "--at", &hook];
    let lost = job(&place, &usual).expect(1);
    assert!(lost.err.contains("terasort.input"), "it names what was lost: {}", lost.err);
    place.run(&["fault", "restart", "n2"]).expect(0);
    // Its share of the input was removed while it was away.
    assert_eq!(names(&place), ["terasort.input"], "nothing half-written is left");
    place.run(&["rm", "terasort.input"]).expect(0);
    assert_eq!(names(&place), Vec::<String>::new());
}

/// On a cluster that is started for it, and is gone afterwards with all that it had.
#[test]
fn a_sort_without_a_cluster_leaves_nothing() {
    let place = Place::new();
    let disks = tempfile::tempdir().unwrap();
    let folder = disks.path().to_str().unwrap();
    let said = job(&place, &["terasort", "--size", "10M", "--disk-folder", folder]).expect(0);
    assert!(said.out.contains("104857 records") && said.out.contains(", valid"), "{}", said.out);
    assert_eq!((place.left(), fs::read_dir(folder).unwrap().count()), (Vec::new(), 0));

    let mut command = nile(&place);
    command.args(["run", "terasort", "--size", "500M", "--disk-folder", folder]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    send("-INT", child.id());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!((place.left(), fs::read_dir(folder).unwrap().count()), (Vec::new(), 0));
}
