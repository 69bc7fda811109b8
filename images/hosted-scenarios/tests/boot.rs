//! The program as `nile boot` calls it: what it prints, what it refuses, and nodes on devices of
//! Linux. Scenarios are run by the command line's tests.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a node may take; only failures take as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_nile-hosted-scenarios");

/// What a node left behind.
struct Ended {
    status: Option<i32>,
    output: Vec<u8>,
    log: String,
}

fn node(arguments: &[&str]) -> Ended {
    end_of(Command::new(PROGRAM).args(arguments))
}

fn end_of(command: &mut Command) -> Ended {
    let mut child = command
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (output, log) = (read(child.stdout.take()), read(child.stderr.take()));
    let limit = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().expect("a child of this process") {
            Some(status) => break status.code(),
            None if Instant::now() < limit => thread::sleep(Duration::from_millis(2)),
            None => {
                child.kill().and_then(|()| child.wait()).expect("a child of this process");
                break None;
            }
        }
    };
    let log = String::from_utf8_lossy(&log.join().expect("the reader ends")).into_owned();
    Ended { status, output: output.join().expect("the reader ends"), log }
}

/// All that comes out of a pipe, read as it comes.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.expect("a piped output").read_to_end(&mut bytes).expect("a readable pipe");
        bytes
    })
}

/// The report of a node that was to boot and power off.
fn report(arguments: &[&str]) -> Value {
    let (report, log) = report_and_log(arguments);
    assert_eq!(log, "", "a boot has nothing to say but its report");
    report
}

