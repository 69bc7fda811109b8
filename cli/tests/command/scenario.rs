//! Every scenario on every machine: a node that was started for one reports whether all that it
//! checked held.

use std::{fs, iter};

use nile_scenarios::{PROGRAMS, disks, needs_cluster, needs_packages, needs_supervisor};
use serde_json::Value;

use crate::support::{launcher, launcher_again, run};

/// Asks for the tick on workers too, which one scenario needs: it is the control of another.
const TICKS: &str = "[timer]\ntick_hz = 100\ntick_workers = true\n";

/// A small job beside a large one, whose tasks compute for longer than it takes to be held for
/// gone; both after one of which a task loops.
const JOBS: &str = "jobs blocks=6 slow=3000 loop=1 beside=1";

/// Gives the node a pool.
const POOL: &str = "[pool]\nbytes = \"4M\"\n";

/// The same, and roles follow the work.
const ROLES: &str = "[pool]\nbytes = \"4M\"\n[roles]\npolicy = \"exact\"\n";

/// The same, and nobody looks for what jobs have left on the disk: the scenario has that.
const STORE: &str = "[pool]\nbytes = \"4M\"\n[services]\njob = []\n";

/// The same in as many buffers as two workers need to keep what they make.
const SMALL_BUFFERS: &str = "[pool]\nbytes = \"4M\"\nbuffer = \"32K\"\n[services]\njob = []\n";

/// Programs that are also run with several packages on a core.
const BESIDE: [&str; 3] =
    ["unruly rounds=1 beside=1", "package-channels beside=1", "package-lasting beside=1"];

#[track_caller]
fn all_hold_on(machine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let ticks = folder.path().join("ticks.toml");
    fs::write(&ticks, TICKS).unwrap();
    let pool = folder.path().join("pool.toml");
    fs::write(&pool, POOL).unwrap();
    let roles = folder.path().join("roles.toml");
    fs::write(&roles, ROLES).unwrap();
    let store = folder.path().join("store.toml");
    fs::write(&store, STORE).unwrap();
    let small = folder.path().join("small.toml");
    fs::write(&small, SMALL_BUFFERS).unwrap();
    // What boots is checked in more detail elsewhere, and so are clusters and domains.
    let elsewhere = |program: &str| needs_cluster(program) || needs_supervisor(program);
    let alone = |program: &&str| *program != "boot" && !elsewhere(program);
    let mut starts = [launcher()].into_iter().chain(iter::repeat_with(launcher_again));
    // Those with packages first, which then are built.
    let (with, without): (Vec<&str>, Vec<&str>) =
        PROGRAMS.into_iter().filter(alone).partition(|program| needs_packages(program));
    for program in with.into_iter().chain(BESIDE).chain(without) {
        let name = program.split(' ').next().unwrap_or_default();
        let mut command = starts.next().expect("there is no last");
        let words = match program {
            "jobs" => JOBS,
            "greedy" if machine != "sim" => "greedy pause_us=0",
            "package-keeps" if machine == "sim" => "package-keeps bytes=2097152",
            "package-replace" if machine == "sim" => "package-replace bytes=2097152",
            "neighbours" if machine == "sim" => "neighbours bytes=2097152",
            "shifting" if machine == "hosted" => "shifting blocks=6 mixed=0",
            "shifting" => "shifting blocks=6",
            _ => program,
        };
        command.args(["boot", "--json", "--machine", machine, "--program", words]);
        let config = match name {
            "ticked" => Some(&ticks),
            "pool" | "package-buffers" | "disks" | "graph-kept" => Some(&pool),
            "roles" => Some(&roles),
            "datasets" | "stores" => Some(&store),
            "greedy" | "jobs" | "shifting" => Some(&small),
            _ => None,
        };
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        for _ in 0..disks(name) {
            command.args(["--disk", "16M"]);
        }
        let said = run(&mut command, &[]).expect(0);
        let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
        let end = &report["program"];
        assert_eq!(end["name"], name);
        assert_eq!(end["passed"], true, "{machine} {program}: {end}");
        if program == "interrupts" {
            let routes = u64::from(machine != "hosted");
            assert_eq!(end["figures"]["routed_disk0"], routes, "{machine}: {end}");
        }
    }
}

/// What n1 of a cluster of three reports of a scenario for clusters, which the simulator runs
/// under many seeds.
#[track_caller]
fn cluster_holds_on(machine: &str, program: &str) {
    cluster_holds((machine, &[]), 2, POOL, program, &format!("{program} nodes=3"));
}

