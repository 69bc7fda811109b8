//! The house rules that a program can check, over every file of the source tree. What the
//! compiler, rustfmt or clippy already refuse is not checked again.
//!
//! * [`source`]: the tree, and Rust files as tokens.
//! * [`text`]: lines, files, stubs, paths.
//! * [`markdown`]: documents: width, paragraphs, dates, links, paths, tests.
//! * [`unsafety`]: where unsafe code may stand, and its reasons.
//! * [`modules`]: every file is part of a crate.
//! * [`crates`]: who may know whom, and who may know the machine.
//!
//! A rule takes a tree and gives one line for each violation. Beside each rule is a test with a
//! sample that it must reject.

mod crates;
mod markdown;
mod modules;
mod source;
mod text;
mod unsafety;

use std::process::Command;

use source::Source;

/// What is wrong in a tree, as `path:line: what`.
type Rule = fn(&[Source]) -> Vec<String>;

fn holds(rule: Rule) {
    let tree = source::tree();
    assert!(tree.iter().any(|source| source.path == "tools/tidy/main.rs"), "no whole tree");
    let found = rule(&tree);
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

/// How many violations `rule` finds in a tree of these files, given as path and text.
fn violations(rule: Rule, files: &[(&str, &str)]) -> usize {
    let sources = files.iter().map(|(path, text)| Source::new(path, text));
    rule(&sources.collect::<Vec<_>>()).len()
}

/// What `cargo fmt` does not come to: services are found by the build script of their crate.
#[test]
fn services_are_formatted() {
    let tree = source::tree();
    let is_service = |path: &str| path.starts_with("services/") && path.ends_with(".rs");
    let services: Vec<&str> =
        tree.iter().map(|source| source.path.as_str()).filter(|path| is_service(path)).collect();
    assert!(services.contains(&"services/worker/engine.rs"), "no services");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024"]).args(services);
    rustfmt.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = rustfmt.output().expect("rustfmt is there: cargo fmt needs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn no_line_is_too_long() {
    holds(text::long_lines);
}

#[test]
fn no_file_is_too_long() {
    holds(text::long_files);
}

#[test]
fn every_file_says_what_it_is_for() {
    holds(text::unopened_files);
}

#[test]
fn no_stub_is_forgotten() {
    holds(text::stubs);
}

#[test]
fn no_file_names_a_place_on_somebody_s_machine() {
    holds(text::machine_paths);
}

#[test]
fn no_line_of_a_document_is_too_long() {
    holds(markdown::long_lines);
}

#[test]
fn no_paragraph_of_the_front_door_is_too_long() {
    holds(markdown::long_paragraphs);
}

#[test]
fn documents_say_what_is_and_not_when() {
    holds(markdown::dates);
}

#[test]
fn every_link_leads_somewhere() {
    holds(markdown::dead_links);
}

#[test]
fn every_path_in_a_document_is_there() {
    holds(markdown::missing_paths);
}

#[test]
fn every_test_in_a_table_is_there() {
    holds(markdown::missing_tests);
}

#[test]
fn unsafe_code_stays_in_its_islands() {
    holds(unsafety::outside_islands);
}

#[test]
fn every_other_crate_forbids_unsafe_code() {
    holds(unsafety::not_forbidden);
}

#[test]
fn every_unsafe_block_has_its_reason_above() {
    holds(unsafety::unexplained);
}

#[test]
fn every_file_is_part_of_a_crate() {
    holds(modules::unreached);
}

#[test]
fn kernel_and_platforms_do_not_know_each_other() {
    holds(crates::wrong_dependencies);
}

#[test]
fn packages_are_not_linked_with_services() {
    holds(crates::linked_services);
}

#[test]
fn crates_have_no_features() {
    holds(crates::features);
}

#[test]
fn only_platforms_and_images_know_the_target() {
    holds(crates::target_cfgs);
}
