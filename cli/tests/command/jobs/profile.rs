//! What `nile profile` writes of a sort: hosted and in QEMU, on clusters that are started for it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{INTERRUPT, nile, symbols};
use crate::cluster::{Place, document};
use crate::support::{launcher, run};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Sorts `size` on `nodes` nodes, and looks at what is said and at the timeline; what was said.
fn profiled(mut command: Command, size: &str, nodes: &str, more: &[&str], output: &Path) -> Value {
    let folder = output.to_str().unwrap();
    let what = ["profile", "terasort", "--size", size, "--nodes", nodes];
    let said = run(&mut command, &[&what, more, &["--output", folder, "--json"]].concat());
    let said = document(&said.expect(0));
    assert_eq!((&said["run"]["valid"], &said["lost_attempts"]), (&true.into(), &0.into()));
    let text = fs::read_to_string(output.join("timeline.json")).unwrap();
    let timeline: Value = serde_json::from_str(&text).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();

    // Every worker core has a row with its role.
    let nodes: u64 = nodes.parse().unwrap();
    let named = |it: &&Value| {
        it["name"] == "thread_name" && it["args"]["name"].as_str().unwrap().contains("worker")
    };
    let workers: Vec<u64> = events.iter().filter(named).map(|it| number(&it["tid"])).collect();
    let nodes_of: std::collections::BTreeSet<u64> =
        events.iter().filter(named).map(|it| number(&it["pid"])).collect();
    assert!(nodes_of.into_iter().eq(1..=nodes), "{timeline}");

    let end = |it: &Value| number(&it["ts"]) + number(&it["dur"]);
    let slices: Vec<&Value> = events.iter().filter(|it| it["ph"] == "X").collect();
    let jobs: Vec<&&Value> = slices.iter().filter(|it| it["cat"] == "job").collect();
    let names: Vec<&str> = jobs.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["generate", "sort", "validate"]);
    let phases = ["sampling", "mapping", "reducing"];
    let begun = phases.map(|phase| {
        let found = slices
            .iter()
            .find(|it| it["name"] == phase && number(&it["ts"]) >= number(&jobs[1]["ts"]));
        number(&found.unwrap_or_else(|| panic!("no {phase} in {timeline}"))["ts"])
    });
    assert!(begun.is_sorted(), "{begun:?}");
    for it in slices.iter().filter(|it| it["cat"] != "job") {
        let within =
            |job: &&&&Value| number(&job["ts"]) <= number(&it["ts"]) && end(it) <= end(job);
        assert!(jobs.iter().any(|job| within(&job)), "{it} is in no job");
    }
    let is_attempt = |it: &&&Value| it["cat"] != "job" && it["cat"] != "phase";
    let attempts: Vec<&&Value> = slices.iter().filter(is_attempt).collect();
    for worker in &workers {
        let mut own: Vec<_> = attempts.iter().filter(|it| number(&it["tid"]) == *worker).collect();
        own.sort_by_key(|it| (number(&it["ts"]), end(it)));
        assert!(own.windows(2).all(|two| end(two[0]) <= number(&two[1]["ts"])), "{own:?}");
    }
    assert!(attempts.iter().all(|it| workers.contains(&number(&it["tid"]))));

    // All that was mapped was read by some attempt, and the table has it too.
    let bytes = number(&said["run"]["bytes"]);
    let mapped = attempts.iter().filter(|it| {
        it["cat"] == "map" && it["args"]["job"] == "sort" && it["args"]["outcome"] == "done"
    });
    let mapped: u64 = mapped.map(|it| number(&it["args"]["bytes_read"])).sum();
    assert!(mapped >= bytes, "{mapped} of {bytes}");
    let cores = said["cores"].as_array().unwrap().iter();
    let busy: f64 = cores.map(|it| it["busy_seconds"].as_f64().unwrap()).sum();
    let took: u64 = attempts.iter().map(|it| number(&it["dur"])).sum();
    assert!((busy - took as f64 / 1e6).abs() < 1e-3, "{busy} s, but {took} us");
    said
}

