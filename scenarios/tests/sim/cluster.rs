//! Several nodes in the simulator, with a switch between them: many seeds, with faults.

use std::time::Duration;

use nile_kernel::Config;
use nile_platform::Outcome;
use nile_platform_sim::{
    ClusterOptions, Deed, DiskOptions, Faults, Finished, Stuck, simulate_cluster,
};
use nile_switch::{Link, Probability};

use crate::{options, passed};

fn cluster(seed: u64, cores: &[usize]) -> ClusterOptions {
    let seeds = (0..).map(|at| seed.wrapping_mul(1000) + at);
    ClusterOptions {
        nodes: cores.iter().zip(seeds).map(|(cores, seed)| options(seed, *cores)).collect(),
        link: Link { delay: Duration::from_micros(20), ..Link::default() },
        shows_pools: false,
        deeds: Vec::new(),
    }
}

/// The configuration of a node, counted from zero, besides what it has in common with the others.
fn config(node: usize, common: &str, is_sealed: bool) -> String {
    let key = "00112233445566778899aabbccddeeff".repeat(2);
    let key = if is_sealed { format!("key = \"{key}\"") } else { "unsealed = true".into() };
    let pool = "[pool]\nbytes = \"2M\"\nbuffer = \"32K\"\n";
    format!("{common}{pool}[node]\nid = {}\n[network]\n{key}\n", node + 1)
}

fn run(options: &ClusterOptions, program: &str) -> Result<Vec<Option<Finished>>, Stuck> {
    run_with(options, "", program)
}

fn run_with(
    options: &ClusterOptions,
    common: &str,
    program: &str,
) -> Result<Vec<Option<Finished>>, Stuck> {
    let program = format!("{program} nodes={}", options.nodes.len());
    simulate_cluster(options, |node, machine| {
        // What is sealed is not shown.
        let config = config(node, common, !options.shows_pools);
        let config = Config::parse(&config).expect("the test's configuration is valid");
        nile_sim::scenario(machine, &config, &program)
    })
}

/// Runs the scenario to its end, which must say that all held.
fn pass(options: &ClusterOptions) -> Vec<Finished> {
    pass_program(options, "cluster")
}

fn pass_program(options: &ClusterOptions, program: &str) -> Vec<Finished> {
    pass_with(options, "", program)
}

fn pass_with(options: &ClusterOptions, common: &str, program: &str) -> Vec<Finished> {
    let seed = options.nodes[0].seed;
    let ended = run_with(options, common, program)
        .unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
    let ended: Vec<Finished> = ended.into_iter().flatten().collect();
    assert_eq!(ended.len(), options.nodes.len());
    assert!(passed(&ended[0], program, seed).program.is_some(), "seed {seed}: no scenario");
    assert!(ended.iter().all(|it| it.outcome == Outcome::Success), "seed {seed}");
    ended
}

#[test]
fn nodes_find_each_other_and_call_each_other() {
    for seed in 0..4 {
        pass(&cluster(seed, &[3, 3, 3]));
    }
    pass(&cluster(9, &[1, 2]));
}

#[test]
fn slack_saves_an_idle_cluster_timer_interrupts() {
    // Whether gossip's timers meet others depends on when nodes began, and so on the seed.
    let interrupts = |slack_ms: u32| -> u64 {
        let text = format!("[timer]\nlongest_slack_ms = {slack_ms}\n");
        let of_seed = |seed| {
            let ended = pass_with(&cluster(seed, &[3, 3, 3]), &text, "idle-nodes");
            let report = passed(&ended[0], "idle-nodes", seed);
            report.program.expect("a scenario has a report").figures["timer_interrupts"]
        };
        (1..=8).map(of_seed).sum()
    };
    // Each node had six a second when all timers were exact and each of gossip's had its own time.
    let (tolerant, exact) = (interrupts(1000), interrupts(0));
    assert!(exact < 8 * 70 && tolerant * 10 < exact * 8, "{tolerant}, {exact} without slack");
}

/// What a bad network does to a frame.
fn bad() -> Link {
    let percent = Probability::percent;
    Link {
        delay: Duration::from_micros(50),
        loss: percent(3),
        duplicate: percent(2),
        reorder: percent(5),
        corrupt: percent(2),
        ..Link::default()
    }
}

