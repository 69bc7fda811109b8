//! Jobs as people run them: on a cluster that is started for them, and on one that is up. What they
//! make is checked by another program in another language. What breaks in the midst is in
//! [`faults`], what a job's own code does wrong in [`code`], what is written of when it ran in
//! [`profile`], and packages that stay beside jobs in [`staying`].

mod code;
mod faults;
mod profile;
mod regions;
mod staying;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;

use crate::cluster::{Place, document, hosted, refused, send, until as until_it_is};
use crate::deploy;
use crate::support::{Said, launcher, root, run};

/// What a command does to itself when its sort maps: Ctrl-C, in the midst of it on every machine.
const INTERRUPT: &str = "sort:mapping=kill -INT $PPID";

/// The folder with the packages, built as the launcher builds them: for a job that runs.
pub fn packages() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(given) = std::env::var_os("NILE_PACKAGES") {
            return given.into();
        }
        let place = Place::new();
        let mut command = launcher();
        place.in_here(&mut command);
        let text = root().join("LICENSE-MIT");
        let said = run(&mut command, &["run", "wordcount", text.to_str().unwrap()]).expect(0);
        assert!(said.out.lines().any(|line| line.starts_with("Software\t")), "{}", said.out);
        hosted().parent().unwrap().parent().unwrap().join("packages/elf")
    })
}

/// The folder with the same packages with their symbols.
fn symbols() -> PathBuf {
    packages().parent().unwrap().join("x86_64-unknown-linux-gnu/bare")
}

/// The command with all that jobs need.
fn nile(place: &Place) -> Command {
    let mut command = place.nile();
    command.env("NILE_PACKAGES", packages());
    command
}

fn job(place: &Place, arguments: &[&str]) -> Said {
    run(&mut nile(place), &[&["run"], arguments].concat())
}

#[test]
fn what_the_launcher_asks_is_about_the_cluster_of_its_tree() {
    let place = Place::new();
    let by_launcher = |arguments: &[&str]| {
        let mut command = launcher();
        place.in_here(&mut command);
        run(command.env_remove("NILE_ROOT"), arguments).expect(0)
    };
    by_launcher(&[
        "up",
        "--machine",
        "hosted",
        "--memory",
        "256M",
        "--cores",
        "6",
        "--disk",
        "64M",
    ]);
    // One that was started for the job would have two workers, and its output would go with it.
    let text = root().join("LICENSE-MIT");
    let words = ["run", "wordcount", text.to_str().unwrap(), "--reducers", "4", "--output", "made"];
    by_launcher(&words);
    by_launcher(&["get", "made", place.folder().join("got").to_str().unwrap()]);
}

#[test]
fn packages_are_as_small_as_is_promised() {
    for (name, most) in [("fwq", 150_000), ("wordcount", 350_000)] {
        let bytes = fs::metadata(packages().join(name).with_extension("elf")).unwrap().len();
        assert!((10_000..=most).contains(&bytes), "{name} has {bytes} bytes, at most {most}");
    }
}

/// Three nodes with a worker core each.
fn cluster() -> Place {
    let place = Place::new();
    let nodes = ["up", "--machine", "hosted", "--nodes", "3", "--cores", "3", "--memory", "256M"];
    place.run(&[&nodes[..], &["--disk", "256M", "--pool", "96M"]].concat()).expect(0);
    place
}

/// What the independent program says of results.
fn checked(arguments: &[&str]) -> Value {
    let script = root().join("tools/check_results.py");
    let mut command = Command::new("python3");
    let said = run(command.arg(script), arguments).expect(0);
    serde_json::from_str(&said.out).expect("it prints a document")
}

/// The datasets that there are.
fn names(place: &Place) -> Vec<String> {
    let listed = place.json(&["ls"]);
    let listed = listed["datasets"].as_array().unwrap().iter();
    listed.map(|it| it["name"].as_str().unwrap().to_string()).collect()
}

#[track_caller]
fn sorted(place: &Place, more: &[&str]) -> Value {
    let usual = ["terasort", "--size", "20M", "--json"];
    let sorted = document(&job(place, &[&usual, more].concat()).expect(0));
    assert_eq!((&sorted["valid"], &sorted["records"]), (&true.into(), &209_715.into()));
    sorted
}

