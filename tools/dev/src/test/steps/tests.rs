//! Steps can be named, and every test program is run by one.

use super::*;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_step_can_be_named_and_run() {
    for (place, step) in STEPS.iter().enumerate() {
        assert!(!step.name.is_empty() && !step.what.is_empty() && !step.command.is_empty());
        assert!(STEPS[..place].iter().all(|other| other.name != step.name), "{}", step.name);
    }
}

#[test]
fn every_test_program_is_run_by_a_step() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = 0;
    for folder in ["*/tests", "crates/*/tests", "images/*/tests", "simulations/*/tests"] {
        for folder in folders(&root, folder) {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.expect("a folder of the source tree can be read").path();
                let is_program = match path.is_dir() {
                    true => path.join("main.rs").exists(),
                    false => path.extension().is_some_and(|it| it == "rs"),
                };
                if is_program {
                    let name = path.file_stem().expect("it has a name").to_string_lossy();
                    let runs = |step: &Step| {
                        let words: Vec<&str> = step.command.split_whitespace().collect();
                        words.windows(2).any(|it| it[0] == "--test" && it[1] == name)
                    };
                    assert!(STEPS.iter().any(runs), "no step runs {}", path.display());
                    found += 1;
                }
            }
        }
    }
    assert!(found > 10, "only {found} test programs were found");
}

/// The folders that a path with `*` for any name stands for.
fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    pattern.split('/').fold(vec![root.to_path_buf()], |bases, part| {
        let below = |base: PathBuf| match part {
            "*" => {
                let entries = fs::read_dir(&base).into_iter().flatten().flatten();
                entries.map(|entry| entry.path()).collect()
            }
            name => vec![base.join(name)],
        };
        bases.into_iter().flat_map(below).collect()
    })
}

/// The tests of the command line are chosen by their modules: none may be forgotten.
#[test]
fn every_module_of_the_commands_tests_is_run_by_a_step() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cli/tests/command");
    let has_test = |path: &Path| {
        fs::read_to_string(path).is_ok_and(|text| text.lines().any(|it| it.trim() == "#[test]"))
    };
    let main = fs::read_to_string(folder.join("main.rs")).expect("it can be read");
    let modules = main.lines().filter_map(|it| it.strip_prefix("mod ")?.strip_suffix(';'));
    let mut found = 0;
    for module in modules {
        let below = fs::read_dir(folder.join(module)).into_iter().flatten().flatten();
        let files = below.map(|it| it.path()).chain([folder.join(format!("{module}.rs"))]);
        if files.into_iter().any(|file| has_test(&file)) {
            let name = format!("{module}::");
            let runs = |step: &Step| {
                step.command.contains("--test command")
                    && step.command.split_whitespace().any(|it| it.starts_with(&name))
            };
            assert!(STEPS.iter().any(runs), "no step runs {module}");
            found += 1;
        }
    }
    assert!(found > 10, "only {found} modules were found");
}