#[test]
fn a_bad_network_loses_no_call() {
    for seed in 100..104 {
        pass(&ClusterOptions { link: bad(), ..cluster(seed, &[2, 1, 3]) });
    }
}

#[test]
fn a_partition_heals_and_a_node_that_was_killed_comes_back() {
    let ms = Duration::from_millis;
    // One that comes back within the clock's step has its old generation, and takes a later one.
    for (seed, again) in [(200, 700), (201, 40), (202, 900), (203, 20)] {
        let sides = vec![vec![0, 1], vec![2]];
        let deeds = vec![
            (Duration::ZERO, Deed::Partition(sides)),
            (ms(3), Deed::Kill(1)),
            (ms(again), Deed::Start(1)),
            (ms(1500), Deed::Heal),
        ];
        pass(&ClusterOptions { deeds, ..cluster(seed, &[2, 2, 2]) });
    }
}

#[test]
fn of_two_nodes_with_one_number_the_later_one_gives_up() {
    let seconds = Duration::from_secs;
    for (seed, link) in [(250, Link::default()), (251, bad())] {
        let mut deeds = vec![(Duration::ZERO, Deed::Kill(2)), (seconds(2), Deed::Start(2))];
        // The others serve until they are ended.
        deeds.extend([0, 1].map(|node| (seconds(8), Deed::Kill(node))));
        let options = ClusterOptions { deeds, link, ..cluster(seed, &[2, 2, 2]) };
        let ended = simulate_cluster(&options, |node, machine| {
            // The third one is n2, too.
            let config = Config::parse(&config(node.min(1), "", true)).expect("it is valid");
            nile_sim::scenario(machine, &config, "serve")
        });
        let ended = ended.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
        let [None, None, Some(later)] = &ended[..] else { panic!("seed {seed}: {ended:?}") };
        let log = later.log.join("\n");
        assert_eq!(later.outcome, Outcome::Failure, "seed {seed}:\n{log}");
        assert!(log.contains("another node is n2, g"), "seed {seed}:\n{log}");
        assert!(log.contains("so this one gives up"), "seed {seed}:\n{log}");
    }
}

#[test]
fn a_network_core_that_panics_is_the_node_in_another_generation() {
    for seed in 300..304 {
        let mut options = cluster(seed, &[3, 3]);
        options.nodes[1].faults =
            Faults { core_stops: 3, stops_within: Duration::from_millis(2), ..Faults::default() };
        pass(&options);
    }
}

#[test]
fn a_cluster_is_the_same_with_the_same_seed() {
    let hashes =
        || -> Vec<u64> { pass(&cluster(5, &[2, 2])).into_iter().map(|it| it.trace_hash).collect() };
    assert_eq!(hashes(), hashes());
}

#[test]
fn of_many_network_cores_the_first_serves() {
    let config = Config::parse("[roles]\nnetwork = 2\n").expect("the test's roles are valid");
    let mut options = cluster(430, &[4, 4]);
    for node in &mut options.nodes {
        node.roles = config.roles(4).expect("four cores have room for two network cores");
    }
    pass(&options);
    pass_program(&with_pools(options), "bulk buffers=40");
}

/// The same nodes, each with a pool.
fn with_pools(mut options: ClusterOptions) -> ClusterOptions {
    for node in &mut options.nodes {
        node.pool_bytes = 2 << 20;
    }
    options
}

#[test]
fn buffers_go_between_all_nodes() {
    for seed in 400..402 {
        pass_program(&with_pools(cluster(seed, &[2, 3, 2])), "bulk buffers=120");
    }
    for seed in 410..413 {
        let options = ClusterOptions { link: bad(), ..cluster(seed, &[3, 2, 2]) };
        pass_program(&with_pools(options), "bulk buffers=40");
    }
    // Cores that open their mailboxes when the others have long begun.
    pass_program(&with_pools(cluster(420, &[2, 3, 2])), "bulk buffers=40 late=50");
}