#[test]
fn on_three_nodes_what_jobs_make_is_right() {
    let place = cluster();
    let folder = tempfile::tempdir().unwrap();
    let [out, text] = ["out", "text"].map(|it| folder.path().join(it));
    let [out, text] = [&out, &text].map(|it| it.to_str().unwrap());

    let first = sorted(&place, &["--keep"]);
    for field in ["seconds", "imbalance", "peak_memory_bytes", "spilled_bytes", "retries"] {
        assert!(first[field].is_number(), "{field}: {first}");
    }
    let phases: Vec<&str> =
        first["phases"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(phases.starts_with(&["generating"]) && phases.ends_with(&["validating"]), "{phases:?}");
    place.run(&["get", "terasort.output", out]).expect(0);
    let checked_sort = checked(&["terasort", out]);
    assert_eq!(checked_sort["records"], 209_715);
    assert_eq!(checked_sort["checksum"], first["checksum"]);
    place.run(&["get", "terasort.input", out]).expect(0);
    refused(job(&place, &["terasort", "--size", "1M"]), "there is a dataset `terasort.input`");
    let large = ["terasort", "--name", "large", "--size"];
    for (size, said) in [("400M", "800 MiB on disk"), ("9999P", "16.0 EiB on disk")] {
        refused(job(&place, &[&large[..], &[size]].concat()), said);
    }
    assert_eq!(
        sorted(&place, &["--name", "other", "--reducers", "2"])["checksum"],
        first["checksum"]
    );
    for name in ["terasort.input", "terasort.output", "terasort.report"] {
        place.run(&["rm", name]).expect(0);
    }

    let tight = ["terasort", "--size", "60M", "--memory", "16M", "--reducers", "1", "--json"];
    let spilled = document(&job(&place, &tight).expect(0));
    assert!(spilled["spilled_bytes"].as_u64() > Some(0), "{spilled}");

    let source = fs::read(root().join("cli/src/cluster/up.rs")).unwrap();
    fs::write(text, source.repeat(40)).unwrap();
    place.run(&["put", text, "text"]).expect(0);
    for given in ["text", text] {
        let counted = job(&place, &["wordcount", given]).expect(0);
        fs::write(out, &counted.out).unwrap();
        assert_eq!(checked(&["wordcount", text, out])["different"], 0);
    }
    job(&place, &["wordcount", "text", "--output", "counts"]).expect(0);
    place.run(&["get", "counts", out]).expect(0);
    assert_eq!(checked(&["wordcount", text, out])["different"], 0);
    assert_eq!(names(&place), ["counts", "text"], "nothing else is left");
    streams(&place);
    empty_input(&place);
    wrong_input(&place);
    interrupted(&place);
    code::wrong_code(&place);
    code::slow_code(&place);
    code::interrupted_loop(&place);
    code::greedy_code(&place);
    staying::check(&place);
    regions::check(&place);
    assert_eq!(names(&place), ["counts", "text"], "nothing half-written is left");
}

/// What comes by standard input and by a pipe is counted; a folder is told from a text.
fn streams(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let [text, pipe] = ["text", "pipe"].map(|it| folder.path().join(it));
    fs::write(&text, "to be or to be").unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = thread::spawn({
        let (text, pipe) = (text.clone(), pipe.clone());
        move || fs::write(pipe, fs::read(text).unwrap()).unwrap()
    });
    let mut command = nile(place);
    command.stdin(fs::File::open(&text).unwrap());
    let named = pipe.to_str().unwrap();
    for said in [run(&mut command, &["run", "wordcount", "-"]), job(place, &["wordcount", named])] {
        let counts = said.expect(0).out;
        let mut counts: Vec<&str> = counts.lines().collect();
        counts.sort_unstable();
        assert_eq!(counts, ["be\t2", "or\t1", "to\t2"]);
    }
    writer.join().unwrap();
    refused(job(place, &["wordcount", folder.path().to_str().unwrap()]), "is a folder");
    refused(job(place, &["wordcount", text.to_str().unwrap(), "--json"]), "nile get NAME FILE");
}

/// Nothing is sorted, counted and validated to nothing.
fn empty_input(place: &Place) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let tera = packages().join("tera.elf");
    let (file, tera) = (file.path().to_str().unwrap(), tera.to_str().unwrap());
    let sort = [tera, "--samples", "4", "--output", "empty", "--json", "--input", file, "sort"];
    assert_eq!(document(&job(place, &sort).expect(0))["records"], 0);
    // What was made is read again: it is in parts, none of which has anything.
    let again = [tera, "--samples", "4", "--reducers", "1", "--input", "empty", "sort"];
    for empty in [&again[..], &["wordcount", file], &["wordcount", "empty"]] {
        assert_eq!(job(place, empty).expect(0).out, "", "{empty:?}");
    }
    let report = job(place, &[tera, "--input", "empty", "validate"]).expect(0).out;
    assert!(report.starts_with("records 0\n"), "{report}");
    place.run(&["rm", "empty"]).expect(0);
}

