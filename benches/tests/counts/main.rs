//! The instruction counts of the kernel's own operations, held against those that were accepted
//! (`benches/counts.toml`). They repeat exactly, so a change that makes one cheaper or dearer by
//! more than the tolerance shows at once, on any host, however busy it is.
#![forbid(unsafe_code)]

mod baseline;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use baseline::Baseline;
use serde_json::Value;

/// Set to anything, it makes the present figures the accepted ones.
const ACCEPT: &str = "NILE_ACCEPT_COUNTS";

/// What to do about figures that are not as accepted.
const REMEDY: &str =
    "run `NILE_ACCEPT_COUNTS=1 cargo test --package nile-benches --test counts` to accept them";

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies in the source tree").into()
}

/// What a command that must succeed prints.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.current_dir(root()).output().expect("the command can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
    String::from_utf8(output.stdout).expect("it prints text")
}

/// The present figures: instructions for one operation, in hundredths.
fn measure() -> BTreeMap<String, u64> {
    figures(&["--program", "counts"])
}

/// What a page of memory that comes and goes costs a domain: with a guard, and without.
fn measure_pages() -> [u64; 2] {
    let config = root().join("benches/tests/counts/supervisor.toml").display().to_string();
    let machine = ["--cores", "2", "--memory", "256M", "--config", &config];
    let pages = figures(&[&machine[..], &["--program", "domain-pages"]].concat());
    ["page guarded", "page without"].map(|name| pages[name] * 100)
}

/// The figures of a program, on a machine that counts instructions.
fn figures(words: &[&str]) -> BTreeMap<String, u64> {
    let mut command = Command::new(root().join("nile"));
    let report = output(command.args(["boot", "--json", "--count-instructions"]).args(words));
    let report: Value = serde_json::from_str(&report).expect("a report is one JSON document");
    assert_eq!(report["program"]["passed"], true, "{report}");
    serde_json::from_value(report["program"]["figures"].clone()).expect("figures are numbers")
}

/// The compiler that builds the kernel, without the day on which it was made.
fn compiler() -> String {
    let version = output(Command::new("rustc").arg("--version"));
    version.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_counts_are_as_accepted() {
    let file = root().join("benches/counts.toml");
    let text = fs::read_to_string(&file).expect("the accepted counts are checked in");
    let baseline: Baseline = text.parse().expect("they can be read");
    let (mut measured, compiler) = (measure(), compiler());
    let [guarded, without] = measure_pages();
    assert!(guarded <= 2 * without, "the guard makes {guarded} of {without}");
    measured.extend([("page_guarded".into(), guarded), ("page_without".into(), without)]);
    if env::var_os(ACCEPT).is_some() {
        let accepted = baseline.accept(measured, compiler);
        return fs::write(&file, accepted.to_string()).expect("the accepted counts can be written");
    }
    let changes = baseline.changes(&measured, &compiler);
    assert!(changes.is_empty(), "\n{}\n{REMEDY}", changes.join("\n"));
}

#[test]
fn the_counts_repeat_exactly() {
    assert_eq!(measure(), measure());
}