#[test]
fn buffers_are_read_where_nodes_show_them() {
    let shown = |options| ClusterOptions { shows_pools: true, ..with_pools(options) };
    for seed in 430..432 {
        pass_program(&shown(cluster(seed, &[2, 3, 2])), "bulk buffers=120 shown=1");
    }
    let options = ClusterOptions { link: bad(), ..cluster(432, &[3, 2, 2]) };
    pass_program(&shown(options), "bulk buffers=40 shown=1");
    // Sealed nodes show nothing, and the scenario says so.
    let ended = run(&with_pools(cluster(433, &[2, 2])), "bulk buffers=30 shown=1");
    let ended = ended.unwrap_or_else(|stuck| panic!("{stuck}"));
    let first = ended[0].as_ref().expect("n1 has ended");
    assert_eq!(first.outcome, Outcome::Failure, "it is not noticed");
}

/// Two network cores, of which the second has the transfers.
const APART: &str = "[services]\nbulk = [2]\n[roles]\nnetwork = [1, 2]\n";

/// Nodes of four cores, two of them for the network.
fn with_two_network_cores(seed: u64, nodes: usize) -> ClusterOptions {
    let config = Config::parse(APART).expect("the test's roles are valid");
    let mut options = with_pools(cluster(seed, &vec![4; nodes]));
    for node in &mut options.nodes {
        node.roles = config.roles(4).expect("four cores have room for two network cores");
    }
    options
}

#[test]
fn transfers_have_a_network_core_of_their_own() {
    for seed in 440..443 {
        pass_with(&with_two_network_cores(seed, 3), APART, "bulk buffers=60 apart=1");
    }
    for seed in 443..447 {
        let options = ClusterOptions { link: bad(), ..with_two_network_cores(seed, 2) };
        pass_with(&options, APART, "bulk buffers=30 apart=1");
    }
    // Without that configuration the core of the calls carries them, and the scenario says so.
    let ended = run(&with_two_network_cores(447, 2), "bulk buffers=30 apart=1");
    let ended = ended.unwrap_or_else(|stuck| panic!("{stuck}"));
    let first = ended[0].as_ref().expect("n1 has ended");
    assert_eq!(first.outcome, Outcome::Failure, "it is not noticed");
}

#[test]
fn buffers_go_again_between_nodes_that_were_cut_off_from_each_other() {
    let cut = |options: ClusterOptions, common: &str, program: &str| {
        let ms = Duration::from_millis;
        // Long enough for each to hold the others for dead.
        let deeds = vec![
            (ms(500), Deed::Partition(vec![vec![0], vec![1], vec![2]])),
            (ms(6000), Deed::Heal),
        ];
        let ended = pass_with(&ClusterOptions { deeds, ..options }, common, program);
        let gone = ended[0].log.iter().filter(|line| line.ends_with("is gone"));
        assert_eq!(gone.count(), 2, "the cut is not noticed");
    };
    cut(with_pools(cluster(450, &[2, 2, 2])), "", "bulk buffers=20 cut=15000");
    cut(with_two_network_cores(451, 3), APART, "bulk buffers=20 apart=1 cut=15000");
}

/// The same nodes, each with a disk.
fn with_stores(options: ClusterOptions) -> ClusterOptions {
    let mut options = with_pools(options);
    for node in &mut options.nodes {
        node.disks = vec![DiskOptions { bytes: 4 << 20, ..DiskOptions::default() }];
    }
    options
}

#[test]
fn datasets_come_from_other_nodes_whole() {
    pass_program(&with_stores(cluster(500, &[3, 3])), "dataset-nodes");
    pass_program(&with_stores(cluster(501, &[1, 2])), "dataset-nodes");
    for seed in 502..505 {
        let options = ClusterOptions { link: bad(), ..cluster(seed, &[2, 3]) };
        pass_program(&with_stores(options), "dataset-nodes rounds=3");
    }
}

#[test]
fn datasets_come_over_a_network_that_is_slower_than_disks() {
    // Blocks are there long before their senders' word that they are.
    let link = Link { delay: Duration::from_millis(5), ..Link::default() };
    let options = ClusterOptions { link, ..cluster(506, &[2, 2]) };
    let ended = pass_program(&with_stores(options), "dataset-nodes rounds=3");
    let report = passed(&ended[0], "dataset-nodes", 506);
    assert_eq!(report.program.expect("it is a scenario").figures["failures"], 0);
}

