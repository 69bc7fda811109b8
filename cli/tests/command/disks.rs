//! Damaged disks of a cluster: the others go on and say what they do not see, and a command mends
//! what they have copies of.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{Place, hosted, refused};
use crate::jobs::packages;
use crate::support::run;

const DISK: &str = "64M";

/// Where the halves of a disk's log begin, as its label has it.
fn halves(disk: &Path) -> [u64; 2] {
    let mut label = [0; 8192];
    File::open(disk).unwrap().read_exact_at(&mut label, 0).unwrap();
    let number = |at: usize| u64::from_le_bytes(label[at..at + 8].try_into().unwrap());
    // The copy with the higher sequence.
    let copy = if number(16) > number(4096 + 16) { 0 } else { 4096 };
    let (start, log) = (number(copy + EXTENT), number(copy + EXTENT + 16));
    [start, start + log]
}

/// Where a label's first extent stands in it.
const EXTENT: usize = 52;

/// Changes a bit of a disk at each of these places.
fn flip(disk: &Path, places: &[u64]) {
    let file = File::options().read(true).write(true).open(disk).unwrap();
    for at in places {
        let mut byte = [0];
        file.read_exact_at(&mut byte, *at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], *at).unwrap();
    }
}

/// Where a disk has these bytes at the start of a unit.
fn find(disk: &Path, bytes: &[u8]) -> u64 {
    let content = fs::read(disk).unwrap();
    let at = content.chunks(4096).position(|unit| unit.starts_with(bytes));
    at.expect("the disk has them") as u64 * 4096
}

struct Cluster {
    place: Place,
    disks: PathBuf,
    /// What else it is started with.
    more: &'static [&'static str],
}

impl Cluster {
    fn up(&self) {
        let disks = self.disks.to_str().unwrap();
        let usual = ["--disk", DISK, "--disk-folder", disks];
        self.place.up(&[&usual[..], self.more].concat()).expect(0);
    }

    /// Does something to a node's disk while the cluster is down.
    fn with(&self, node: &str, what: impl FnOnce(&Path)) {
        self.place.run(&["down"]).expect(0);
        what(&self.disks.join(format!("{node}.disk")));
        self.up();
    }
}

#[test]
fn a_node_has_several_disks_and_each_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["file", "out"].map(|it| folder.path().join(it));
    let [file_name, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    fs::write(&file, "alpha beta alpha\n".repeat(40_000)).unwrap();
    let (place, disks) = (Place::new(), folder.path().join("disks"));
    let more = &["--nodes", "1", "--disks", "2", "--disk-plain"];
    let cluster = Cluster { place, disks, more };
    let place = &cluster.place;
    cluster.up();
    for name in ["a", "b"] {
        place.run(&["put", file_name, name]).expect(0);
    }
    // The second went where more room was.
    let [first, second] = ["n1.disk", "n1.disk2"].map(|it| cluster.disks.join(it));
    let block = &b"alpha beta alpha\n".repeat(1000)[..4096];
    for disk in [&first, &second] {
        find(disk, block);
    }
    let job = ["run", "wordcount", file_name, "--output", "made"];
    run(place.nile().env("NILE_PACKAGES", packages()), &job).expect(0);
    let looked = place.run(&["disk", "check", "n1"]).expect(0);
    assert_eq!(looked.out.matches("its label and its log are whole").count(), 2, "{}", looked.out);
    let get = |name: &str| {
        place.run(&["get", name, out_name]).expect(0);
        assert!(fs::read(&out).unwrap() == fs::read(&file).unwrap(), "{name} is not what was put");
    };
    // Of one disk both labels are gone; the other serves.
    cluster.with("n1", |_| flip(&second, &[20, 4096 + 20]));
    let listed = place.run(&["ls"]).expect(3);
    assert!(listed.err.contains("left out: n1\n"), "{}", listed.err);
    let there = ["a", "b"].into_iter().filter(|name| {
        let got = place.run(&["get", name, out_name]);
        got.status == Some(0) && fs::read(&out).unwrap() == fs::read(&file).unwrap()
    });
    assert_eq!(there.count(), 1);
    place.run(&["put", file_name, "c"]).expect(0);
    get("c");
    let bad = place.run(&["disk", "check", "n1"]).expect(1);
    assert!(bad.err.contains("disk format n1 --disk n1.disk2 --yes"), "{}", bad.err);
    let good = place.run(&["disk", "check", "n1", "--disk", "n1.disk"]).expect(0);
    assert!(good.out.contains("log are whole") && !good.out.contains("n1.disk2"), "{}", good.out);
    refused(place.run(&["disk", "check", "n1", "--disk", "n1.disk3"]), "no disk `n1.disk3`");
    refused(place.run(&["disk", "format", "n1", "--yes"]), "say --disk");
    place.run(&["disk", "format", "n1", "--disk", "n1.disk2", "--yes"]).expect(0);
    get("c");
    place.run(&["put", file_name, "d"]).expect(0);
    find(&second, block);
    let refuse = |more: &[&str], part| refused(place.run(&[&["up"], more].concat()), part);
    refuse(&["--disks", "2"], "--disk <SIZE>");
    refuse(&["--disk", "4M", "--disks", "9"], "1..=8");
}

