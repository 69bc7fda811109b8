//! The launcher where something is missing that it builds with: it does without, or says what to
//! do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::support::{launcher, root, run};

/// A folder with this machine's programs but those whose names begin so.
fn programs(without: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for directory in std::env::split_paths(&path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !without.iter().any(|it| name.to_string_lossy().starts_with(it)) {
                // The first of a name on the path wins.
                let _ = symlink(entry.path(), folder.path().join(name));
            }
        }
    }
    folder
}

/// Writes a program for a shell.
fn script(file: &Path, text: &str) {
    let _ = fs::remove_file(file);
    fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// The launcher sees every program of this machine but QEMU, and someone who is not root.
#[test]
fn without_qemu_and_root_the_launcher_says_what_to_run() {
    let folder = programs(&["qemu-system"]);
    script(&folder.path().join("id"), "echo 1000");
    let said = run(launcher().env("PATH", folder.path()), &["boot"]).expect(2);
    let command =
        "QEMU is missing; run: sudo apt-get update && sudo apt-get install -y qemu-system";
    assert!(said.err.contains(command), "{}", said.err);
    assert_eq!(said.out, "");
}

#[test]
fn help_that_is_asked_of_the_launcher_is_the_commands() {
    for arguments in [["--help"], ["-h"], ["help"]] {
        let said = run(&mut launcher(), &arguments).expect(0);
        assert!(said.out.contains("Usage: nile <COMMAND>"), "{arguments:?}: {}", said.out);
    }
    let said = run(&mut launcher(), &[]).expect(2);
    assert!(said.err.contains("Usage: nile <COMMAND>"), "{}", said.err);
}

#[test]
fn a_search_path_is_not_needed() {
    for path in [None, Some(""), Some("/nonexistent")] {
        let mut command = launcher();
        match path {
            Some(path) => command.env("PATH", path),
            None => command.env_remove("PATH"),
        };
        let said = run(&mut command, &["--version"]).expect(0);
        assert!(said.out.starts_with("nile "), "{}{}", said.out, said.err);
    }
}

#[test]
fn a_closed_output_loses_nothing_in_silence() {
    let nile = root().join("nile");
    let closed = |ends: &str| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec \"$0\" --version {ends}")).arg(&nile);
        run(&mut shell, &[])
    };
    let said = closed(">&-").expect(1);
    assert!(said.err.starts_with("nile: cannot write the result: No space"), "{}", said.err);
    closed("2>&-").expect(0);
}

/// A source tree whose only program is built; its source; and a search path without Rust.
struct Tree {
    folder: TempDir,
    path: TempDir,
}

impl Tree {
    fn new() -> Tree {
        let folder = tempfile::Builder::new().prefix("a tree ").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("target/debug")).unwrap();
        fs::copy(root().join("nile"), at("nile")).unwrap();
        fs::copy(root().join("Cargo.toml"), at("Cargo.toml")).unwrap();
        fs::write(at("main.rs"), "").unwrap();
        script(&at("target/debug/nile"), "[ $1 = needs ] || echo \"it runs $*\"");
        let spaced = |name: &str| at(name).to_str().unwrap().replace(' ', "\\ ");
        let text = format!("{}: {}\n", spaced("target/debug/nile"), spaced("main.rs"));
        fs::write(at("target/debug/nile.d"), text).unwrap();
        Tree { folder, path: programs(&["cargo", "rust", "apt", "sudo"]) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launcher(&self) -> Command {
        let mut command = Command::new(self.at("nile"));
        command.env("NILE_PROFILE", "dev").env("PATH", self.path.path());
        command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_HOME");
        command.env("HOME", self.folder.path());
        command
    }
}

#[test]
fn without_rust_what_is_built_and_unchanged_is_used() {
    let tree = Tree::new();
    let said = run(&mut tree.launcher(), &["up", "now"]).expect(0);
    assert_eq!((&said.out[..], &said.err[..]), ("it runs up now\n", ""));
    for name in ["main.rs", "Cargo.toml"] {
        let file = fs::File::options().write(true).open(tree.at(name)).unwrap();
        let now = SystemTime::now();
        file.set_modified(now + Duration::from_secs(60)).unwrap();
        let said = run(&mut tree.launcher(), &["up"]).expect(2);
        let advice = "or later is missing; install it from https://rustup.rs";
        assert!(said.err.contains(advice), "{name}: {}", said.err);
        file.set_modified(now - Duration::from_secs(60)).unwrap();
    }
    fs::remove_file(tree.at("main.rs")).unwrap();
    run(&mut tree.launcher(), &["up"]).expect(2);
}

#[test]
fn what_has_to_be_built_where_nothing_can_be_written_is_named() {
    let tree = Tree::new();
    let said = run(tree.launcher().env("CARGO_TARGET_DIR", "/proc/target"), &["up"]).expect(2);
    let expected = "nile has to be built, and /proc/target cannot be written; set CARGO_TARGET_DIR";
    assert!(said.err.contains(expected), "{}", said.err);
}
