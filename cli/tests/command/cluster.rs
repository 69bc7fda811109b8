//! A cluster of hosted nodes, as people use it: started, looked at, called, broken, ended. Each
//! test has a runtime folder of its own, so that they run side by side.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Said, launcher, nile, root, run, runs};
use crate::{compose, cores, deploy, graphs, policies};

/// Far longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(40);

/// A folder for clusters, which are all ended with it.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// Where all its clusters are.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The command, with nodes as the launcher builds them.
    pub fn nile(&self) -> Command {
        let mut command = nile();
        self.in_here(command.env("NILE_HOSTED", hosted()));
        command
    }

    /// Has a command see the clusters of this place, and no others.
    pub fn in_here(&self, command: &mut Command) {
        command.env("XDG_RUNTIME_DIR", self.0.path());
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        run(&mut self.nile(), arguments)
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        self.json_with(0, arguments)
    }

    /// The document of a command that ends with `status`.
    #[track_caller]
    fn json_with(&self, status: i32, arguments: &[&str]) -> Value {
        document(&self.run(&[arguments, &["--json"]].concat()).expect(status))
    }

    pub fn up(&self, more: &[&str]) -> Said {
        let usual = ["up", "--machine", "hosted", "--cores", "3", "--memory", "64M"];
        self.run(&[&usual, more].concat())
    }

    /// Where each service of this name is.
    fn places(&self, name: &str) -> Vec<String> {
        self.places_with(0, name)
    }

    /// The same while `services` ends with `status`.
    fn places_with(&self, status: i32, name: &str) -> Vec<String> {
        let services = self.json_with(status, &["services"]);
        let services = services["services"].as_array().unwrap().iter();
        let named = services.filter(|it| it["name"] == name);
        named.map(|it| it["location"].as_str().unwrap().to_string()).collect()
    }

    /// What is left of clusters: files and processes.
    pub fn left(&self) -> Vec<String> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let files = files.map(|entry| entry.unwrap().path().display().to_string());
        files.chain(self.processes().into_iter().map(|(_, said)| said)).collect()
    }

    /// The worker cores of a node, each with its process.
    pub fn workers(&self, node: &str) -> Vec<(u16, u32)> {
        let mark = format!("NILE_PROCESS_OF={node}@");
        let processes = self.processes().into_iter().filter(|(_, said)| said.contains(&mark));
        let core = |said: &str| {
            let mut words = said.split(' ').skip_while(|word| *word != "--worker-of-a-node");
            words.nth(1)?.parse().ok()
        };
        processes.filter_map(|(pid, said)| Some((core(&said)?, pid))).collect()
    }

    /// The process of a node that has all its cores but the workers.
    pub fn leader(&self, node: &str) -> u32 {
        let mark = format!("NILE_PROCESS_OF={node}@");
        let is_it = |said: &str| said.contains(&mark) && !said.contains("--worker-of-a-node");
        let found = self.processes().into_iter().find(|(_, said)| is_it(said));
        found.expect("the node runs").0
    }

    /// The processes of clusters, by number, each with its command line and environment.
    fn processes(&self) -> Vec<(u32, String)> {
        let ours = format!("@{}", self.0.path().display());
        let process = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let said = |name| fs::read(entry.path().join(name)).unwrap_or_default();
            let said = [said("cmdline"), said("environ")].concat();
            let said = String::from_utf8_lossy(&said).replace('\0', " ");
            said.contains(&ours).then_some((pid, said))
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(process).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test that failed leaves its clusters behind.
        for cluster in [&[][..], &["--cluster", "one"], &["--cluster", "two"]] {
            let _ = self.nile().arg("down").args(cluster).output();
        }
    }
}

/// The program that hosted nodes are, built as the launcher builds it.
pub fn hosted() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(given) = std::env::var_os("NILE_HOSTED") {
            return given.into();
        }
        // It boots once; what it needs for that is what it needs here.
        run(&mut launcher(), &["boot", "--machine", "hosted", "--cores", "1"]).expect(0);
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.map_or_else(|| root().join("target"), |it| root().join("cli").join(it));
        let debug = std::env::var_os("NILE_PROFILE").is_some_and(|profile| profile == "dev");
        target.join(if debug { "debug/nile-hosted" } else { "release/nile-hosted" })
    })
}

#[track_caller]
pub fn document(said: &Said) -> Value {
    assert_eq!(said.out.lines().count(), 1, "one document and nothing else: {}", said.out);
    serde_json::from_str(&said.out).expect("the document is JSON")
}