#[test]
fn a_damaged_disk_stops_nobody_and_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["file", "out"].map(|it| folder.path().join(it));
    let [file_name, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    let content: Vec<u8> = (0..900_001_u64).map(|at| ((at * at) >> 7 ^ at >> 15) as u8).collect();
    fs::write(&file, &content).unwrap();
    let (place, disks) = (Place::new(), folder.path().join("disks"));
    let cluster = Cluster { place, disks, more: &["--disk-plain"] };
    let place = &cluster.place;
    cluster.up();
    let put = place.json(&["put", file_name, "a", "--copies", "2"]);
    let bad = put["nodes"][0].as_str().unwrap();
    for name in ["b", "c"] {
        place.run(&["put", file_name, name, "--copies", "2"]).expect(0);
    }
    let get = |name: &str| {
        place.run(&["get", name, out_name]).expect(0);
        assert!(fs::read(&out).unwrap() == content, "{name} is not what was put");
    };

    let mode = fs::metadata(cluster.disks.join("n1.disk")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600, "others can read it");

    // The first records of both halves of its log.
    cluster.with(bad, |disk| flip(disk, &halves(disk).map(|half| half + 20)));
    let listed = place.run(&["ls"]).expect(3);
    assert_eq!(listed.out.lines().count(), 4, "{}", listed.out);
    let said = format!("left out: {bad}\n{bad}: ");
    assert!(listed.err.contains(&said) && listed.err.contains("log is whole"), "{}", listed.err);
    ["a", "b", "c"].iter().for_each(|name| get(name));
    let put = place.json(&["put", file_name, "d", "--copies", "2"]);
    assert!(!put["nodes"].as_array().unwrap().contains(&bad.into()), "{put}");
    place.run(&["rm", "d"]).expect(0);
    let checked = place.run(&["disk", "check", bad]).expect(1);
    assert!(checked.err.contains(&format!("disk repair {bad}")), "{}", checked.err);
    place.run(&["disk", "repair", bad]).expect(0);
    place.run(&["disk", "check", bad]).expect(0);
    let listed = place.run(&["ls"]).expect(0);
    assert!(!listed.out.contains("missing"), "{}", listed.out);

    // A block of its copy.
    cluster.with(bad, |disk| flip(disk, &[find(disk, &content[256 << 10..][..4096]) + 99]));
    let checked = place.run(&["disk", "check", bad]).expect(1);
    assert!(checked.out.contains("blocks are damaged, the first is 1; others"), "{}", checked.out);
    let mended = place.json(&["disk", "repair", bad]);
    assert_eq!(mended["mended"].as_array().unwrap().len(), 1, "{mended}");
    place.run(&["disk", "check", bad]).expect(0);
    get("a");

    // It was cut, and is grown back.
    let bytes = 64 << 20;
    let set = |disk: &Path, bytes| {
        File::options().write(true).open(disk).unwrap().set_len(bytes).unwrap();
    };
    cluster.with(bad, |disk| set(disk, bytes / 2));
    place.run(&["ls"]).expect(3);
    get("a");
    for action in ["check", "repair"] {
        let cut = place.run(&["disk", action, bad]).expect(1);
        assert!(cut.err.contains("give it as many again"), "{}", cut.err);
        assert!(!cut.err.contains("format"), "{}", cut.err);
    }
    cluster.with(bad, |disk| set(disk, bytes));
    place.run(&["disk", "check", bad]).expect(0);

    // Both copies of its label: it could be anybody's.
    cluster.with(bad, |disk| flip(disk, &[20, 4096 + 20]));
    place.run(&["ls"]).expect(3);
    let refusal = place.run(&["disk", "repair", bad]).expect(1);
    assert!(refusal.err.contains(&format!("disk format {bad} --yes")), "{}", refusal.err);
    refused(place.run(&["disk", "format", bad]), "say --yes");
    place.run(&["disk", "format", bad, "--yes"]).expect(0);
    let checked = place.run(&["disk", "check", bad]).expect(1);
    assert!(checked.out.contains("a: is not here; others have it"), "{}", checked.out);
    place.run(&["disk", "repair", bad]).expect(0);
    place.run(&["disk", "check", bad]).expect(0);
    // Names are kept by it again: another keeper may go.
    let other = if bad == "n1" { "n2" } else { "n1" };
    place.run(&["fault", "kill", other]).expect(0);
    place.run(&["put", file_name, "e"]).expect(0);
    place.run(&["down"]).expect(0);
}

