//! The scenarios of packages in the simulator: many seeds, with faults. The packages are the ones
//! that run on real machines, linked in.

use std::time::Duration;

use nile_kernel::{Config, Report};
use nile_package::Image;
use nile_platform::Outcome;
use nile_platform_sim::{DiskOptions, Faults, Finished, Options, simulate};

use crate::{options, passed};

fn node(seed: u64) -> Options {
    Options { packages: nile_sim::PACKAGES.into(), ..options(seed, 4) }
}

/// Runs a scenario to its end, in which the simulator saw nothing that must never be.
fn run(options: &Options, command: &str) -> Finished {
    let mut config = Config::default();
    config.packages = nile_sim::STORE;
    let finished = simulate(options, |machine| nile_sim::scenario(machine, &config, command));
    finished.unwrap_or_else(|stuck| panic!("{command}: {stuck}\n{}", stuck.log.join("\n")))
}

/// Runs a scenario and gives the report, which must say that all held, and its log.
fn pass(options: &Options, command: &str) -> (Report, Vec<String>) {
    let finished = run(options, command);
    let report = passed(&finished, command, options.seed);
    assert!(report.program.is_some(), "{command}: no scenario");
    (report, finished.log)
}

#[test]
fn packages_run_and_leave_nothing_behind() {
    for seed in 0..10 {
        let (report, log) = pass(&node(seed), "package");
        assert!(log.iter().any(|line| line.ends_with("p1: hello, hello")), "{log:?}");
        let calls: Vec<u64> = report.cores.iter().map(|core| core.system_calls).collect();
        assert!(calls[0] == 0 && calls[1] == 0 && calls[2] > 0 && calls[3] > 0, "{calls:?}");
    }
}

#[test]
fn packages_call_services_and_offer_them() {
    for seed in 0..20 {
        pass(&node(seed), "package-calls");
    }
}

#[test]
fn packages_decide_who_runs_next() {
    for seed in 0..10 {
        pass(&node(seed), "package-policy");
    }
}

#[test]
fn nothing_stays_of_linked_programs() {
    pass(&node(1), "package-text");
}

#[test]
fn packages_go_on_with_what_they_have_kept() {
    for seed in 0..20 {
        pass(&node(seed), "package-keeps bytes=2097152");
    }
}

#[test]
fn packages_of_several_cores_share_memory() {
    for seed in 0..20 {
        pass(&node(seed), "package-region");
    }
}

#[test]
fn a_package_is_replaced_under_its_callers() {
    for seed in 0..5 {
        pass(&node(seed), "package-replace bytes=2097152");
    }
    let stopped = run(&node(1), "package-replace bytes=2097152 control=1");
    assert_eq!(stopped.outcome, Outcome::Failure, "who stops and starts one loses calls");
}

#[test]
fn packages_pass_buffers_of_the_pool() {
    let config = Config::parse("[pool]\nbytes = \"2M\"\nbuffer = \"64K\"\n");
    let mut config = config.expect("the test's configuration is valid");
    config.packages = nile_sim::STORE;
    for seed in 0..10 {
        let options = Options { pool_bytes: 2 << 20, ..node(seed) };
        let finished =
            simulate(&options, |machine| nile_sim::scenario(machine, &config, "package-buffers"));
        let finished = finished.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
        passed(&finished, "package-buffers", seed);
    }
    // Without a pool there is nothing to pass.
    assert_eq!(run(&node(1), "package-buffers").outcome, Outcome::Failure);
}

/// A node that runs jobs.
fn run_job(seed: u64, command: &str) -> Report {
    let config = Config::parse("[pool]\nbytes = \"4M\"\nbuffer = \"32K\"\n[services]\njob = []\n");
    let mut config = config.expect("the test's configuration is valid");
    config.packages = nile_sim::STORE;
    let disk = DiskOptions { bytes: 16 << 20, ..DiskOptions::default() };
    let options = Options { pool_bytes: 4 << 20, disks: vec![disk], ..node(seed) };
    let finished = simulate(&options, |machine| nile_sim::scenario(machine, &config, command));
    let finished = finished.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
    passed(&finished, command, seed)
}

#[test]
fn jobs_sort_numbers() {
    for (command, seeds) in [
        ("jobs", 0..4),
        ("jobs blocks=1 reducers=1", 0..2),
        ("jobs blocks=0", 0..2),
        ("jobs memory=1", 0..4),
        ("jobs fail=2", 0..2),
        ("jobs slow=4000 loop=1", 0..3),
        ("jobs blocks=30 kill=2", 0..8),
        ("jobs blocks=30 kill=2 planned=1", 0..8),
        ("jobs blocks=30 kill=3 planned=2", 0..4),
        ("jobs blocks=30 kill=3 memory=1", 0..8),
        ("jobs blocks=30 beside=1", 0..8),
        ("jobs blocks=30 beside=1 memory=1", 0..4),
        ("jobs blocks=30 beside=1 kill=2", 0..8),
    ] {
        for seed in seeds {
            let figures = run_job(seed, command).program.expect("it is a scenario").figures;
            let is_disturbed = command.contains("kill") || command.contains("fail");
            assert!(is_disturbed || figures["retries"] == 0, "{command} {seed}: {figures:?}");
        }
    }
}

#[test]
fn a_job_after_a_greedy_one_is_right() {
    let figures = run_job(1, "greedy").program.expect("it is a scenario").figures;
    assert_eq!(figures["kinds"], 8);
}

