//! `nile deploy`, on a cluster of three hosted nodes with three cores each that is up for other
//! tests, too: the last core is each node's only worker.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cluster::{Place, hosted, refused, until};

/// The nodes' own program with these bytes after it: another image that does the same.
pub fn same(folder: &Path, after: &str) -> String {
    changed(folder, after, |bytes| bytes.extend_from_slice(after.as_bytes()))
}

fn changed(folder: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = fs::read(hosted()).unwrap();
    change(&mut bytes);
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::metadata(hosted()).unwrap().permissions()).unwrap();
    path.to_str().unwrap().into()
}

/// Which image each core of a node runs.
pub fn images(place: &Place, node: &str) -> Vec<Option<String>> {
    let shown = place.json(&["roles", node]);
    let image = |core: &Value| core["image"].as_str().map(String::from);
    shown["cores"].as_array().unwrap().iter().map(image).collect()
}

/// Another ABI, as the note of the file says it.
fn of_other_abi(bytes: &mut [u8]) {
    let (magic, mut at) = (b"NILE-ABI", 0);
    while let Some(next) = bytes[at..].windows(8).position(|it| it == magic) {
        at += next + 8;
        bytes[at] ^= 1;
    }
}

/// An instruction that is none where the program begins.
fn broken(bytes: &mut [u8]) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (entry, headers) = (word(24), word(32));
    let segments = (0..16).map(|number| headers + number * 56);
    let (offset, start, _) = segments
        .map(|at| (word(at + 8), word(at + 16), word(at + 32)))
        .find(|(_, start, bytes)| (*start..start + bytes).contains(&entry))
        .unwrap();
    bytes[offset + entry - start..][..2].copy_from_slice(&[0x0f, 0x0b]);
}

pub fn check(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let deploy = |file: &str, more: &[&str]| place.run(&[&["deploy", file], more].concat());
    let text = folder.join("text");
    fs::write(&text, "no program").unwrap();
    let other = changed(folder, "other ABI", |bytes| of_other_abi(bytes));
    for (file, more, part) in [
        (text.to_str().unwrap(), &["n1"][..], "no kernel image of this kind of node"),
        (&other, &["n1"], "another ABI than the node"),
        (&other, &["n1"], "nothing has changed"),
        (&other, &["n1.c0"], "core 0 keeps the image"),
        (&other, &["n1.c7"], "there is no core n1.c7"),
        (&other, &["n9"], "n9 does not answer"),
        ("no such file", &[], "No such file"),
        (folder.to_str().unwrap(), &[], "no regular file"),
    ] {
        refused(deploy(file, more), part);
    }
    assert_eq!(images(place, "n1"), [None, None, None]);

    let said = place.json(&["deploy", &same(folder, "first"), "n1"]);
    let image = said["image"].as_str().unwrap().to_owned();
    assert_eq!(said["cores"], serde_json::json!(["n1.c2"]));
    assert_eq!(said["kept"], serde_json::json!(["n1.c1", "n1.c0"]));
    assert_eq!(images(place, "n1"), [None, None, Some(image.clone())]);
    let compute = ["call", "ackermann.compute", "m=2", "n=3", "--core", "n1.c2"];
    let computes = || place.run(&compute).expect(0).out == "<reply><value>9</value></reply>\n";
    assert!(computes());
    // It begins anew as what it is.
    place.run(&["core", "renew", "n1.c2"]).expect(0);
    assert_eq!(images(place, "n1"), [None, None, Some(image.clone())]);

    // One that ends at once is taken back, also after another one.
    let bad = deploy(&changed(folder, "broken", |bytes| broken(bytes)), &["n1.c2"]).expect(1);
    assert!(bad.err.contains("runs its former one again"), "{}", bad.err);
    assert_eq!(images(place, "n1"), [None, None, Some(image.clone())]);
    assert!(computes());
    let log = place.run(&["logs", "n1"]).expect(0).out;
    assert!(log.contains("while it was on trial"), "{log}");

    // So is one that ends later in its first ten seconds.
    let said = deploy(&same(folder, "second"), &[]).expect(0).out;
    assert!(
        said.starts_with("n1.c2 runs image ") && said.contains("\nn3.c2 runs image "),
        "{said}"
    );
    let second = images(place, "n1");
    assert_ne!(second[2], Some(image.clone()));
    assert_eq!(second, images(place, "n2"));
    place.run(&["call", "core_manager.end_core", "core=2", "--core", "n1.c0"]).expect(0);
    until("the first image is back", || images(place, "n1")[2].as_deref() == Some(&image));
    until("it computes again", || place.run(&compute).status == Some(0));
}
