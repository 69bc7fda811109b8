//! However a command ends, what it has started ends with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{children, nile, runs};

/// Far longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn send(signal: &str, pid: u32) {
    let kill = format!("kill {signal} {pid}");
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success());
}

/// A node in QEMU that never ends: a machine with nothing to boot from.
fn endless_qemu(folder: &Path) -> Command {
    let disc = folder.join("empty.iso");
    fs::write(&disc, [0; 4096]).unwrap();
    let mut command = nile();
    command.args(["boot", "--cores", "1", "--disk", "1M", "--iso"]).arg(disc);
    command
}

/// A hosted node that never ends and has a child of its own.
fn endless_hosted(folder: &Path) -> Command {
    let program = folder.join("node");
    fs::write(&program, "#!/bin/sh\nsleep 1000 &\nwait\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = nile();
    command.args(["boot", "--machine", "hosted", "--disk", "1M"]).env("NILE_HOSTED", program);
    command
}

/// The same command, started by another program.
fn through(starter: &[&str], command: Command) -> Command {
    let mut through = Command::new(starter[0]);
    through.args(&starter[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => through.env(name, value),
            None => through.env_remove(name),
        };
    }
    through
}

/// Starts `command` and waits until it runs something of the name `expected`.
fn start(mut command: Command, expected: &str) -> (Child, Vec<u32>) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut started = Vec::new();
    until("the command has started its node", || {
        started = children(child.id());
        started.extend(started.clone().into_iter().flat_map(children));
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        started.iter().any(|pid| name(pid).starts_with(expected))
    });
    (child, started)
}

fn ends_with_its_node(signal: &str, status: Option<i32>) {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (command, expected) in
        [(endless_qemu(folder.path()), "qemu-system"), (endless_hosted(folder.path()), "sleep")]
    {
        // Whoever runs the tests may ignore it.
        let mut command = through(&["env", "--default-signal=HUP"], command);
        command.env("TMPDIR", scratch.path());
        let (mut child, started) = start(command, expected);
        send(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), status);
        // The node itself is what must be gone; a script's own child may outlive a kill -9.
        let node = started[0];
        until("the node is gone", || !runs(node));
        if signal != "-KILL" {
            until("nothing is left", || started.iter().all(|pid| !runs(*pid)));
            assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "files are left");
        }
        for orphan in started.into_iter().filter(|pid| runs(*pid)) {
            send("-KILL", orphan);
        }
    }
}

#[test]
fn ctrl_c_ends_the_node() {
    ends_with_its_node("-INT", Some(130));
}

#[test]
fn a_request_to_terminate_ends_the_node() {
    ends_with_its_node("-TERM", Some(130));
}

#[test]
fn a_quit_ends_the_node() {
    ends_with_its_node("-QUIT", Some(130));
}

#[test]
fn a_closed_terminal_ends_the_node() {
    ends_with_its_node("-HUP", Some(130));
}

#[test]
fn a_command_may_be_started_to_outlive_its_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, started) = start(through(&["nohup"], endless_hosted(folder.path())), "sleep");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "it heeds SIGHUP: {status}");
    send("-TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("nothing is left", || started.iter().all(|pid| !runs(*pid)));
}

#[test]
fn a_killed_command_takes_its_node_along() {
    ends_with_its_node("-KILL", None);
}

#[test]
fn a_node_that_hangs_is_ended_at_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let output = endless_qemu(folder.path()).args(["--limit", "2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("did not end within 2 s"), "{said}");
    assert!(output.stdout.is_empty());
}