/// Notes, while the job maps, which timers the processes of the place have.
fn timers(place: &Place, file: &Path) -> String {
    let command = "for it in /proc/[0-9]*; do grep -q PLACE $it/environ && cat $it/timers; done";
    let command = command.replace("PLACE", &place.folder().display().to_string());
    format!("sort:mapping=({command}) >{} 2>/dev/null; true", file.display())
}

/// Whether those are among them that sample: their signal is the second of those for programs.
fn samples(file: &Path) -> bool {
    fs::read_to_string(file).unwrap().contains("signal: 35/")
}

/// The stacks that were written, each with how often it was found.
fn stacks(output: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(output.join("samples.folded")).unwrap();
    let stack = |line: &str| {
        let (frames, periods) = line.rsplit_once(' ').unwrap();
        (frames.to_string(), periods.parse().unwrap())
    };
    text.lines().map(stack).collect()
}

#[test]
fn a_timeline_has_every_attempt_where_it_ran() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    profiled(nile(&place), "20M", "1", &[], folder.path());
    profiled(nile(&place), "20M", "2", &[], &folder.path().join("made"));
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Samples of the job's package, from its first function on. The compiler may put its `main` into
/// the function that calls it.
fn of_the_job(stacks: &[(String, u64)]) -> u64 {
    let way = ["worker;package;_start;nile_user::entry::start;", ";nile_tasks::stages::run;"];
    let is_its = |frames: &str| way.iter().all(|part| frames.contains(part));
    stacks.iter().filter(|(frames, _)| is_its(frames)).map(|(_, samples)| samples).sum()
}

#[test]
fn samples_say_in_which_functions_cores_were() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let (output, timed) = (folder.path().join("made"), folder.path().join("timers"));
    let mut command = nile(&place);
    command.env("NILE_PACKAGES_SYMBOLS", symbols());
    let said = profiled(command, "200M", "1", &["--at", &timers(&place, &timed)], &output);
    let sampled = &said["sampled"];
    assert_eq!((&sampled["lost_samples"], &sampled["unsampled_nodes"]), (&0.into(), &0.into()));
    assert!(samples(&timed));

    let stacks = stacks(&output);
    assert!(stacks.len() as u64 <= number(&sampled["samples"]));
    let of = |part: &str| -> u64 {
        stacks.iter().filter(|(frames, _)| frames.contains(part)).map(|(_, it)| it).sum()
    };
    let all: u64 = of("");
    // Most of a sort is the package's, and most of that is the crate's that sorts.
    assert!(of("worker;package;") > all / 3, "{stacks:?}");
    assert!(of_the_job(&stacks) > all / 4, "{stacks:?}");
    assert!(of("nile_sort::") > all / 20, "{stacks:?}");
    // A node's own functions have names too, though not what Linux and its libraries do for them.
    // Which are found is chance: a sort may pass without a sample in `nile_kernel` itself.
    assert!(of(";kernel;[") < of(";kernel;") * 9 / 10, "{stacks:?}");
    // Nobody computes longer than there was time for.
    let share = |role: &Value, names: [&str; 4]| -> f64 {
        names.iter().map(|it| role[format!("{it}_share")].as_f64().unwrap()).sum()
    };
    for role in sampled["roles"].as_array().unwrap() {
        let sum = share(role, ["package", "kernel", "linux", "idle"]);
        assert!((0.99..1.15).contains(&sum), "{role}");
    }
    let graph = fs::read_to_string(output.join("flame.svg")).unwrap();
    assert!(graph.contains("nile_sort::") && graph.trim_end().ends_with("</svg>"));
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn without_samples_no_core_has_a_timer_for_them() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let (output, timed) = (folder.path().join("made"), folder.path().join("timers"));
    fs::create_dir(&output).unwrap();
    for of_another_run in ["flame.svg", "samples.folded"] {
        fs::write(output.join(of_another_run), "old").unwrap();
    }
    let more = ["--rate", "0", "--at", &timers(&place, &timed)];
    let said = profiled(nile(&place), "20M", "1", &more, &output);
    assert_eq!((&said["not_sampled"], &said["sampled"]), (&"--rate 0".into(), &Value::Null));
    assert!(!samples(&timed));
    let written = fs::read_dir(&output).unwrap().map(|it| it.unwrap().file_name());
    assert_eq!(written.collect::<Vec<_>>(), ["timeline.json"]);
}