/// Runs `sweeps` on three nodes that keep names.
fn sweep(options: &ClusterOptions, program: &str) -> Vec<Finished> {
    let ended = simulate_cluster(options, |node, machine| {
        let text = config(node, "", true).replace("[node]", "[node]\nkeepers = [1, 2, 3]");
        let config = Config::parse(&text).expect("the test's configuration is valid");
        nile_sim::scenario(machine, &config, program)
    });
    let ended = ended.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
    ended.into_iter().flatten().collect()
}

#[test]
fn what_was_removed_meanwhile_goes_when_its_node_is_back() {
    // Held for dead, and only suspected.
    for (seed, cut) in [(580, 6000), (581, 1500), (582, 9000), (583, 2000)] {
        let ms = Duration::from_millis;
        let deeds = vec![
            (ms(9000), Deed::Partition(vec![vec![0, 2], vec![1]])),
            (ms(9000 + cut), Deed::Heal),
        ];
        let options = ClusterOptions { deeds, ..with_stores(cluster(seed, &[2, 2, 2])) };
        let program = "sweeps nodes=3 away=1 at=9100000";
        let ended = sweep(&options, program);
        assert!(passed(&ended[0], program, seed).program.is_some(), "seed {seed}");
    }
}

#[test]
fn sweeps_that_race_adopt_a_name_once() {
    let (mut ours, mut theirs) = (0, 0);
    for seed in 550..570 {
        let options = with_stores(cluster(seed, &[2, 2, 2]));
        // Around the moment at which all three begin to sweep, four seconds after they have begun.
        let program = format!("sweeps nodes=3 at={}", 3_999_000 + 500 * (seed - 550));
        let ended = sweep(&options, &program);
        let report = passed(&ended[0], &program, seed).program.expect("it is a scenario");
        match report.figures["claimed"] {
            0 => theirs += 1,
            _ => ours += 1,
        }
    }
    assert!(ours > 2 && theirs > 2, "no race: {ours} claims were first, and {theirs} sweeps");
}

#[test]
fn jobs_run_over_several_nodes() {
    for (seed, command) in [
        (600, "jobs"),
        (601, "jobs reducers=4"),
        (602, "jobs memory=1"),
        (603, "jobs copies=2"),
        (604, "jobs blocks=30 kill=2"),
        (605, "jobs blocks=30 kill=3 reducers=3"),
        (611, "jobs blocks=30 kill=3 planned=1 reducers=3"),
        (606, "jobs whole=1 reducers=4"),
        (607, "jobs blocks=30 kill=3 whole=1 reducers=3"),
        (608, "jobs blocks=0 reducers=3"),
        (609, "jobs blocks=40 beside=1 slow=50 reducers=4"),
        (610, "jobs blocks=40 beside=1 kill=2 reducers=3"),
    ] {
        run_job(seed, 2, command);
    }
}

#[test]
fn a_job_runs_over_many_nodes() {
    run_job(608, 24, "jobs blocks=24 reducers=24");
}

/// Runs a job over nodes of four cores.
fn run_job(seed: u64, nodes: usize, command: &str) {
    let mut options = with_stores(cluster(seed, &vec![4; nodes]));
    for node in &mut options.nodes {
        node.packages = nile_sim::PACKAGES.into();
    }
    let command = format!("{command} nodes={nodes}");
    let ended = simulate_cluster(&options, |node, machine| {
        // The scenario has a master of its own.
        let text = config(node, "[services]\njob = []\n", true);
        let mut config = Config::parse(&text).expect("the test's configuration is valid");
        config.packages = nile_sim::STORE;
        nile_sim::scenario(machine, &config, &command)
    });
    let ended =
        ended.unwrap_or_else(|stuck| panic!("{command}: {stuck}\n{}", stuck.log.join("\n")));
    let ended: Vec<Finished> = ended.into_iter().flatten().collect();
    passed(&ended[0], &command, seed);
}

