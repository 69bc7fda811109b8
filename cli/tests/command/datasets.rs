//! Files in a cluster, as people keep them: put, listed, got back, removed, refused, interrupted.

mod stopped;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::{Place, refused};
use crate::graphs;
use crate::support::run;
use stopped::a_node_stops;

/// The datasets that there are.
fn names(place: &Place) -> Vec<String> {
    let listed = place.json(&["ls"]);
    let listed = listed["datasets"].as_array().unwrap().iter();
    listed.map(|it| it["name"].as_str().unwrap().to_string()).collect()
}

fn write(path: &Path, bytes: usize) -> Vec<u8> {
    let content: Vec<u8> = (0..bytes).map(|at| (((at * at) >> 7) ^ (at >> 15)) as u8).collect();
    fs::write(path, &content).unwrap();
    content
}

#[test]
fn files_are_kept_in_a_cluster() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let [disks, file, out, long] =
        ["disks", "file", "out", "long"].map(|it| folder.path().join(it));
    let [disks, file_name, out_name, long_name] =
        [&disks, &file, &out, &long].map(|it| it.to_str().unwrap());
    let content = write(&file, 700_001);
    // What is plain stays so, and is served by nodes that would encrypt new disks.
    place.up(&["--disk", "256M", "--disk-folder", disks, "--disk-plain"]).expect(0);
    assert_eq!(place.run(&["ls"]).expect(0).out, "there are no datasets\n");

    let put = place.json(&["put", file_name, "a file"]);
    assert_eq!((&put["bytes"], &put["copies"]), (&700_001.into(), &1.into()));
    let copied = place.json(&["put", file_name, "copied", "--copies", "2"]);
    assert_eq!(copied["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(names(&place), ["a file", "copied"]);
    place.run(&["get", "a file", out_name]).expect(0);
    assert!(fs::read(&out).unwrap() == content, "it is not what was put");
    write(&long, 0);
    place.run(&["put", long_name, "empty"]).expect(0);
    place.run(&["get", "empty", out_name]).expect(0);
    assert_eq!(fs::read(&out).unwrap(), b"");

    refused(place.run(&["put", file_name, "copied"]), "there is a dataset `copied`");
    refused(place.run(&["put", out_name, "x", "--copies", "4"]), "there are 3");
    refused(place.run(&["put", "no such file", "x"]), "cannot read no such file");
    refused(place.run(&["put", disks, "x"]), "is a folder");
    refused(place.run(&["put", file_name, "a\nb"]), "no control characters");
    refused(place.run(&["put", file_name, "x/0-of-2"]), "is the name of part 0 of the 2");
    refused(place.run(&["get", "copid", out_name]), "did you mean `copied`?");
    written_as_asked(&place, folder.path(), &content);
    let endless = place.run(&["put", "/dev/zero", "endless"]).expect(1);
    assert!(endless.err.contains("full"), "{}", endless.err);
    by_every_way(&place, folder.path(), &content);
    refused(place.run(&["get", "copied", disks]), "name a file");
    refused(place.run(&["rm", "emty"]), "did you mean `empty`?");
    File::create(&long).unwrap().set_len(1 << 40).unwrap();
    let full = place.run(&["put", long_name, "long"]).expect(1);
    assert!(full.err.contains("disk full: 1099511627776 bytes wanted"), "{}", full.err);
    records_and_names(&place, folder.path());
    rivals(&place, folder.path());
    interrupted(&place);
    place.run(&["rm", "empty"]).expect(0);
    assert_eq!(names(&place), ["a file", "copied"], "nothing half-written is left");

    a_node_stops(&place, folder.path());
    away_and_back(&place, folder.path());
    graphs::check_kept(&place);
    // One of two copies is away.
    let away = copied["nodes"][0].as_str().unwrap().to_string();
    place.run(&["fault", "kill", &away]).expect(0);
    place.run(&["get", "copied", out_name]).expect(0);
    assert!(fs::read(&out).unwrap() == content, "the other copy is not what was put");

    // Another cluster on the same disks.
    place.run(&["down"]).expect(0);
    place.up(&["--disk", "256M", "--disk-folder", disks]).expect(0);
    let listed = place.json(&["ls"]);
    let is_whole = |it: &Value| it["whole"] == true && it["bytes"] == 700_001;
    assert!(listed["datasets"].as_array().unwrap().iter().all(is_whole), "{listed}");
    assert_eq!(names(&place), ["a file", "copied"]);

    // A byte of the second block of each of the three copies is not what it was. What was removed
    // before is still on the disks, too.
    place.run(&["down"]).expect(0);
    assert!(damage(Path::new(disks), &content[256 << 10..][..4096]) >= 3);
    place.up(&["--disk", "256M", "--disk-folder", disks]).expect(0);
    for name in ["a file", "copied"] {
        let damaged = place.run(&["get", name, out_name]).expect(1);
        let said = format!("{name}: block 1 at byte ");
        assert!(damaged.err.contains(&said), "{}", damaged.err);
        assert!(damaged.err.contains("its checksum does not hold"), "{}", damaged.err);
        place.run(&["rm", name]).expect(0);
    }
    assert_eq!(names(&place), Vec::<String>::new());
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// What is no regular file is written to; what is one keeps its mode, wherever a link is.
fn written_as_asked(place: &Place, folder: &Path, content: &[u8]) {
    let script = "umask 027; cd \"$1\"; touch old; chmod 604 old; ln -s old link; mkfifo pipe
        \"$0\" get 'a file' link; \"$0\" get 'a file' new; \"$0\" get 'a file' /dev/null
        \"$0\" get 'a file' /dev/stdout | cat >piped; \"$0\" get 'a file' /dev/stdout >out
        timeout 60 cat pipe >fed & \"$0\" get 'a file' pipe; wait
        test -p pipe -a -c /dev/null -a -L link";
    let into = folder.join("asked");
    fs::create_dir(&into).unwrap();
    let mut command = Command::new("sh");
    place.in_here(&mut command);
    command.env("NILE_ROOT", crate::support::root());
    command.args(["-c", script, env!("CARGO_BIN_EXE_nile")]).arg(&into);
    let said = run(&mut command, &[]).expect(0);
    assert_eq!(said.out.matches(": 700001 bytes").count(), 4, "{}", said.out);
    assert_eq!(said.err, "/dev/stdout: 700001 bytes\n".repeat(2));
    for (name, mode) in
        [("old", 0o604), ("new", 0o640), ("piped", 0o640), ("out", 0o640), ("fed", 0o640)]
    {
        let file = into.join(name);
        assert!(fs::read(&file).unwrap() == content, "{name} is not what was put");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, mode, "{name}");
    }
}

/// Nodes take the file itself, or what they are sent; also where one takes none, or what is put has
/// no length, or no end.
fn by_every_way(place: &Place, folder: &Path, content: &[u8]) {
    let sockets = || -> Vec<PathBuf> {
        let files = below(place.folder()).into_iter();
        files.filter(|it| it.extension().is_some_and(|it| it == "files")).collect()
    };
    assert_eq!(sockets().len(), 3, "each node takes files");
    let (file, out) = (folder.join("file"), folder.join("way"));
    let [file, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    for way in ["as it is", "sent"] {
        place.run(&["put", file, "way", "--copies", "2", "--replace"]).expect(0);
        let script = "cat \"$1\" | \"$0\" put /dev/stdin piped --copies 3 --replace";
        let mut command = Command::new("sh");
        place.in_here(&mut command);
        command.env("NILE_ROOT", crate::support::root());
        let program = env!("CARGO_BIN_EXE_nile");
        run(&mut command, &["-c", script, program, file]).expect(0);
        for name in ["way", "piped"] {
            place.run(&["get", name, out_name]).expect(0);
            assert!(fs::read(&out).unwrap() == content, "{way}: {name} is not what was put");
        }
        place.run(&["rm", "way"]).expect(0);
        place.run(&["rm", "piped"]).expect(0);
        sockets().iter().for_each(|it| fs::remove_file(it).unwrap());
    }
}

/// The files in a folder and below it.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    entries.flat_map(|it| if it.is_dir() { below(&it) } else { vec![it] }).collect()
}

/// Changes a byte of this at each place of the disks at which it is; how many there are.
fn damage(disks: &Path, unit: &[u8]) -> usize {
    let mut found = 0;
    for disk in fs::read_dir(disks).unwrap() {
        let path = disk.unwrap().path();
        if path.extension().is_none_or(|it| it != "disk") {
            continue;
        }
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut here = vec![0; unit.len()];
        for at in (0..file.metadata().unwrap().len()).step_by(unit.len()) {
            file.read_exact_at(&mut here, at).unwrap();
            if here == unit {
                file.write_all_at(&[unit[100] ^ 1], at + 100).unwrap();
                found += 1;
            }
        }
    }
    found
}

/// Files of records, and names.
fn records_and_names(place: &Place, folder: &Path) {
    let [file, out] = ["records", "whole"].map(|it| folder.join(it));
    let [file_name, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    let content = write(&file, 300_000);
    let put = place.json(&["put", file_name, ".sorted", "--record", "100"]);
    // Buffers of 256 KiB: 2259 records and as many entries of 16 bytes.
    assert_eq!(put["blocks"], 2, "{put}");
    refused(place.run(&["put", file_name, "x", "--record", "7"]), "not whole records of 7 bytes");
    refused(place.run(&["put", file_name, "x", "--record", "300000"]), "does not fit");
    refused(place.run(&["put", file_name, "x", "--record", "0"]), "0 is not in 1..");
    assert_eq!(names(place), ["a file", "copied", "empty"], "a dot hides");
    let all = place.json(&["ls", "--all"]);
    assert_eq!(all["datasets"].as_array().unwrap().len(), 4, "{all}");
    place.run(&["get", ".sorted", out_name]).expect(0);
    assert!(fs::read(&out).unwrap() == content, "it is not what was put");
    refused(place.run(&["put", file_name, ".sorted/0-of-2"]), "name of part 0 of the 2");
    refused(place.run(&["rm", ".sorted/0-of-2"]), "a part of an output");
    refused(place.run(&["put", file_name, ".jobs/7"]), "not a name of a dataset");
    // In one step: the name never means nothing, and never what it meant before.
    refused(place.run(&["put", out_name, ".sorted"]), "there is a dataset");
    let replaced = place.json(&["put", "Cargo.toml", ".sorted", "--replace", "--copies", "2"]);
    assert_eq!(replaced["copies"], 2, "{replaced}");
    place.run(&["get", ".sorted", out_name]).expect(0);
    assert!(fs::read(&out).unwrap() == fs::read("Cargo.toml").unwrap());
    place.run(&["rm", ".sorted"]).expect(0);
    assert_eq!(place.json(&["ls", "--all"])["datasets"].as_array().unwrap().len(), 3);
}

/// Two put one name at once, again and again: one of them is told that it has, and its file is got.
fn rivals(place: &Place, folder: &Path) {
    let [one, other, out] = ["one", "other", "got"].map(|it| folder.join(it));
    let contents = [write(&one, 200_000), write(&other, 200_001)];
    for round in 0..4 {
        let put = |file: &Path| {
            let mut command = place.nile();
            command.arg("put").arg(file).args(["rivals", "--copies", "2"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let puts = [put(&one), put(&other)].map(|child| child.wait_with_output().unwrap());
        let done: Vec<usize> = (0..2).filter(|at| puts[*at].status.success()).collect();
        let said: Vec<_> = puts.iter().map(|it| String::from_utf8_lossy(&it.stderr)).collect();
        assert_eq!(done.len(), 1, "round {round}: {said:?}");
        place.run(&["get", "rivals", out.to_str().unwrap()]).expect(0);
        assert!(fs::read(&out).unwrap() == contents[done[0]], "round {round}: of the other one");
        place.run(&["rm", "rivals"]).expect(0);
    }
}

/// A node is away while what it has is replaced and removed; then most keepers of names are.
fn away_and_back(place: &Place, folder: &Path) {
    let [old, new, out] = ["old", "new", "seen"].map(|it| folder.join(it));
    let (_, content) = (write(&old, 1000), write(&new, 3000));
    let [old, new, got] = [&old, &new, &out].map(|it| it.to_str().unwrap());
    for name in ["replaced", "removed"] {
        place.run(&["put", old, name, "--copies", "3"]).expect(0);
    }
    place.run(&["fault", "kill", "n1"]).expect(0);
    place.run(&["put", new, "replaced", "--replace"]).expect(0);
    let removed = place.run(&["rm", "removed"]).expect(3);
    assert!(removed.err.contains("goes when they are back: n1"), "{}", removed.err);
    let listed = place.run(&["ls"]).expect(3);
    assert!(
        listed.err.contains("left out: n1") && !listed.out.contains("removed"),
        "{}",
        listed.err
    );
    place.run(&["fault", "restart", "n1"]).expect(0);
    place.run(&["get", "replaced", got]).expect(0);
    assert!(fs::read(&out).unwrap() == content, "what a node had that was away");
    refused(place.run(&["get", "removed", got]), "no dataset `removed`");

    // One of three is no majority.
    for node in ["n2", "n3"] {
        place.run(&["fault", "kill", node]).expect(0);
    }
    for command in [&["put", old, "late"][..], &["rm", "replaced"], &["get", "replaced", got]] {
        let refused = place.run(command).expect(1);
        let said = "most of the nodes that keep the names of datasets have to answer";
        assert!(refused.err.contains(said), "{command:?}: {}", refused.err);
    }
    // Packages are asked for core by core, so those of the others are shown, and it is said.
    for command in [&["package", "list"][..], &["package", "stop", "none"]] {
        let partial = place.run(command).expect(3);
        assert!(partial.err.contains("left out: n2, n3"), "{command:?}: {}", partial.err);
    }
    for node in ["n2", "n3"] {
        place.run(&["fault", "restart", node]).expect(0);
    }
    assert_eq!(names(place), ["a file", "copied", "replaced"]);
    place.run(&["rm", "replaced"]).expect(0);
}

/// Ctrl-C in the midst of a file without an end.
fn interrupted(place: &Place) {
    let mut command = place.nile();
    command.args(["put", "/dev/zero", "endless"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    // A quick machine may have filled the disk before.
    let expected = matches!(ended.status.code(), Some(130)) || said.contains("disk full");
    assert!(expected, "{:?}: {said}", ended.status);
}

#[test]
fn nodes_without_disks_say_so() {
    let place = Place::new();
    place.up(&["--nodes", "1"]).expect(0);
    refused(place.run(&["put", "Cargo.toml", "x"]), "no disk for datasets");
    refused(place.run(&["rm", "x"]), "no node of the cluster has a disk");
    assert_eq!(names(&place), Vec::<String>::new());
    place.run(&["down"]).expect(0);
}