fn report_and_log(arguments: &[&str]) -> (Value, String) {
    let Ended { status, output, log } = node(arguments);
    let written = String::from_utf8_lossy(&output);
    assert_eq!(status, Some(0), "{arguments:?}: {written}\n{log}");
    let (separator, document) = output.split_first().expect("a report");
    assert_eq!(*separator, 0x1e);
    assert_eq!(document.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
    (serde_json::from_slice(document).expect("JSON"), log)
}

/// The message of a node that was refused.
fn refusal(arguments: &[&str]) -> String {
    let Ended { status, output, log } = node(arguments);
    assert_eq!(status, Some(2), "{arguments:?}: {log}");
    assert!(output.is_empty());
    assert_eq!(log.lines().count(), 1, "{log}");
    log
}

fn config(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a writable folder for tests");
    path
}

#[test]
fn a_node_boots_reports_and_powers_off() {
    let report = report(&["--cores", "4", "--memory", "64M", "--program", "boot"]);
    assert_eq!(report["machine"], "hosted");
    let cores = report["cores"].as_array().expect("cores");
    assert_eq!(cores.len(), 4);
    for core in cores {
        assert_eq!((&core["state"], &core["generation"]), (&"running".into(), &1.into()));
        assert_ne!(core["hardware_id"], 0);
    }
    assert_eq!(cores[3]["roles"], serde_json::json!(["worker"]));
    let steps = report["steps"].as_array().expect("steps");
    let sum: u64 = steps.iter().filter_map(|step| step["us"].as_u64()).sum();
    assert_eq!(report["boot_us"], sum, "the steps have no gap");
    let total = report["memory"]["total_bytes"].as_u64().expect("bytes");
    assert!((32 << 20..=64 << 20).contains(&total), "{total} bytes");
}

#[test]
fn nodes_of_any_size_boot() {
    // With less memory, the services of so many cores would run out of page tables.
    for (cores, memory) in [("1", "64M"), ("2", "64M"), ("33", "256M")] {
        let report = report(&["--cores", cores, "--memory", memory]);
        assert_eq!(report["cores"].as_array().map(Vec::len), cores.parse().ok());
    }
}

#[test]
fn the_configuration_gives_the_roles() {
    let path = config("roles.toml", "[roles]\nworker = [1]\nnetwork = [2]\n");
    let report = report(&["--cores", "3", "--config", path.to_str().expect("a plain path")]);
    assert_eq!(report["cores"][1]["roles"], serde_json::json!(["worker"]));
    assert_eq!(report["cores"][2]["roles"], serde_json::json!(["network"]));
}

#[test]
fn a_wrong_configuration_is_refused_by_file_and_line() {
    for (name, text, line) in [
        ("role.toml", "[roles]\nmanagement = 1\nwroker = 2\n", "role.toml:3: unknown role"),
        ("many.toml", "[roles]\nworker = 9\n", "many.toml:2: role worker asks for 9 cores"),
        ("syntax.toml", "\n[roles\n", "syntax.toml:2: "),
    ] {
        let path = config(name, text);
        let message = refusal(&["--config", path.to_str().expect("a plain path")]);
        assert!(message.contains(line), "{message}");
    }
    assert!(refusal(&["--config", "/no/such/file"]).contains("/no/such/file: "));
}

#[test]
fn what_no_node_can_be_is_refused_with_its_number() {
    assert!(refusal(&["--cores", "257"]).contains("1 to 256 cores"));
    assert!(refusal(&["--memory", "8M"]).contains("at least 20 MiB"));
    assert!(refusal(&["--memory", "9000G"]).contains("at most 8192 GiB"));
    assert!(refusal(&["--program", "sing"]).contains("--program sing: unknown program"));
    assert!(refusal(&["--speed"]).contains("--speed"));
}

/// A network namespace, with what is in it.
struct Namespace(String);

impl Namespace {
    /// An empty one; `None` where that takes privileges that are missing.
    fn new(name: &str) -> Option<Namespace> {
        let name = format!("nile-{name}-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        made.is_ok_and(|it| it.status.success()).then_some(Namespace(name))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).args(words);
        command
    }

    fn ip(&self, words: &[&str]) {
        let done = self.command(&[&["ip"], words].concat()).output().expect("ip is there");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Runs the scenario of clusters on two nodes, each on one of `interfaces`.
fn nodes_call_each_other(namespace: &Namespace, interfaces: [&str; 2]) {
    let run = |node: usize| {
        let key = "0123456789abcdef".repeat(4);
        let mut text = format!("[node]\nid = {node}\n[network]\nkey = \"{key}\"\n");
        // One is told by its configuration, the other by its command line.
        if node == 1 {
            text += &format!("interface = \"{}\"\n", interfaces[0]);
        }
        let file = config(&format!("{}-{node}.toml", namespace.0), &text);
        let mut command = namespace.command(&[PROGRAM, "--cores", "2", "--memory", "64M"]);
        command.arg("--config").arg(file);
        if node == 2 {
            command.args(["--interface", interfaces[1]]);
        }
        let ended = end_of(command.args(["--program", "cluster nodes=2"]));
        assert_eq!(ended.status, Some(0), "n{node}: {}", ended.log);
        ended.output
    };
    let report = thread::scope(|scope| {
        let other = scope.spawn(|| run(2));
        let report = run(1);
        other.join().expect("n2 ends well");
        report
    });
    let report: Value = serde_json::from_slice(&report[1..]).expect("JSON");
    assert_eq!(report["program"]["passed"], true, "{}", report["program"]);
}

#[test]
fn nodes_call_each_other_over_devices_of_linux() {
    let Some(namespace) = Namespace::new("veth") else {
        return eprintln!("not run: this user may not make a network namespace");
    };
    namespace.ip(&["link", "add", "one", "type", "veth", "peer", "name", "two"]);
    namespace.ip(&["link", "set", "one", "up"]);
    namespace.ip(&["link", "set", "two", "up"]);
    nodes_call_each_other(&namespace, ["packet:one", "packet:two"]);
}

#[test]
fn a_node_calls_through_a_tap_device() {
    let Some(namespace) = Namespace::new("tap") else {
        return eprintln!("not run: this user may not make a network namespace");
    };
    if !Path::new("/dev/net/tun").exists() {
        return eprintln!("not run: there is no /dev/net/tun");
    }
    namespace.ip(&["tuntap", "add", "dev", "tap", "mode", "tap"]);
    namespace.ip(&["link", "set", "tap", "up"]);
    // What the host sends to the device comes to the one node, and what that sends to the other.
    nodes_call_each_other(&namespace, ["tap:tap", "packet:tap"]);
}

/// The processes of nodes that serve; they end with it.
struct Serving(Vec<std::process::Child>);

impl Drop for Serving {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn of_two_nodes_with_one_number_the_later_one_gives_up() {
    let Some(namespace) = Namespace::new("namesakes") else {
        return eprintln!("not run: this user may not make a network namespace");
    };
    namespace.ip(&["link", "add", "bridge", "type", "bridge"]);
    namespace.ip(&["link", "set", "bridge", "up"]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let node = |place: usize, id: u32| {
        let (one, other) = (format!("node{place}"), format!("port{place}"));
        namespace.ip(&["link", "add", &one, "type", "veth", "peer", "name", &other]);
        namespace.ip(&["link", "set", &other, "master", "bridge", "up"]);
        namespace.ip(&["link", "set", &one, "up"]);
        let key = "0123456789abcdef".repeat(4);
        let text = format!("[node]\nid = {id}\n[network]\nkey = \"{key}\"\n");
        let file = config(&format!("{}-{place}.toml", namespace.0), &text);
        let mut command = namespace.command(&[PROGRAM, "--cores", "2", "--memory", "64M"]);
        command.arg("--config").arg(file).args(["--interface", &format!("packet:{one}")]);
        command.args(["--program", "serve"]);
        command
    };
    let log = |place: usize| folder.join(format!("{}-{place}.log", namespace.0));
    let said = |place: usize| fs::read_to_string(log(place)).expect("it has a log");
    let mut serving = Serving(Vec::new());
    for (place, id) in [(0, 1), (1, 2)] {
        let file = fs::File::create(log(place)).expect("a log can be written");
        let child = node(place, id).stdout(std::process::Stdio::null()).stderr(file).spawn();
        serving.0.push(child.expect("ip is there"));
    }
    let until = |place: usize, what: &str| {
        let start = std::time::Instant::now();
        while !said(place).contains(what) {
            assert!(start.elapsed().as_secs() < 60, "{what}: {}", said(place));
            thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until(0, "n2 ");
    until(1, "n1 ");
    // Ages count in half seconds.
    thread::sleep(std::time::Duration::from_secs(1));
    let later = end_of(&mut node(2, 1));
    assert_eq!(later.status, Some(1), "{}", later.log);
    assert!(later.log.contains("another node is n1, g"), "{}", later.log);
    assert!(later.log.contains("so this one gives up"), "{}", later.log);
    until(0, "this one was there first");
    assert!(serving.0.iter_mut().all(|child| child.try_wait().is_ok_and(|it| it.is_none())));
}
