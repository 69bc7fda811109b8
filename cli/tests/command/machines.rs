//! Clusters of the real kernel in QEMU, and of machines of both kinds, through the launcher.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Said, launcher, nile, run};

/// Far longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster in a folder of its own, which is ended with it.
pub struct Cluster(TempDir);

impl Cluster {
    pub fn up(arguments: &[&str]) -> Cluster {
        let cluster = Cluster(tempfile::tempdir().unwrap());
        // The launcher builds the nodes; what is asked of them needs nothing built.
        run(&mut cluster.with(launcher()), &[&["up"], arguments].concat()).expect(0);
        cluster
    }

    fn with(&self, mut command: Command) -> Command {
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Said {
        run(&mut self.with(nile()), arguments)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let said = self.run(&[arguments, &["--json"]].concat()).expect(0);
        serde_json::from_str(&said.out).expect("the document is JSON")
    }

    /// The folder with the cluster's sockets.
    pub fn folder(&self) -> std::path::PathBuf {
        let only = |folder: &std::path::Path| {
            std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
        };
        only(&only(self.0.path()))
    }

    /// Whether any instance is on this node.
    fn has(&self, node: &str) -> bool {
        let said = self.run(&["services", "--json"]);
        // It says so if one is away.
        assert!(matches!(said.status, Some(0 | 3)), "{}", said.err);
        let services: Value = serde_json::from_str(&said.out).expect("the document is JSON");
        let mut services = services["services"].as_array().unwrap().iter();
        let place = format!("{node}.");
        services.any(|it| it["location"].as_str().unwrap().starts_with(&place))
    }

    /// Ends the cluster, of which nothing is left.
    pub fn down(self) {
        self.run(&["down"]).expect(0);
        assert_eq!(std::fs::read_dir(self.0.path()).unwrap().count(), 0, "files are left");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A test that failed leaves its cluster behind.
        let _ = self.with(nile()).arg("down").output();
    }
}

fn check(cluster: &Cluster, machines: [&str; 3]) {
    let status = cluster.json(&["status"]);
    let nodes = status["nodes"].as_array().unwrap();
    let found: Vec<_> = nodes.iter().map(|it| it["machine"].as_str().unwrap()).collect();
    assert_eq!(found, machines);
    for node in nodes {
        for core in node["cores"].as_array().unwrap() {
            let device = &core["interrupts"]["device"];
            let works = core["roles"] == serde_json::json!(["worker"]);
            assert!(!works || device.as_u64().unwrap_or(0) == 0, "a worker has {core}");
        }
    }
    for node in ["n1", "n2", "n3"] {
        assert!(cluster.has(node), "{node} has nothing");
        let core = format!("{node}.c2");
        let call = ["call", "ackermann.compute", "m=2", "n=3", "--core", &core];
        let answer = cluster.json(&call);
        assert_eq!(answer["status"], "ok");
        assert_eq!(answer["from"], core.as_str());
        assert_eq!(answer["reply"]["value"], 9);
    }
}

const SMALL: [&str; 4] = ["--cores", "3", "--memory", "128M"];

#[test]
fn three_nodes_in_qemu_are_a_cluster() {
    let cluster = Cluster::up(&[&["--nodes", "3", "--machine", "qemu"][..], &SMALL].concat());
    check(&cluster, ["qemu"; 3]);
    cluster.run(&["fault", "kill", "n2.c2"]).expect(0);
    let core = cluster.json(&["status"])["nodes"][1]["cores"][2].clone();
    assert_eq!((&core["generation"], &core["state"]), (&2.into(), &"running".into()), "{core}");
    cluster.run(&["fault", "kill", "n3"]).expect(0);
    let start = Instant::now();
    while cluster.has("n3") {
        assert!(start.elapsed() < PATIENCE, "n3 is gone, and stays listed");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(cluster.has("n1") && cluster.has("n2"));
    cluster.down();
}

#[test]
fn nodes_of_both_kinds_are_a_cluster() {
    let cluster = Cluster::up(&[&["--machine", "qemu:2,hosted:1"][..], &SMALL].concat());
    check(&cluster, ["qemu", "qemu", "hosted"]);
    cluster.down();
}

/// A network namespace, which is gone with the value.
struct Namespace(String);

impl Namespace {
    /// One with two devices, `one` and `two`, that are each other's far end; `None` where that
    /// takes privileges that are missing.
    fn with_two_ends() -> Option<Namespace> {
        let namespace = Namespace(format!("nile-outside-{}", std::process::id()));
        let done = |words: &[&str]| {
            Command::new("ip").args(words).output().is_ok_and(|it| it.status.success())
        };
        let name = namespace.0.as_str();
        let made = done(&["netns", "add", name])
            && done(&["-n", name, "link", "add", "one", "type", "veth", "peer", "name", "two"])
            && done(&["-n", name, "link", "set", "one", "up"])
            && done(&["-n", name, "link", "set", "two", "up"]);
        made.then_some(namespace)
    }

    /// The launcher, in there.
    fn launcher(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(launcher().get_program());
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

#[test]
fn a_node_elsewhere_joins_by_an_interface() {
    let Some(namespace) = Namespace::with_two_ends() else {
        return eprintln!("not run: this user may not make network devices");
    };
    let cluster = Cluster(tempfile::tempdir().unwrap());
    let up = ["up", "--machine", "hosted", "--nodes", "1", "--interface", "packet:one"];
    run(&mut cluster.with(namespace.launcher()), &up).expect(0);
    let key = std::fs::read_to_string(cluster.folder().join("key")).unwrap();
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = format!("[node]\nid = 2\n[network]\nkey = \"{}\"\n", key.trim());
    std::fs::write(config.path(), text).unwrap();
    let mut elsewhere = namespace.launcher();
    elsewhere.args(["boot", "--machine", "hosted", "--interface", "packet:two"]);
    elsewhere.arg("--config").arg(config.path()).args(["--program", "serve"]);
    let mut elsewhere = elsewhere.stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !cluster.has("n2") {
        assert!(begun.elapsed() < PATIENCE, "n2 never joined");
        thread::sleep(Duration::from_millis(50));
    }
    let call = ["call", "ackermann.compute", "m=2", "n=3", "--core", "n2.c0"];
    assert!(cluster.run(&call).expect(0).out.contains('9'));
    elsewhere.kill().unwrap();
    elsewhere.wait().unwrap();
    cluster.down();
}