#[test]
fn a_disk_of_another_cluster_or_node_is_told_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out, own, other] = ["file", "out", "own", "other"].map(|it| folder.path().join(it));
    let [file_name, out_name, other_name] = [&file, &out, &other].map(|it| it.to_str().unwrap());
    fs::write(&file, "ours").unwrap();
    let cluster = Cluster { place: Place::new(), disks: folder.path().join("disks"), more: &[] };
    let place = &cluster.place;
    let alone = ["--nodes", "1", "--disk", DISK, "--disk-folder", other_name];
    place.up(&alone).expect(0);
    // What datasets had is given back when they go, on an encrypted disk, too.
    let taken = || fs::metadata(other.join("n1.disk")).unwrap().blocks() * 512;
    let (before, bytes) = (taken(), 40 << 20);
    fs::write(&file, vec![7; bytes as usize]).unwrap();
    place.run(&["put", file_name, "large"]).expect(0);
    assert!(taken() >= before + bytes, "{} after {before}", taken());
    place.run(&["rm", "large"]).expect(0);
    assert!(taken() < before + (1 << 20), "{} after {before}", taken());
    fs::write(&file, "what nobody else is to read").unwrap();
    place.run(&["put", file_name, "theirs"]).expect(0);
    place.run(&["down"]).expect(0);
    // It is encrypted, by a key that lies beside it.
    let (disk, key) = (fs::read(other.join("n1.disk")).unwrap(), other.join("key"));
    for text in [&b"nobody else"[..], b"theirs", b"NSR1"] {
        assert!(!disk.windows(text.len()).any(|it| it == text), "{text:?} can be read");
    }
    assert_eq!(fs::metadata(&key).unwrap().mode() & 0o777, 0o600);
    let kept = fs::read(&key).unwrap();
    fs::write(&key, "5a".repeat(32)).unwrap();
    for (more, said) in [(&[][..], "not with the key of"), (&["--unsealed"], "has no key")] {
        place.up(&[&alone[..], more].concat()).expect(0);
        let refusal = place.run(&["disk", "check", "n1"]).expect(1);
        let right = refusal.err.contains(said) && refusal.err.contains("key that it has had");
        assert!(right, "{}", refusal.err);
        place.run(&["down"]).expect(0);
    }
    assert!(fs::read(other.join("n1.disk")).unwrap() == disk, "something was written to it");
    fs::write(&key, kept).unwrap();
    place.up(&alone).expect(0);
    place.run(&["get", "theirs", out_name]).expect(0);
    assert_eq!(fs::read(&out).unwrap(), b"what nobody else is to read");
    place.run(&["down"]).expect(0);
    fs::write(&file, "ours").unwrap();
    cluster.up();
    let put = place.json(&["put", file_name, "ours", "--copies", "2"]);
    let bad = put["nodes"][0].as_str().unwrap();
    let next = put["nodes"][1].as_str().unwrap();

    let foreign = other.join("n1.disk");
    let disk = |node: &str| cluster.disks.join(format!("{node}.disk"));
    cluster.with(bad, |it| assert!(fs::copy(it, &own).is_ok()));
    for (source, of) in [(foreign, "n1"), (disk(next), next)] {
        let mut before = Vec::new();
        cluster.with(bad, |it| {
            before = fs::read(&source).unwrap();
            fs::write(it, &before).unwrap();
        });
        let listed = place.run(&["ls"]).expect(3);
        assert!(listed.out.contains("ours") && !listed.out.contains("theirs"), "{}", listed.out);
        let said = format!("the disk is that of {of} of cluster");
        assert!(listed.err.contains(&said), "{}", listed.err);
        place.run(&["get", "ours", out_name]).expect(0);
        assert_eq!(fs::read(&out).unwrap(), b"ours");
        for action in ["check", "repair"] {
            let refusal = place.run(&["disk", action, bad]).expect(1);
            let advice = format!("put {bad}'s own disk in its place");
            assert!(refusal.err.contains(&advice), "{}", refusal.err);
        }
        assert!(fs::read(disk(bad)).unwrap() == before, "something was written to it");
    }
    cluster.with(bad, |it| assert!(fs::copy(&own, it).is_ok()));
    place.run(&["ls"]).expect(0);
    place.run(&["disk", "check", bad]).expect(0);

    // An old copy of its own: since then names were removed, replaced and put.
    place.run(&["put", file_name, "gone", "--copies", "3"]).expect(0);
    cluster.with("n1", |it| assert!(fs::copy(it, &own).is_ok()));
    place.run(&["rm", "gone"]).expect(0);
    place.run(&["rm", "ours"]).expect(0);
    fs::write(&file, "later").unwrap();
    for name in ["ours", "new"] {
        place.run(&["put", file_name, name, "--copies", "3"]).expect(0);
    }
    cluster.with("n1", |it| assert!(fs::copy(&own, it).is_ok()));
    let is_right = || {
        let listed = place.run(&["ls"]);
        assert!(!listed.out.contains("gone"), "{}", listed.out);
        for name in ["ours", "new"] {
            place.run(&["get", name, out_name]).expect(0);
            assert_eq!(fs::read(&out).unwrap(), b"later", "{name}");
        }
    };
    is_right();
    let log = place.run(&["logs", "n1"]).expect(0).out;
    assert!(log.contains("the disk is an old copy"), "{log}");
    place.run(&["disk", "repair", "n1"]).expect(0);
    place.run(&["disk", "check", "n1"]).expect(0);
    // It keeps names again, and has what they mean.
    place.run(&["fault", "kill", "n2"]).expect(0);
    is_right();
    place.run(&["down"]).expect(0);
}

