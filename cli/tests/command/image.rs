//! The ISO image: it boots under both firmwares, and its file appears whole or not at all.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Said, launcher, nile, root, run};
use serde_json::Value;

/// Makes an image and boots it under `firmware`.
fn image_boots_under(firmware: &str) {
    let folder = tempfile::tempdir().unwrap();
    let iso = folder.path().join("nile.iso");
    let path = iso.to_str().unwrap();
    let config = folder.path().join("nile.toml");
    fs::write(&config, "[roles]\nmanagement = [0]\nnetwork = [0]\ndisk = [0]\nworker = 1\n")
        .unwrap();
    let made =
        run(&mut launcher(), &["image", "--iso", path, "--config", config.to_str().unwrap()])
            .expect(0);
    assert!(made.out.starts_with(path), "{}", made.out);
    let request = ["boot", "--json", "--cores", "2", "--iso", path, "--firmware", firmware];
    let said = run(&mut launcher(), &request).expect(0);
    let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
    let roles: Vec<&Value> =
        report["cores"].as_array().unwrap().iter().map(|core| &core["roles"]).collect();
    let expected = serde_json::json!([["management", "network", "disk"], ["worker"]]);
    assert_eq!(serde_json::json!(roles), expected, "the image's configuration is in force");
}

#[test]
fn the_image_boots_under_bios() {
    image_boots_under("bios");
}

#[test]
fn the_image_boots_under_uefi() {
    image_boots_under("uefi");
}

/// The names in `folder`, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes an image of any file, in place of the kernel, when no file may grow past `limit`
/// 512-byte blocks; with too few it is as on a disk that is full.
fn make(iso: &Path, limit: &str) -> Said {
    let script = format!("ulimit -f {limit}; exec \"$0\" image --iso \"$1\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_nile")]).arg(iso);
    run(command.env("NILE_KERNEL", root().join("README.md")), &[])
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let iso = folder.path().join("nile.iso");
    for before in [None, Some("the old image")] {
        if let Some(content) = before {
            fs::write(&iso, content).unwrap();
        }
        let said = make(&iso, "2048").expect(1);
        assert!(said.err.contains("grub-mkrescue"), "{}", said.err);
        assert_eq!(fs::read_to_string(&iso).ok().as_deref(), before);
        assert_eq!(names(folder.path()), Vec::from_iter(before.map(|_| "nile.iso")));
    }
    make(&iso, "unlimited").expect(0);
    assert!(fs::metadata(&iso).unwrap().len() > 1 << 20);
    assert_eq!(names(folder.path()), ["nile.iso"]);
}

#[test]
fn without_a_name_the_image_is_made_in_the_present_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = nile();
    command.env("NILE_KERNEL", root().join("README.md")).current_dir(folder.path());
    let said = run(&mut command, &["image"]).expect(0);
    assert!(said.out.starts_with("nile.iso: "), "{}", said.out);
    assert_eq!(names(folder.path()), ["nile.iso"]);
}