#[test]
fn a_cluster_that_was_up_before_is_not_sampled() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let up = ["up", "--machine", "hosted", "--nodes", "1", "--memory", "512M", "--disk", "256M"];
    place.run(&up).expect(0);
    let output = folder.path().to_str().unwrap();
    let what = ["profile", "terasort", "--size", "5M", "--output", output];
    let said = run(&mut nile(&place), &what).expect(0);
    assert!(said.out.contains("no flame graph: the cluster was up before"), "{}", said.out);
    assert!(!folder.path().join("flame.svg").exists());
    place.run(&["down"]).expect(0);
}

#[test]
fn a_profile_of_the_real_kernel_is_the_same() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let real = || {
        let mut command = launcher();
        place.in_here(&mut command);
        command
    };
    let said = profiled(real(), "16M", "1", &["--machine", "qemu"], folder.path());
    check_real(&said, folder.path());
    assert_eq!(place.left(), Vec::<String>::new());

    // A node that was up before is sampled as well, and not any more when the command has ended.
    let up = ["up", "--machine", "qemu", "--nodes", "1", "--memory", "320M", "--disk", "256M"];
    run(&mut real(), &up).expect(0);
    let output = folder.path().join("again");
    let what = ["profile", "terasort", "--size", "16M", "--output", output.to_str().unwrap()];
    let said = document(&run(&mut real(), &[&what[..], &["--json"]].concat()).expect(0));
    check_real(&said, &output);
    let ticks = || -> Vec<u64> {
        let said = document(&run(&mut real(), &["status", "--json"]).expect(0));
        let cores = said["nodes"][0]["cores"].as_array().unwrap().clone();
        let workers = cores.iter().filter(|it| it["roles"].to_string().contains("worker"));
        workers.map(|it| it["interrupts"]["tick"].as_u64().unwrap_or(0)).collect()
    };
    let before = ticks();
    assert!(!before.is_empty() && before.iter().all(|ticks| *ticks > 0), "{before:?}");
    thread::sleep(Duration::from_millis(200));
    assert_eq!(ticks(), before);
    run(&mut real(), &["down"]).expect(0);
}

/// Looks at what samples of a node in QEMU say.
fn check_real(said: &Value, output: &Path) {
    let sampled = &said["sampled"];
    assert_eq!((&sampled["lost_samples"], &sampled["unsampled_nodes"]), (&0.into(), &0.into()));
    let stacks = stacks(output);
    let of = |part: &str| -> u64 {
        stacks.iter().filter(|(frames, _)| frames.contains(part)).map(|(_, it)| it).sum()
    };
    assert_eq!(of(""), number(&sampled["samples"]));
    assert!(of_the_job(&stacks) > 0, "{stacks:?}");
    assert!(of("management;kernel;nile_") > 0 && of("nile_sort::") > 0, "{stacks:?}");
    let graph = fs::read_to_string(output.join("flame.svg")).unwrap();
    assert!(graph.contains("nile_sort::") && graph.trim_end().ends_with("</svg>"));
}

#[test]
fn an_interrupted_profile_leaves_nothing() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let what = ["profile", "terasort", "--size", "200M", "--at", INTERRUPT, "--output"];
    run(&mut nile(&place), &[&what[..], &[output.to_str().unwrap()]].concat()).expect(130);
    assert_eq!((place.left(), output.exists()), (Vec::new(), false));
}