#[test]
fn the_heap_grows_for_packages() {
    for seed in 0..10 {
        let (report, _) = pass(&node(seed), "defaults");
        let calls: u64 = report.cores.iter().map(|core| core.system_calls).sum();
        assert!(calls > 0, "no package ran");
    }
}

#[test]
fn package_channels_carry_messages_without_system_calls() {
    for seed in 0..20 {
        let many = if seed == 0 { "" } else { " many=50" };
        pass(&node(seed), &format!("package-channels{many}"));
    }
}

#[test]
fn neighbours_have_channels_that_a_third_one_does_not_reach() {
    for seed in 0..20 {
        let many = if seed == 0 { "" } else { " many=50" };
        pass(&node(seed), &format!("package-channels beside=1{many}"));
    }
}

#[test]
fn neighbours_pass_a_token_by_a_switch_each_time() {
    let switch = |beside: u32| {
        let (report, _) =
            pass(&node(3), &format!("switch-cost rounds=2 times=200 beside={beside}"));
        report.program.expect("it is a scenario").figures["switch"]
    };
    let (two, three) = (switch(0), switch(1));
    assert!(two > 0 && three > 2 * two, "{two} between two, {three} beside a third one");
}

#[test]
fn lasting_channels_stay_whichever_end_begins_anew_at_any_step() {
    for beside in [0, 1] {
        pass(&node(beside), &format!("package-lasting beside={beside} every=1"));
    }
    let blind = run(&node(1), "package-lasting control=1");
    assert_eq!(blind.outcome, Outcome::Failure, "what nobody has taken is lost");
}

/// Packages that talk to each other come and go, and their cores and the packages stop meanwhile.
#[test]
fn nothing_is_lost_when_ends_of_package_channels_stop() {
    for (seed, beside) in (0..30).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let faults = Faults {
            core_stops: 6,
            stops_within: Duration::from_millis(54),
            package_faults: 4,
            ..Faults::default()
        };
        let command = format!("package-churn channels=1 beside={beside} us=4000 begin_ms=50");
        let (_, log) = pass(&Options { faults, ..node(seed) }, &command);
        let talks = log.iter().filter(|line| line.ends_with("talked")).count();
        assert!(talks >= 10, "{command} {seed}: {talks} talks came to their end");
    }
}

#[test]
fn package_channels_outlive_the_management_core() {
    for (seed, beside) in (0..10).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let command = format!("package-channels-restart beside={beside}");
        let (report, _) = pass(&node(seed), &command);
        let figures = report.program.unwrap().figures;
        // Here the talks of the management core are always closed before it panics.
        assert_eq!(figures["missing_bytes"], 0, "{command} {seed}");
        let calls = figures["calls_afterwards"];
        assert!(calls > 100, "{command} {seed}: the exchange was over after {calls} system calls");
    }
}

#[test]
fn no_ring_has_two_owners_whichever_core_stops() {
    for (seed, beside) in (0..30).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let faults = Faults {
            core_stops: 8,
            stops_within: Duration::from_millis(5),
            stop_manager: true,
            package_faults: 3,
            ..Faults::default()
        };
        let command = format!("package-churn channels=1 beside={beside} us=4000 begin_ms=1");
        run(&Options { faults, ..node(seed) }, &command);
    }
}

#[test]
fn unruly_packages_are_stopped_and_reported() {
    for seed in 0..10 {
        pass(&node(seed), "unruly rounds=1");
    }
}

#[test]
fn unruly_packages_harm_no_neighbour() {
    for seed in 0..10 {
        pass(&node(seed), "unruly rounds=1 beside=1");
    }
}

#[test]
fn packages_go_on_beside_each_other() {
    for seed in 0..10 {
        pass(&node(seed), "neighbours bytes=2097152");
    }
}

#[test]
fn a_looping_package_is_stopped_by_a_late_signal() {
    for seed in 0..10 {
        let faults = Faults { signal_delay: Duration::from_millis(2), ..Faults::default() };
        pass(&Options { faults, ..node(seed) }, "unruly rounds=1");
    }
}

#[test]
fn a_looping_package_shares_its_core_and_is_interrupted_for_nothing() {
    for seed in 0..10 {
        pass(&node(seed), "slices");
    }
}

#[test]
fn packages_outlive_the_management_core() {
    for seed in 0..20 {
        pass(&node(seed), "package-manager-restart");
    }
}

#[test]
fn nothing_is_lost_when_packages_come_and_go() {
    for seed in 0..10 {
        pass(&node(seed), "package-churn us=2000 begin_ms=50");
    }
}

#[test]
fn nothing_is_lost_when_workers_and_packages_stop_meanwhile() {
    for seed in 0..30 {
        let faults = Faults {
            core_stops: 8,
            stops_within: Duration::from_millis(52),
            package_faults: 4,
            ..Faults::default()
        };
        pass(&Options { faults, ..node(seed) }, "package-churn us=2000 begin_ms=50");
    }
}

/// What was given out when the management core stopped may stay so, but it never has two owners.
#[test]
fn no_memory_has_two_owners_whichever_core_stops() {
    for seed in 0..30 {
        let faults = Faults {
            core_stops: 8,
            stops_within: Duration::from_millis(4),
            stop_manager: true,
            package_faults: 3,
            ..Faults::default()
        };
        run(&Options { faults, ..node(seed) }, "package-churn us=4000 begin_ms=1");
    }
}

#[test]
fn a_kernel_finds_the_packages_that_are_linked_in() {
    for (name, _) in nile_sim::PACKAGES {
        assert_eq!(nile_sim::STORE.find(name), Some(Image::Linked(name)));
    }
    assert_eq!(nile_sim::STORE.find("nobody"), None);
}
