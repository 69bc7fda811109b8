//! The ISO image: it boots under both firmwares, and its file appears whole or not at all.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use crate::support::{Said, launcher, launcher_again, nile, root, run};
use serde_json::{Value, json};

/// As the guide has it, and with a configuration: each with both firmwares.
#[test]
fn images_boot_under_bios_and_under_uefi() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (plain, own, config) = (at("plain.iso"), at("own,a:b.iso"), at("nile.toml"));
    fs::write(&config, "[roles]\nmanagement = [0]\nnetwork = [0]\ndisk = [0]\nworker = 2\n")
        .unwrap();
    let make = |iso: &str, more: &[&str]| {
        let made = run(&mut launcher(), &[&["image", "--iso", iso], more].concat()).expect(0);
        assert!(made.out.starts_with(iso), "{}", made.out);
    };
    make(&plain, &[]);
    make(&own, &["--config", &config]);
    let usual = json!([["management"], ["network", "disk"], ["worker"]]);
    let given = json!([["management", "network", "disk"], ["worker"], ["worker"]]);
    std::thread::scope(|scope| {
        for firmware in ["bios", "uefi"] {
            let images = [(&plain, &usual), (&own, &given)];
            scope.spawn(move || images.map(|(iso, roles)| boots(iso, firmware, roles)));
        }
    });
}

/// A long test, since another kernel is built for it.
#[test]
fn the_image_of_a_worker_boots() {
    let folder = tempfile::tempdir().unwrap();
    let iso = folder.path().join("worker.iso").to_str().unwrap().to_string();
    run(&mut launcher(), &["image", "--only", "worker", "--iso", &iso]).expect(0);
    boots(&iso, "bios", &json!([["management"], ["network", "disk"], ["worker"]]));
}

/// Boots an image, whose cores then have these roles.
#[track_caller]
fn boots(iso: &str, firmware: &str, roles: &Value) {
    let request = ["boot", "--json", "--cores", "3", "--iso", iso, "--firmware", firmware];
    let said = run(&mut launcher_again(), &request).expect(0);
    let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
    let found = report["cores"].as_array().unwrap().iter().map(|core| &core["roles"]);
    assert_eq!(&json!(Vec::from_iter(found)), roles, "{iso} under {firmware}");
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
fn an_image_goes_where_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let script = "umask 022; touch old; chmod 640 old; ln -s old link
        \"$0\" image --iso link; \"$0\" image --iso new; \"$0\" image --iso /dev/null
        \"$0\" image --iso /dev/stdout >out; \"$0\" image --iso /dev/stdout | cat >piped";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_nile")]).current_dir(folder.path());
    let said = run(command.env("NILE_KERNEL", root().join("README.md")), &[]).expect(0);
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
    for (name, mode) in [("old", 0o640), ("new", 0o644), ("out", 0o644), ("piped", 0o644)] {
        let file = folder.path().join(name);
        let about = fs::metadata(&file).unwrap();
        assert_eq!(about.mode() & 0o777, mode, "{name}");
        // The volume descriptor of ISO 9660: nothing stands before the image.
        let image = fs::read(&file).unwrap();
        assert_eq!(&image[0x8001..0x8006], b"CD001", "{name}");
        assert!(image.len().is_multiple_of(2048), "{name}: nothing stands behind the image");
    }
    assert!(folder.path().join("link").is_symlink());
    assert_eq!(names(folder.path()), ["link", "new", "old", "out", "piped"]);
    assert_eq!(said.out.lines().count(), 3, "{}", said.out);
    assert_eq!(said.err.matches("/dev/stdout: ").count(), 2, "{}", said.err);
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