#[test]
fn a_dataset_whose_source_ends_leaves_nothing_behind() {
    let mut failures = 0;
    for seed in 510..540 {
        let mut options = with_stores(cluster(seed, &[2, 2]));
        let at = Duration::from_micros(10_500 + 700 * (seed - 510));
        let again = at + Duration::from_millis(700);
        options.deeds = vec![(at, Deed::Kill(1)), (again, Deed::Start(1))];
        let ended = pass_program(&options, "dataset-nodes rounds=6 ends=1");
        let report = passed(&ended[0], "dataset-nodes", seed);
        failures += report.program.expect("it is a scenario").figures["failures"];
    }
    assert!(failures > 10, "the source ended only {failures} times in the midst");
}

/// A dataset over HTTP from n2, which is stopped every so many microseconds, to a client on n1.
fn run_web(seed: u64, link: Link, words: &str) -> Vec<Finished> {
    let mut options = with_stores(cluster(seed, &[3, 3]));
    options.link = link;
    for node in &mut options.nodes {
        node.packages = nile_sim::PACKAGES.into();
    }
    let command = format!("web nodes=2 connections=24 {words}");
    let ended = simulate_cluster(&options, |node, machine| {
        let text = config(node, "[services]\njob = []\n", true);
        let mut config = Config::parse(&text).expect("the test's configuration is valid");
        config.packages = nile_sim::STORE;
        nile_sim::scenario(machine, &config, &command)
    });
    let ended =
        ended.unwrap_or_else(|stuck| panic!("{command}: {stuck}\n{}", stuck.log.join("\n")));
    ended.into_iter().flatten().collect()
}

#[test]
fn a_download_goes_on_while_its_server_is_stopped() {
    let good = Link { delay: Duration::from_micros(20), ..Link::default() };
    for seed in 700..703 {
        passed(&run_web(seed, good, "")[0], "web", seed);
        let stopped = run_web(seed, good, "bytes=3000000 stop_us=5000");
        let stopped = passed(&stopped[0], "web", seed);
        assert!(stopped.program.expect("it is a scenario").figures["stops"] > 5);
        passed(&run_web(seed, bad(), "bytes=60000 stop_us=500000")[0], "web", seed);
        passed(&run_web(seed, good, "own=1 bytes=1500000 stop_us=5000")[0], "web", seed);
        passed(&run_web(seed, good, "v6=1 bytes=1500000 stop_us=5000")[0], "web", seed);
        passed(&run_web(seed, bad(), "v6=1 bytes=60000 stop_us=500000")[0], "web", seed);
    }
    // The last thing that the server says is lost, and so is its answer to whoever asks again.
    passed(&run_web(719, bad(), "bytes=60000 stop_us=500000")[0], "web", 719);
    // What is to be sent cannot be read at first.
    for seed in [703, 704] {
        passed(&run_web(seed, bad(), "bytes=60000")[0], "web", seed);
    }
    let forgotten = run_web(700, good, "bytes=3000000 stop_us=5000 control=1");
    assert_eq!(forgotten[0].outcome, Outcome::Failure, "what is not kept is lost");
}

#[test]
fn a_download_goes_on_while_its_network_is_stopped() {
    let good = Link { delay: Duration::from_micros(20), ..Link::default() };
    for seed in 710..713 {
        passed(&run_web(seed, good, "apart=1")[0], "web", seed);
        let stopped = run_web(seed, good, "apart=1 bytes=3000000 stop_us=3000");
        let stopped = passed(&stopped[0], "web", seed);
        assert!(stopped.program.expect("it is a scenario").figures["stops"] > 3);
        // All three begin anew ever later when they are stopped ever again.
        for both in ["apart=1 own=1", "apart=1 own=1 v6=1"] {
            let both = format!("{both} bytes=3000000 stop_us=5000 stops=9");
            passed(&run_web(seed, good, &both)[0], "web", seed);
        }
    }
    let forgotten = run_web(710, good, "apart=1 bytes=3000000 stop_us=3000 control=1");
    assert_eq!(forgotten[0].outcome, Outcome::Failure, "what is not kept is lost");
}