/// What cannot be done, on a cluster that is up.
fn wrong_input(place: &Place) {
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short");
    fs::write(&short, vec![7; 250]).unwrap();
    let tera = packages().join("tera.elf");
    let [short, tera] = [&short, &tera].map(|it| it.to_str().unwrap());
    let cut =
        job(place, &[tera, "--samples", "1", "--input", short, "--output", "x", "sort"]).expect(1);
    assert!(cut.err.contains("100"), "it should name the length of a record: {}", cut.err);
    refused(job(place, &["terasort", "--size", "1M", "--reducers", "4"]), "3 worker cores");
    refused(job(place, &["wordcount", "no such text", "--output", "x"]), "no such text");
    refused(job(place, &[tera, "--input", "text", "--output", "counts", "sort"]), "`counts`");
    let full = job(place, &[tera, "--output", "x", "gen", "12000000", "binary"]).expect(1);
    assert!(full.err.contains("full"), "{}", full.err);
    // There is room again.
    sorted(place, &[]);
}

/// Two sorts at the same time, and a third that is not waited for.
#[test]
fn on_three_nodes_jobs_wait_for_each_other() {
    let place = cluster();
    let begin = |name: &str, more: &[&str]| {
        let mut command = nile(&place);
        command.args(["run", "terasort", "--size", "60M", "--name", name, "--json"]).args(more);
        command.args(["--policy", "fifo"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let are = |field: &str, value: &str| {
        let jobs = place.json(&["jobs"]);
        let jobs = jobs["jobs"].as_array().unwrap().iter();
        jobs.filter(|it| it["ended"] == "open" && it[field] == value).count()
    };
    // The sort of the first stands still until the others wait.
    let go = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let workers = place.workers("n1").iter().map(|(_, pid)| pid.to_string()).collect::<String>();
    let until = format!("while [ -e {} ]; do sleep 0.02; done", go.display());
    let hook = format!("sort:sampling=kill -STOP {workers}; {until}; kill -CONT {workers}");
    let first = begin("a", &["--at", &hook]);
    until_it_is("the first one sorts", || are("name", "sort") == 1);
    let others = [begin("b", &[]), begin("c", &[])];
    until_it_is("both wait", || are("phase", "queued") == 2);
    send("-INT", others[1].id());
    let [second, third] = others;
    let ended = third.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    go.close().unwrap();
    let mut checksums = Vec::new();
    for (sort, waits) in [(first, false), (second, true)] {
        let said = Said::from(sort.wait_with_output().unwrap()).expect(0);
        assert!(!waits || said.err.contains("generate waits: "), "{}", said.err);
        let sorted = document(&said);
        assert_eq!(sorted["valid"], true, "{sorted}");
        checksums.push(sorted["checksum"].clone());
    }
    assert_eq!(checksums[0], checksums[1]);
    assert_eq!(names(&place), Vec::<String>::new(), "nothing is left");
}

/// Ctrl-C in the midst of a sort.
fn interrupted(place: &Place) {
    job(place, &["terasort", "--size", "200M", "--at", INTERRUPT]).expect(130);
}

/// Three workers, each of which would take more than a third of the pool to merge its runs, take
/// turns; more runs than the pool has buffers are refused, and nothing of the job is left.
#[test]
fn runs_are_merged_in_turns_where_there_is_no_room_side_by_side() {
    let place = Place::new();
    let node = ["up", "--machine", "hosted", "--nodes", "1", "--cores", "5", "--disk", "2G"];
    place.run(&[&node[..], &["--pool", "16M"]].concat()).expect(0);
    let sort = |size| job(&place, &["terasort", "--size", size, "--json"]);
    // A worker that is away makes no part.
    place.run(&["core", "away", "n1.c4"]).expect(0);
    assert_eq!(document(&sort("1M").expect(0))["valid"], true);
    place.run(&["core", "back", "n1.c4"]).expect(0);
    // One that becomes something else meanwhile makes what it can, and others the rest.
    let mut command = nile(&place);
    command.args(["run", "terasort", "--size", "20M", "--json"]);
    let changed = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for role in ["disk", "worker", "disk,worker", "worker"] {
        let said = place.run(&["roles", "set", "n1.c4", role, "--patience", "20"]).expect(0);
        assert_eq!(said.out, format!("n1.c4 is for {} now\n", role.replace(',', ", ")));
    }
    let changed = document(&Said::from(changed.wait_with_output().unwrap()).expect(0));
    assert_eq!(changed["valid"], true, "{changed}");
    let sorted = document(&sort("200M").expect(0));
    assert!(sorted["spilled_bytes"].as_u64() > Some(100 << 20), "{sorted}");
    assert_eq!((&sorted["valid"], &sorted["retries"]), (&true.into(), &0.into()), "{sorted}");
    let said = sort("600M").expect(1).err;
    assert!(said.contains("sorted runs are to be merged, and the pool has only"), "{said}");
    assert!(names(&place).is_empty(), "{:?}", names(&place));
}

/// Each worker begins anew from another image in the midst of a sort.
#[test]
fn workers_get_another_image_while_they_sort() {
    let place = Place::new();
    place
        .run(&["up", "--machine", "hosted", "--nodes", "1", "--cores", "4", "--disk", "2G"])
        .expect(0);
    let (image, maps) = (deploy::same(place.folder(), "another"), place.folder().join("maps"));
    let at = format!("sort:mapping=touch {}", maps.display());
    let mut command = nile(&place);
    command.args(["run", "terasort", "--size", "200M", "--json", "--at", &at]);
    let sort = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_it_is("it maps", || maps.exists());
    let said = place.json(&["deploy", &image]);
    assert_eq!(said["cores"], serde_json::json!(["n1.c2", "n1.c3"]));
    let sorted = document(&Said::from(sort.wait_with_output().unwrap()).expect(0));
    assert_eq!(sorted["valid"], true, "{sorted}");
    let images = deploy::images(&place, "n1");
    assert!(images[2].is_some() && images[2] == images[3], "{images:?}");
}

/// On a cluster that is started for it, and is gone afterwards with all that it had.
#[test]
fn a_sort_without_a_cluster_leaves_nothing() {
    let place = Place::new();
    let disks = tempfile::tempdir().unwrap();
    let folder = disks.path().to_str().unwrap();
    let said = job(&place, &["terasort", "--size", "10M", "--disk-folder", folder]).expect(0);
    assert!(said.out.contains("104857 records") && said.out.contains(", valid"), "{}", said.out);
    assert_eq!((place.left(), fs::read_dir(folder).unwrap().count()), (Vec::new(), 0));

    // Of several nodes each gets the code first, and that is not to be interrupted.
    for nodes in ["1", "3"] {
        let what = ["terasort", "--size", "200M", "--nodes", nodes, "--at", INTERRUPT];
        job(&place, &[&what[..], &["--disk-folder", folder]].concat()).expect(130);
        assert_eq!((place.left(), fs::read_dir(folder).unwrap().count()), (Vec::new(), 0));
    }
}