/// Nodes that have their addresses lent by the gateway.
const LENT: &str = "[ip]\naddress = \"dhcp\"\n";

/// Each node has a disk, whose pool the command chooses, and a worker core for a package.
#[track_caller]
fn web_holds_on(machine: &str, also: &str, ip: &str) {
    let words = match machine {
        "qemu" => "web nodes=3 bytes=1000000 stop_us=200000 stops=6",
        _ => "web nodes=3 bytes=3000000 stop_us=200000 stops=20",
    };
    let disk = ["--disk", "16M"];
    let words = format!("{words}{also}");
    let config = format!("[services]\njob = []\n{ip}");
    cluster_holds((machine, &disk), 3, &config, "web", &words);
}

#[test]
fn a_download_goes_on_while_its_server_is_stopped_on_linux() {
    web_holds_on("hosted", "", "");
}

#[test]
fn a_download_over_ipv6_goes_on_while_its_network_is_stopped_on_linux() {
    web_holds_on("hosted", " apart=1 v6=1", "");
}

#[test]
fn a_download_goes_on_while_its_network_is_stopped_on_linux() {
    web_holds_on("hosted", " apart=1", LENT);
}

#[test]
fn a_download_goes_on_while_its_server_is_stopped_in_qemu() {
    web_holds_on("qemu", "", "");
}

#[test]
fn a_download_over_ipv6_goes_on_while_its_server_is_stopped_in_qemu() {
    web_holds_on("qemu", " v6=1", "");
}

#[test]
fn a_download_goes_on_while_its_network_is_stopped_in_qemu() {
    web_holds_on("qemu", " apart=1 names=1", LENT);
}

#[track_caller]
fn cluster_holds(
    (machine, options): (&str, &[&str]),
    cores: u16,
    common: &str,
    program: &str,
    words: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), common).unwrap();
    let mut command = launcher();
    command.env("XDG_RUNTIME_DIR", folder.path());
    command.args(["up", "--nodes", "3", "--memory", "128M", "--limit", "240"]);
    command.args(["--cores", &cores.to_string(), "--machine", machine, "--program", words]);
    command.args(options).arg("--config").arg(config.path());
    let said = run(&mut command, &[]).expect(0);
    let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
    assert_eq!(report["program"]["name"], program);
    assert_eq!(report["program"]["passed"], true, "{}", report["program"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "files are left");
}

#[test]
fn the_scenario_of_clusters_holds_on_linux() {
    cluster_holds_on("hosted", "cluster");
}

#[test]
fn the_scenario_of_clusters_holds_in_qemu() {
    cluster_holds_on("qemu", "cluster");
}

#[test]
fn buffers_go_between_nodes_on_linux() {
    cluster_holds_on("hosted", "bulk");
}

#[test]
fn buffers_are_read_where_nodes_of_one_machine_show_them() {
    let pool = tempfile::NamedTempFile::new().unwrap();
    fs::write(pool.path(), POOL).unwrap();
    let mut boot = launcher();
    boot.args(["boot", "--machine", "hosted", "--cores", "1", "--config"]).arg(pool.path());
    // A pool that Linux gave no file of its own is not shown.
    let shown = u8::from(run(&mut boot, &[]).expect(0).out.contains("pool: 2 MiB pages"));
    let direct = ("hosted", &["--direct", "--unsealed"][..]);
    cluster_holds(direct, 2, POOL, "bulk", &format!("bulk nodes=3 shown={shown}"));
}

#[test]
fn buffers_go_between_nodes_in_qemu() {
    cluster_holds_on("qemu", "bulk");
}

/// Two network cores, of which the second has the transfers.
const APART: &str = "[pool]\nbytes = \"4M\"\n[roles]\nnetwork = [0, 1]\n[services]\nbulk = [1]\n";

#[test]
fn transfers_have_a_core_of_their_own_on_linux() {
    cluster_holds(("hosted", &[]), 3, APART, "bulk", "bulk nodes=3 apart=1");
}

#[test]
fn transfers_have_a_core_of_their_own_in_qemu() {
    cluster_holds(("qemu", &[]), 3, APART, "bulk", "bulk nodes=3 buffers=40 apart=1");
}

#[test]
fn all_scenarios_hold_in_the_simulator() {
    all_hold_on("sim");
}

#[test]
fn all_scenarios_hold_on_linux() {
    all_hold_on("hosted");
}

#[test]
fn all_scenarios_hold_in_qemu() {
    all_hold_on("qemu");
}