#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[track_caller]
pub fn refused(said: Said, part: &str) {
    let said = said.expect(2);
    assert!(said.err.contains(part), "it should say {part:?}, but: {}", said.err);
    assert_eq!(said.out, "");
}

/// A file that a command has open which starts a cluster.
const KEPT: &str = "kept-open";

#[test]
fn a_cluster_is_started_called_broken_and_ended() {
    let place = Place::new();
    refused(place.run(&["status"]), "no cluster is up");
    assert_eq!(place.run(&["down"]).expect(0).out, "nothing is up\n");
    // With a file open that is the caller's.
    let open = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    place.in_here(shell.env("NILE_HOSTED", hosted()));
    shell.args(["-c", "exec 9>\"$0\"; exec \"$@\""]).arg(open.path().join(KEPT));
    shell.arg(place.nile().get_program());
    let usual = ["up", "--machine", "hosted", "--cores", "3", "--memory", "64M", "--json"];
    let up = document(&run(&mut shell, &usual).expect(0));
    assert_eq!(up["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(up["sealed"], true);
    refused(place.up(&[]), "a cluster is up already");
    let other = tempfile::tempdir().unwrap();
    let elsewhere = |command: &str| run(place.nile().env("NILE_ROOT", other.path()), &[command]);
    refused(elsewhere("ls"), "no cluster is up");
    assert_eq!(elsewhere("down").expect(0).out, "nothing is up\n", "it is another checkout's");
    only_for_this_user(Path::new(up["folder"].as_str().unwrap()));

    check_status(&place.json(&["status"]));
    let found: Vec<String> =
        (1..=3).flat_map(|node| (0..3).map(move |core| format!("n{node}.c{core}"))).collect();
    assert_eq!(place.places("ackermann"), found, "every node knows every instance");
    check_calls(&place);
    check_logs(&place);
    policies::check(&place);
    cores::check(&place);
    deploy::check(&place);
    compose::check(&place);
    graphs::check(&place);

    place.run(&["fault", "kill", "n3"]).expect(0);
    let dead = place.run(&["call", "time.now", "--core", "n3.c0", "--json"]).expect(1);
    let dead = document(&dead);
    assert_eq!((&dead["status"], &dead["error"]), (&"error".into(), &"dead".into()));
    until("n3 is gone from the services", || {
        !place.places_with(3, "ackermann").iter().any(|it| it.starts_with("n3."))
    });
    assert_eq!(place.json_with(3, &["status"])["nodes"][2]["state"], "down");
    let partial = place.run(&["status"]).expect(3);
    assert!(partial.err.contains("left out: n3") && partial.out.contains("n1.c0"));
    refused(place.run(&["fault", "kill", "n3"]), "n3 does not run");
    let before = up["nodes"][2]["generation"].as_u64();
    place.run(&["fault", "restart", "n3"]).expect(0);
    let after = place.json(&["status"])["nodes"][2]["generation"].as_u64();
    assert!(after > before, "{before:?} {after:?}");
    assert_eq!(place.places("ackermann"), found);
    check_faults(&place);
    check_switch(&place);

    let mut watching = place.nile();
    watching.args(["roles", "--watch"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    let mut first = [0];
    watching.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(place.run(&["down"]).expect(0).out, "ended: n1, n2, n3, switch\n");
    assert_eq!(place.left(), Vec::<String>::new());
    let said = watching.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("the cluster was ended meanwhile"), "{said}");
}

fn only_for_this_user(folder: &Path) {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700);
    for name in ["key", "n1.toml", "n1.log"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
}

/// Everything that the contract says about the status of three nodes with three cores.
fn check_status(status: &Value) {
    let nodes = status["nodes"].as_array().unwrap();
    for (node, name) in nodes.iter().zip(["n1", "n2", "n3"]) {
        assert_eq!((&node["name"], &node["state"]), (&name.into(), &"alive".into()));
        assert_eq!(node["machine"], "hosted");
        assert!(node["generation"].as_u64() > Some(0));
        let cores = node["cores"].as_array().unwrap();
        assert_eq!(cores.len(), 3);
        for (core, role) in cores.iter().zip(["management", "network", "worker"]) {
            assert_eq!(core["roles"][0], role);
            assert!(core["interrupts"]["tick"].is_u64() && core["load"].is_u64(), "{core}");
            assert!(core["hardware_id"].as_u64() > Some(1) && core["queues"].is_object(), "{core}");
            assert_eq!(core["generation"], 1);
        }
    }
    assert_eq!(nodes.len(), 3);
}

fn check_calls(place: &Place) {
    let compute = ["call", "ackermann.compute", "m=2", "n=3"];
    let reply = place.json(&[&compute[..], &["--core", "n2.c2"]].concat());
    assert_eq!(reply["status"], "ok");
    assert_eq!((&reply["from"], &reply["reply"]["value"]), (&"n2.c2".into(), &9.into()));
    assert_eq!(place.run(&compute).expect(0).out, "<reply><value>9</value></reply>\n");
    let listed = place.json(&["call", "registry.list", "skip=0", "--core", "n3"]);
    assert!(listed["reply"]["instances"].as_array().unwrap().len() > 10);
    for (arguments, part) in [
        (&["call", "ackerman.compute"][..], "no service `ackerman`; did you mean `ackermann`?"),
        (&["call", "ackermann.compte"], "no method `compte`; did you mean `compute`?"),
        (&["call", "ackermann.compute", "m=1", "k=2"], "no parameter `k`"),
        (&["call", "ackermann.compute", "m=1"], "`n` is missing"),
        (&["call", "ackermann.compute", "m=9", "n=1"], "expected 0 to 3"),
        (&["call", "time.now", "--core", "n9"], "no node `n9`; there are: n1, n2, n3"),
        (&["call", "time.now", "--core", "n1.c7"], "no core `n1.c7`"),
        (&["call", "log.tail", "lines=1", "--core", "n1.c2"], "log is not on n1.c2"),
        (&["discover", "tmie"], "no service `tmie`; did you mean `time`?"),
    ] {
        refused(place.run(arguments), part);
    }
    let late = ["call", "time.sleep_until", "nanos=18446744073709551615"];
    let late = place.run(&[&late[..], &["--timeout", "1", "--json"]].concat()).expect(1);
    assert_eq!(document(&late)["error"], "timeout");
    let failed = place.run(&["call", "ackermann.compute", "m=3", "n=100000"]).expect(1);
    assert!(failed.err.contains("takes too long"), "{}", failed.err);
    let schema = place.run(&["discover", "ackermann"]).expect(0).out;
    assert!(schema.starts_with("<ackermann ") && schema.contains("<most>3</most>"), "{schema}");
}

fn check_logs(place: &Place) {
    // Nobody has written to the service: the node's own lines are shown.
    let own = place.run(&["logs", "n1"]).expect(0);
    assert!(own.out.contains("is in the cluster"), "{}", own.out);
    place.run(&["call", "log.write", "line=a <b> & c", "--core", "n2"]).expect(0);
    assert!(place.run(&["logs", "n2"]).expect(0).out.ends_with(" a <b> & c\n"));
    refused(place.run(&["logs", "n4"]), "no node `n4`");
    // Who follows it and has read enough ends it.
    let mut follow = place.nile();
    follow.args(["logs", "n2", "--follow"]).stdout(Stdio::piped());
    let mut follow = follow.spawn().unwrap();
    let mut first = [0];
    follow.stdout.take().unwrap().read_exact(&mut first).unwrap();
    until("it is ended with its reader", || follow.try_wait().unwrap().is_some());
    assert!(follow.wait().unwrap().success());
}

fn check_faults(place: &Place) {
    let worker = |place: &Place| place.json(&["status"])["nodes"][0]["cores"][2].clone();
    let before = worker(place);
    let next = before["generation"].as_u64().unwrap() + 1;
    place.run(&["fault", "restart", "n1.c2"]).expect(0);
    until("the worker runs anew", || worker(place)["generation"] == next);
    assert_ne!(worker(place)["hardware_id"], before["hardware_id"]);
    // A core that is no process of its own: its node's core manager ends it, which is this one.
    let manager = |place: &Place| place.json(&["status"])["nodes"][1]["cores"][0].clone();
    assert!(manager(place)["queues"]["tasks"].is_u64(), "{}", manager(place));
    policies::check_told_again(place, || {
        place.run(&["fault", "restart", "n2.c0"]).expect(0);
        until("the manager runs anew", || manager(place)["generation"] == 2);
    });
    for (arguments, part) in [
        (&["kill", "n1.c7"][..], "no core `n1.c7`"),
        (&["kill", "n7"], "no node `n7`"),
        (&["delay", "10"], "write it as 10ms"),
        (&["loss", "1%", "n7"], "no link `n7`"),
        (&["partition", "n1,n2"], "not two sides"),
        (&["partition", "n1|n7"], "no link `n7`"),
        (&["partition", "n1,n2|n3|n2"], "link `n2` is on two sides"),
    ] {
        refused(place.run(&[&["fault"], arguments].concat()), part);
    }
    place.run(&["fault", "partition", "n1|n2,n3"]).expect(0);
    let sides = || {
        let members = place.json(&["call", "gossip.members", "after=0", "--core", "n1"]);
        let members = members["reply"]["members"].as_array().unwrap().clone();
        members.iter().filter(|it| it["state"] == "alive").count()
    };
    until("n1 holds the others for dead", || sides() == 1);
    place.run(&["fault", "heal"]).expect(0);
    until("n1 has found the others again", || sides() == 3);
}

/// Without its switch a cluster is not lost, and with one that hangs nobody else is blamed.
fn check_switch(place: &Place) {
    let switch = place.leader("switch");
    let open = fs::read_dir(format!("/proc/{switch}/fd")).unwrap();
    let targets = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let kept: Vec<_> = targets.filter(|it| it.ends_with(KEPT)).collect();
    assert!(kept.is_empty(), "the switch has what its starter had open: {kept:?}");
    send("-STOP", switch);
    let hangs = place.run(&["ls", "--timeout", "1"]).expect(1);
    send("-CONT", switch);
    assert!(hangs.err.contains("the switch of the cluster does not answer"), "{}", hangs.err);
    send("-KILL", switch);
    let node = place.leader("n2");
    let lost = place.run(&["fault", "restart", "n2"]).expect(1);
    assert!(lost.err.contains("fault restart switch"), "{}", lost.err);
    assert_eq!(place.leader("n2"), node, "what could not be seen to come up is not killed");
    let own = place.run(&["logs", "n1"]).expect(0);
    assert!(own.out.contains("is in the cluster"), "{}", own.out);
    place.run(&["fault", "restart", "switch"]).expect(0);
    until("all nodes are there again", || place.run(&["status"]).out.matches("alive").count() == 3);
    place.run(&["fault", "restart", "n2"]).expect(0);
}

#[test]
fn two_clusters_live_side_by_side() {
    let place = Place::new();
    // Nobody reads the FIFO.
    let fifo = place.folder().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let capture = ["--capture", fifo.to_str().unwrap()];
    place.up(&[&["--nodes", "2", "--cluster", "one"][..], &capture].concat()).expect(0);
    place.up(&["--nodes", "2", "--cluster", "two"]).expect(0);
    // One of them says it by the environment.
    let mut variable = place.nile();
    refused(run(variable.env("NILE_CLUSTER", ""), &["status"]), "no cluster is up");
    let mut variable = place.nile();
    let said = run(variable.env("NILE_CLUSTER", "one"), &["down"]).expect(0);
    assert_eq!(said.out, "ended: n1, n2, switch\n");
    assert!(said.err.contains("fifo: 0 frames, ") && said.err.contains("left out"), "{}", said.err);
    fs::remove_file(fifo).unwrap();
    // Who cannot say what is up leaves nothing up.
    let mut silent = place.nile();
    silent.args(["up", "--machine", "hosted", "--nodes", "1", "--cores", "1", "--memory", "64M"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(silent.stdout(full).output().unwrap().status.code(), Some(1));
    refused(place.run(&["status"]), "no cluster is up");
    let status = place.json(&["status", "--cluster", "two"]);
    assert!(status["nodes"].as_array().unwrap().iter().all(|node| node["state"] == "alive"));
    refused(place.run(&["status", "--cluster", "one"]), "nile up --cluster one`");
    refused(place.up(&["--cluster", "two"]), "nile down --cluster two`");
    place.run(&["down", "--cluster", "two"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn a_cluster_that_does_not_come_up_leaves_nothing() {
    let place = Place::new();
    let program = place.0.path().join("node");
    let broken = |script: &str, limit: &str| {
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = place.nile();
        command.env("NILE_HOSTED", &program).args(["up", "--machine", "hosted", "--limit", limit]);
        command
    };
    let said = run(&mut broken("#!/bin/sh\necho it is broken >&2\nexit 1\n", "20"), &[]).expect(1);
    assert!(said.err.contains("it is broken") && said.err.contains("ended before"), "{}", said.err);
    let said = run(&mut broken("#!/bin/sh\necho no such thing >&2\nexit 2\n", "20"), &[]).expect(2);
    assert!(said.err.contains("no such thing"), "{}", said.err);
    let said = run(&mut broken("#!/bin/sh\nsleep 1000 & sleep 1000\n", "2"), &[]).expect(1);
    assert!(said.err.contains("not up within 2 s (not on the network: n1"), "{}", said.err);

    for signal in ["-INT", "-QUIT"] {
        let mut up = broken("#!/bin/sh\nsleep 1000 & sleep 1000\n", "60");
        let mut up = up.stderr(Stdio::null()).spawn().unwrap();
        until("nodes are started", || place.left().len() > 3);
        send(signal, up.id());
        assert_eq!(up.wait().unwrap().code(), Some(130));
        fs::remove_file(&program).unwrap();
        assert_eq!(place.left(), Vec::<String>::new());
    }
}

/// A node and the switch are gone, and nothing says what the cluster consisted of.
#[test]
fn down_ends_what_is_left_of_a_cluster() {
    let place = Place::new();
    let up = document(&place.up(&["--nodes", "2", "--unsealed", "--json"]).expect(0));
    let folder = up["folder"].as_str().unwrap();
    place.run(&["fault", "kill", "n1"]).expect(0);
    let switches = place.processes().into_iter().filter(|(_, said)| said.contains(" switch "));
    let switches: Vec<u32> = switches.map(|(pid, _)| pid).collect();
    assert_eq!(switches.len(), 1);
    send("-KILL", switches[0]);
    until("the switch is gone", || !runs(switches[0]));
    let lost = place.run(&["services"]).expect(1);
    assert!(
        lost.err.contains("switch") && lost.err.contains("fault restart switch"),
        "{}",
        lost.err
    );
    fs::remove_file(PathBuf::from(folder).join("cluster.json")).unwrap();
    let damaged = place.run(&["status"]).expect(1);
    assert!(damaged.err.contains("nile down"), "{}", damaged.err);
    assert_eq!(place.run(&["down"]).expect(0).out, "ended: n2\n");
    assert_eq!(place.left(), Vec::<String>::new());
}

pub fn send(signal: &str, pid: u32) {
    let kill = format!("kill {signal} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn wrong_clusters_are_refused_before_anything_starts() {
    let place = Place::new();
    let file = place.0.path().join("nile.toml");
    fs::write(&file, "[timer]\n\n[network]\nunsealed = true\n").unwrap();
    let path = file.to_str().unwrap();
    for (arguments, part) in [
        (&["--machine", "vax"][..], "no machine `vax`"),
        (&["--machine", "qemu:2,hosted:1", "--nodes", "2"], "--nodes 2"),
        (&["--machine", "sim"], "nile sim"),
        (&["--nodes", "0"], "0 is not in 1..="),
        (&["--memory", "1M"], "too little"),
        (&["--cluster", "../x"], "`../x` is no name"),
        (&["--machine", "hosted", "--capture", "/dev/stdout"], "--capture /dev/stdout"),
        (&["--machine", "hosted", "--config", path], "nile.toml:3: [network]"),
        (&["--machine", "hosted", "--memory", "16M", "--cores", "64"], "too little memory"),
    ] {
        refused(place.run(&[&["up"], arguments].concat()), part);
    }
    refused(place.run(&["top"]), "needs a terminal");
    fs::remove_file(file).unwrap();
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn shells_are_told_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&mut nile(), &["completions", shell]).expect(0).out;
        for command in ["services", "fault", "completions"] {
            assert!(script.contains(command), "{shell} is not told of {command}");
        }
    }
}

#[test]
fn nodes_have_disks_that_go_or_stay() {
    let place = Place::new();
    let kept = tempfile::tempdir().unwrap();
    let folder = kept.path().to_str().unwrap();
    place.up(&["--nodes", "2", "--disk", "8M", "--disk-folder", folder]).expect(0);
    let list = |core: &str| place.run(&["call", "disk.list", "--core", core]).expect(0).out;
    let disks = [list("n1.c1"), list("n2.c1")];
    assert!(disks[0].contains("n1.disk") && disks[0].contains(&(8 << 20).to_string()), "{disks:?}");
    assert!(disks[1].contains("n2.disk"), "{disks:?}");
    // One node at a time has a disk.
    let two = ["--cluster", "two", "--nodes", "1", "--disk", "8M", "--disk-folder", folder];
    refused(place.up(&two), "another node has this disk");
    place.run(&["fault", "restart", "n1"]).expect(0);
    assert_eq!(list("n1.c1"), disks[0], "it is the same disk");
    place.run(&["down"]).expect(0);
    assert_eq!(fs::metadata(kept.path().join("n1.disk")).unwrap().len(), 8 << 20);

    place.up(&["--nodes", "1", "--disk", "8M"]).expect(0);
    assert!(list("n1.c1").contains("n1.disk"));
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}
