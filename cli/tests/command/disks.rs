//! Damaged disks of a cluster: the others go on and say what they do not see, and a command mends
//! what they have copies of.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::cluster::{Place, refused};

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
const EXTENT: usize = 28;

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
}

impl Cluster {
    fn up(&self) {
        let disks = self.disks.to_str().unwrap();
        self.place.up(&["--disk", DISK, "--disk-folder", disks]).expect(0);
    }

    /// Does something to a node's disk while the cluster is down.
    fn with(&self, node: &str, what: impl FnOnce(&Path)) {
        self.place.run(&["down"]).expect(0);
        what(&self.disks.join(format!("{node}.disk")));
        self.up();
    }
}

#[test]
fn a_damaged_disk_stops_nobody_and_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let [file, out] = ["file", "out"].map(|it| folder.path().join(it));
    let [file_name, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    let content: Vec<u8> = (0..900_001_u64).map(|at| ((at * at) >> 7 ^ at >> 15) as u8).collect();
    fs::write(&file, &content).unwrap();
    let cluster = Cluster { place: Place::new(), disks: folder.path().join("disks") };
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
