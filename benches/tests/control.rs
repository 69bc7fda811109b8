//! Every benchmark can miss its target: its control does.
#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies in the source tree").into()
}

fn benches(arguments: &[&str]) -> Output {
    // What the launcher says of where things lie; it builds the kernel when a node is booted.
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let kernel = root().join(target).join("x86_64-unknown-linux-gnu/bare/nile-bare");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nile-benches"));
    command.env("NILE_ROOT", root()).env("NILE_KERNEL_SYMBOLS", &kernel);
    command.env("NILE_KERNEL", kernel.with_extension("stripped"));
    command.args(arguments).output().expect("the benchmarks can be started")
}

/// The results that a run sends.
fn results(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let reports = text.lines().filter_map(|line| line.strip_prefix('\x1e'));
    reports.map(|report| serde_json::from_str(report).expect("a result is JSON")).collect()
}

/// How often controls are run before one that reached its target counts: a neighbour on the
/// machine may slow the peer down once, and a benchmark that cannot miss does so every time.
const RUNS: u32 = 3;

#[track_caller]
fn all_miss(names: &[&str]) {
    for run in 1..=RUNS {
        let output = benches(&[names, &["--control"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let results = results(&output);
        for name in names {
            let of_this = |result: &&Value| result["name"].as_str().unwrap().starts_with(name);
            assert!(results.iter().any(|result| of_this(&result)), "{name} has no result");
        }
        let Some(reached) = results.iter().find(|result| result["pass"] != false) else {
            return;
        };
        assert!(run < RUNS, "{reached}\n{said}");
    }
}

#[test]
fn the_controls_of_channels_miss() {
    all_miss(&["ring-poll", "ring-sleep", "ring-throughput"]);
}

#[test]
fn the_controls_of_memory_miss() {
    all_miss(&["mapping", "frames", "tables"]);
}

#[test]
fn the_control_of_messages_misses() {
    all_miss(&["bosml"]);
}

#[test]
fn the_control_of_the_registry_misses() {
    all_miss(&["registry", "compose"]);
}

#[test]
fn the_controls_of_what_cores_share_miss() {
    all_miss(&["sync-spread", "sync-mix", "sync-scan"]);
}

#[test]
fn the_controls_of_nodes_miss() {
    all_miss(&["boot-time", "cluster-up", "image-size", "idle", "tickless", "timers", "files"]);
}

#[test]
fn the_controls_of_calls_miss() {
    all_miss(&["call", "roles", "replace"]);
}

/// Clusters of up to three nodes sort again and again: the step `sort-control` of `--full`.
#[test]
fn the_controls_of_the_sort_miss() {
    all_miss(&["mixed-day", "sort"]);
}

#[test]
fn an_unknown_name_is_refused() {
    let output = benches(&["tabels"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("`tabels`") && said.contains("tables"), "{said}");
}
