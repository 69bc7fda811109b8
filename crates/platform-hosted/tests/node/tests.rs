//! The tests: each starts a node and looks at how it ends.

use libtest_mimic::{Failed, Trial};
use rustix::process::Signal;

use super::run::{NodeProcess, is_alive, signal, wait_until_dead};

/// Scenarios that end by themselves: their roles, and what the log must say about them.
const SCENARIOS: &[(&str, &str, &str)] = &[
    ("boot", "m nd w", ""),
    ("idle", "m nd w", ""),
    ("ping", "m nd w", ""),
    ("tick", "m nd w", ""),
    ("kill", "mnd w w", "c1 g1 ended: killed, code 9; g2 starts"),
    ("exit", "mnd w", "c1 g1 ended: exception, code 3; g2 starts"),
    ("stray", "mnd w", "c1 g1 ended: page fault, code 11, touching 0x2000"),
    ("board", "mnd w", "c1 g3 ended: page fault"),
    ("detach", "mnd w", "c1 g1 ended: page fault"),
    ("panic", "m nd w", "c2 g1 ended: panic; g2 starts"),
    ("recover", "mnd w", "c0 g1 ended: panic; g2 starts"),
    ("user", "mnd w", "c1 g1 ended: page fault, code 11, touching 0x100000001000"),
    ("pool", "mnd w w", "c2 g1 ended: panic; g2 starts"),
    ("pool-refused", "mnd w w", "c2 g1 ended: panic; g2 starts"),
    ("loop", "mnd w", "c1 g9 ended: panic; once too often, it stays stopped"),
];

/// Every test.
pub fn all() -> Vec<Trial> {
    let scenarios = SCENARIOS.iter().map(|(scenario, roles, log)| {
        Trial::test(*scenario, move || succeeds(scenario, roles, log))
    });
    let others = [
        Trial::test("a_failure_is_exit_status_1", failure),
        Trial::test("a_hopeless_manager_ends_the_node", hopeless),
        Trial::test("a_stuck_worker_does_not_outlive_the_node", stuck),
        Trial::test("one_core_with_every_role_is_a_node", one_core),
        Trial::test("sigint_ends_the_node", || interrupted(Signal::INT)),
        Trial::test("sigterm_ends_the_node", || interrupted(Signal::TERM)),
        Trial::test("sigquit_ends_the_node", || interrupted(Signal::QUIT)),
        Trial::test("sighup_ends_the_node", || interrupted(Signal::HUP)),
        Trial::test("workers_die_with_a_killed_node", killed),
        Trial::test("a_worker_is_not_started_by_hand", by_hand),
    ];
    scenarios.chain(others).collect()
}

fn succeeds(scenario: &str, roles: &str, expected: &str) -> Result<(), Failed> {
    let ended = NodeProcess::start(scenario, roles).end();
    assert_eq!(ended.status, Some(0), "{}", ended.log);
    if expected.is_empty() {
        assert_eq!(ended.log, "", "nothing goes wrong, so there is nothing to say");
    }
    for line in ended.log.lines().filter(|line| line.contains("not tested")) {
        eprintln!("{scenario}: {line}");
    }
    assert!(ended.log.contains(expected), "the log lacks {expected:?}:\n{}", ended.log);
    Ok(())
}

fn failure() -> Result<(), Failed> {
    let ended = NodeProcess::start("fail", "m w").end();
    assert_eq!(ended.status, Some(1), "{}", ended.log);
    assert!(ended.log.contains("c0 FAILED: as it should"), "{}", ended.log);
    Ok(())
}

fn hopeless() -> Result<(), Failed> {
    let ended = NodeProcess::start("hopeless", "m w").end();
    assert_eq!(ended.status, Some(1), "{}", ended.log);
    assert!(ended.log.contains("c0 g9 ended: panic; once too often"), "{}", ended.log);
    Ok(())
}

fn stuck() -> Result<(), Failed> {
    let ended = NodeProcess::start("stuck", "mnd w").end();
    assert_eq!(ended.status, Some(0), "{}", ended.log);
    assert!(ended.log.contains("node ends c1, which did not stop"), "{}", ended.log);
    Ok(())
}

fn one_core() -> Result<(), Failed> {
    let ended = NodeProcess::start("fail", "mndw").end();
    assert_eq!((ended.status, ended.output.as_str()), (Some(1), ""), "{}", ended.log);
    Ok(())
}

/// The processes of the two workers of a node that waits to be ended.
fn waiting_node() -> (NodeProcess, Vec<u64>) {
    let mut node = NodeProcess::start("wait", "mnd w w");
    let report = node.report();
    let pids: Vec<u64> = report.split(' ').map(|pid| pid.parse().expect("a number")).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    (node, pids)
}

fn interrupted(by: Signal) -> Result<(), Failed> {
    let (node, pids) = waiting_node();
    if by != Signal::TERM {
        // A terminal sends them to every process.
        pids.iter().for_each(|pid| signal(*pid, by));
    }
    signal(node.pid(), by);
    let ended = node.end();
    assert_eq!(ended.status, Some(130), "{}", ended.log);
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "workers are left");
    assert_eq!(ended.log, "", "a node that is interrupted has nothing to say");
    Ok(())
}

fn killed() -> Result<(), Failed> {
    let (node, pids) = waiting_node();
    signal(node.pid(), Signal::KILL);
    wait_until_dead(&pids);
    assert_eq!(node.end().status, None);
    Ok(())
}

fn by_hand() -> Result<(), Failed> {
    let output = std::process::Command::new(std::env::current_exe()?)
        .args(["--worker-of-a-node", "x"])
        .output()?;
    assert_eq!(output.status.code(), Some(2));
    let output = std::process::Command::new(std::env::current_exe()?)
        .args(["--worker-of-a-node", "0", "1"])
        .output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot join its node"));
    Ok(())
}