/// Draws numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

/// Does some damage to a disk; what.
fn damage(disk: &Path, random: &mut Random) -> String {
    let file = File::options().read(true).write(true).open(disk).unwrap();
    let bytes = fs::metadata(disk).unwrap().len();
    let [_, log] = halves(disk);
    // What the store has written is at its start.
    let (head, used) = (2 * log, (2 * log + (4 << 20)).min(bytes));
    match random.below(6) {
        0 => {
            let most = if random.below(2) == 0 { 8192 } else { head };
            let places: Vec<u64> = (0..=random.below(8)).map(|_| random.below(most)).collect();
            flip(disk, &places);
            format!("bits at {places:?}")
        }
        1 => {
            let places: Vec<u64> = (0..=random.below(64)).map(|_| random.below(used)).collect();
            flip(disk, &places);
            format!("bits at {places:?}")
        }
        2 => {
            let (at, length) = (random.below(used), 1 + random.below(1 << 16));
            let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            file.write_all_at(&noise, at).unwrap();
            format!("noise, {length} bytes at {at}")
        }
        3 => {
            let length = 512 + random.below(bytes - 512);
            file.set_len(length).unwrap();
            format!("cut to {length}")
        }
        4 => {
            let half = halves(disk)[random.below(2) as usize];
            file.write_all_at(&vec![0; 64 << 10], half).unwrap();
            format!("zeros at {half}")
        }
        _ => {
            file.set_len(0).unwrap();
            file.set_len(bytes).unwrap();
            "lost".into()
        }
    }
}

