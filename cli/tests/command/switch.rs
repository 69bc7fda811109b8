//! The virtual switch as a process, and simulations as people start them.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{nile, run};

#[test]
fn a_switch_ends_by_a_signal_and_leaves_nothing_behind() {
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("run.pcap");
        let mut command = nile();
        command.arg("switch").arg(folder.path()).args(["--dial", "n1", "--capture"]).arg(&capture);
        let mut switch = command.spawn().unwrap();
        let start = Instant::now();
        while UnixStream::connect(folder.path().join("control")).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not listen");
            thread::sleep(Duration::from_millis(2));
        }
        let second = run(nile().arg("switch").arg(folder.path()), &[]).expect(2);
        assert!(second.err.contains("already"), "{}", second.err);
        let kill = format!("kill -{signal} {}", switch.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        assert!(switch.wait().unwrap().success(), "{signal}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(left.iter().map(|file| file.path()).collect::<Vec<_>>(), [capture]);
    }
    let said = run(&mut nile(), &["switch", "/nonexistent"]).expect(1);
    assert!(said.err.contains("/nonexistent/switch"), "{}", said.err);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let said = run(&mut nile(), &["switch", folder, "--capture", "/nonexistent/x"]).expect(2);
    assert!(said.err.contains("/nonexistent/x"), "{}", said.err);
}

#[test]
fn an_unknown_simulation_is_refused_with_the_nearest() {
    let said = run(&mut nile(), &["sim", "gosip", "--nodes", "10"]).expect(2);
    assert!(said.err.contains("no simulation `gosip`; did you mean `gossip`?"), "{}", said.err);
    assert_eq!(said.out, "");
    let said = run(&mut nile(), &["sim", "gossip", "--nodes", "1"]).expect(2);
    assert!(said.err.contains("--nodes"), "{}", said.err);
}