#[test]
fn any_damage_to_one_disk_of_three_is_survived() {
    let number = |name: &str, usual| env::var(name).map_or(usual, |it| it.parse().unwrap());
    let (cases, first) = (number("NILE_DISK_CASES", 2), number("NILE_DISK_SEED", 1));
    let folder = tempfile::tempdir().unwrap();
    let [file, out, good, old] = ["file", "out", "good", "old"].map(|it| folder.path().join(it));
    let [file_name, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    let content: Vec<u8> = (0..900_001_u64).map(|at| ((at * at) >> 7 ^ at >> 15) as u8).collect();
    fs::write(&file, &content).unwrap();
    let cluster = Cluster { place: Place::new(), disks: folder.path().join("disks"), more: &[] };
    let place = &cluster.place;
    cluster.up();
    for name in ["a", "d"] {
        place.run(&["put", file_name, name, "--copies", "2"]).expect(0);
    }
    place.run(&["down"]).expect(0);
    let copy = |from: &Path, to: &Path| {
        let mut copy = Command::new("cp");
        run(copy.args(["-a", "--sparse=always"]).arg(from).arg(to), &[]).expect(0);
    };
    copy(&cluster.disks, &old);
    cluster.up();
    for name in ["b", "c"] {
        place.run(&["put", file_name, name, "--copies", "2"]).expect(0);
    }
    place.run(&["rm", "d"]).expect(0);
    place.run(&["down"]).expect(0);
    fs::rename(&cluster.disks, &good).unwrap();
    for seed in first..first + cases {
        let mut random = Random(seed);
        let _ = fs::remove_dir_all(&cluster.disks);
        copy(&good, &cluster.disks);
        let node = format!("n{}", 1 + random.below(3));
        let disk = cluster.disks.join(format!("{node}.disk"));
        let what = match random.below(8) {
            0 => {
                fs::copy(old.join(format!("{node}.disk")), &disk).unwrap();
                "an old copy".into()
            }
            1 => {
                let other = if node == "n1" { "n2" } else { "n1" };
                fs::copy(good.join(format!("{other}.disk")), &disk).unwrap();
                format!("that of {other}")
            }
            _ => damage(&disk, &mut random),
        };
        let case = format!("seed {seed}: {node}: {what}");
        eprintln!("{case}");
        cluster.up();
        let ends = |words: &[&str], well: &[i32]| {
            let said = place.run(words);
            let is_well = said.status.is_some_and(|status| well.contains(&status));
            assert!(is_well, "{case}: {words:?}: {} {}", said.out, said.err);
        };
        ends(&["ls"], &[0, 3]);
        assert!(!place.run(&["ls"]).out.contains("\nd "), "{case}: d is back");
        for name in ["a", "b", "c"] {
            ends(&["get", name, out_name], &[0]);
            assert!(fs::read(&out).unwrap() == content, "{case}: {name} is not what was put");
        }
        ends(&["put", file_name, "e", "--copies", "2"], &[0]);
        ends(&["rm", "b"], &[0, 3]);
        ends(&["disk", "check", &node], &[0, 1]);
        // What is not mended so is the operator's to decide.
        if place.run(&["disk", "repair", &node]).status != Some(0) {
            place.run(&["down"]).expect(0);
            continue;
        }
        ends(&["disk", "check", &node], &[0]);
        ends(&["ls"], &[0]);
        ends(&["get", "a", out_name], &[0]);
        place.run(&["down"]).expect(0);
    }
}

#[test]
fn a_store_recovers_when_its_file_system_was_full() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=24m tmpfs "$1" || exit 77
        set -e
        nile() { "$0" "$@"; }
        nile up --machine hosted --nodes 1 --cores 3 --memory 64M --disk 64M --disk-folder "$1"
        head -c 1000000 /dev/zero | tr '\0' x >"$1/file"
        nile put "$1/file" a
        cat /dev/zero >"$1/filler" || true
        if nile put "$1/file" b; then exit 1; fi
        if nile rm a; then exit 2; fi
        nile ls | grep -q ^a
        rm "$1/filler"
        for try in 1 2 3 4 5 6 7 8 9 10; do
            if nile put "$1/file" c; then break; fi
            sleep 0.5
        done
        nile get c "$1/out"
        cmp "$1/file" "$1/out"
        nile rm a
        nile down"#;
    let mut command = Command::new("unshare");
    place.in_here(&mut command);
    command.env("NILE_ROOT", crate::support::root()).env("NILE_HOSTED", hosted());
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_nile")]).arg(folder.path());
    let said = run(&mut command, &[]);
    // Who may not mount anything cannot show it.
    let may_not = said.status == Some(77) || said.err.contains("unshare");
    assert!(may_not || said.status == Some(0), "\nout: {}\nerr: {}", said.out, said.err);
}
