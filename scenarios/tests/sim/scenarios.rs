//! Every scenario in the simulator: many seeds, both ways of waking, with faults.

use std::time::Duration;

use nile_kernel::{Config, Report};
use nile_platform::Outcome;
use nile_platform_sim::{
    DiskFaults, DiskOptions, Faults, Finished, Options, Stuck, image, simulate,
};

use crate::{options, passed};

fn run(options: &Options, text: &str, command: &str) -> Result<Finished, Stuck> {
    let config = Config::parse(text).expect("the test's configuration is valid");
    simulate(options, |machine| nile_sim::scenario(machine, &config, command))
}

/// Runs a scenario to its end and gives the report, which must say that all held.
fn pass(options: &Options, text: &str, command: &str) -> (Finished, Report) {
    let finished = run(options, text, command).unwrap_or_else(|stuck| {
        panic!("{command}: {stuck}\n{}", stuck.log.join("\n"));
    });
    let report = passed(&finished, command, options.seed);
    (finished, report)
}

fn pass_seeds(seeds: u64, cores: usize, command: &str) {
    for seed in 0..seeds {
        pass(&options(seed, cores), "", command);
    }
}

#[test]
fn boots_with_any_number_of_cores() {
    for cores in [1, 2, 3, 4, 64] {
        let (_, report) = pass(&options(7, cores), "", "boot");
        assert_eq!(report.cores.len(), cores);
        assert!(report.cores.iter().all(|core| core.generation == 1 && core.state == "running"));
        assert_eq!(report.memory.total_bytes, 64 << 20);
    }
}

#[test]
fn every_core_reaches_every_core() {
    pass_seeds(30, 4, "ping rounds=20");
    pass_seeds(3, 1, "ping");
    pass_seeds(3, 12, "ping rounds=5");
}

#[test]
fn a_worker_that_panics_comes_back() {
    pass_seeds(50, 4, "restart");
}

#[test]
fn cores_leave_and_come_back_and_no_call_is_lost() {
    pass_seeds(8, 4, "leaving rounds=9");
    pass_seeds(4, 3, "leaving rounds=2");
    pass_seeds(2, 8, "leaving rounds=2");
}

#[test]
fn the_management_core_comes_back() {
    pass_seeds(50, 4, "manager-restart");
}

#[test]
fn the_management_core_leaves_as_planned_also_for_another_image() {
    pass_seeds(50, 4, "manager-renewal");
    let files = [image::file(image::ABI, None, "good"), image::file(image::ABI, Some(0), "bad")];
    for seed in 0..50 {
        let options = Options { files: files.clone().into(), ..options(seed, 4) };
        pass(&options, "", "manager-renewal image=1");
        let (finished, _) = pass(&options, "", "manager-renewal image=2 bad=1");
        let log = finished.log.join("\n");
        assert!(log.contains("c0] image ") && log.contains("while it was on trial"), "{log}");
    }
}

#[test]
fn a_stray_write_ends_its_writer_alone() {
    pass_seeds(20, 4, "isolation");
}

#[test]
fn frames_are_zeroed_and_come_back() {
    pass_seeds(20, 4, "memory frames=30");
}

fn with_disks(seed: u64, cores: usize, disks: usize, faults: DiskFaults) -> Options {
    let disk = DiskOptions { bytes: 16 << 20, faults, ..DiskOptions::default() };
    Options { disks: vec![disk; disks], ..options(seed, cores) }
}

#[test]
fn a_disk_goes_to_another_core_and_back() {
    for seed in 0..4 {
        let options = with_disks(seed, 4 + seed as usize % 2, 2, DiskFaults::default());
        let options = Options { pool_bytes: 4 << 20, ..options };
        let text = "[pool]\nbytes = \"4M\"\n[roles]\npolicy = \"exact\"\n";
        pass(&options, text, "roles");
    }
}

#[test]
fn disks_have_a_store_each_wherever_they_go() {
    for seed in 0..4 {
        let options = with_disks(seed, 4 + seed as usize % 2, 2, DiskFaults::default());
        let options = Options { pool_bytes: 4 << 20, ..options };
        pass(&options, "[pool]\nbytes = \"4M\"\n[services]\njob = []\n", "stores");
    }
}

#[test]
fn disks_keep_what_is_written() {
    for seed in 0..4 {
        let first = with_disks(seed, 4, 2, DiskFaults::default());
        let first = Options { pool_bytes: 2 << 20, ..first };
        let pool = "[pool]\nbytes = \"2M\"\nbuffer = \"64K\"\n";
        let (finished, report) = pass(&first, pool, "disks");
        assert_eq!(report.program.expect("a scenario has a report").figures["disks"], 2);
        // What was flushed is there when the power comes back.
        let mut second = first.clone();
        for (disk, left) in second.disks.iter_mut().zip(finished.disks) {
            disk.contents = left;
        }
        pass(&second, "", "disks look=1");
    }
    pass(&with_disks(9, 1, 1, DiskFaults::default()), "", "disks");
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let lying = DiskFaults { ignores_flushes: true, ..DiskFaults::default() };
    let first = with_disks(3, 4, 1, lying);
    let (finished, _) = pass(&first, "", "disks");
    let mut second = first.clone();
    second.disks[0].contents = finished.disks[0].clone();
    let ended = run(&second, "", "disks look=1").expect("it ends");
    assert_eq!(ended.outcome, Outcome::Failure);
    let flips = DiskFaults { flips_per_million: 100_000, ..DiskFaults::default() };
    let ended = run(&with_disks(3, 4, 1, flips), "", "disks").expect("it ends");
    assert_eq!(ended.outcome, Outcome::Failure);
}

#[test]
fn a_bad_sector_is_told_and_others_are_not_hurt() {
    let bad = DiskFaults { bad_bytes: vec![70_000], ..DiskFaults::default() };
    pass(&with_disks(5, 4, 1, bad), "", "disks bad=70000");
}

#[test]
fn a_power_failure_ends_the_node_in_the_midst_of_a_write() {
    let cut = DiskFaults { cut_at_write: Some(30), ..DiskFaults::default() };
    let options = with_disks(5, 4, 1, cut);
    let ended = run(&options, "", "disks").expect("it ends");
    assert!(ended.power_failed && ended.reports.is_empty());
    assert_eq!(run(&options, "", "disks").expect("it ends"), ended, "the same seed, the same run");
}

#[test]
fn disks_work_on_after_their_core_stopped() {
    for seed in 0..20 {
        let faults =
            Faults { core_stops: 3, stops_within: Duration::from_millis(2), ..Faults::default() };
        let options = Options { faults, ..with_disks(seed, 4, 2, DiskFaults::default()) };
        pass(&options, "", "boot");
    }
}

#[test]
fn buffers_go_around_and_come_back() {
    let text = "[pool]\nbytes = \"2M\"\nbuffer = \"64K\"\n";
    for seed in 0..20 {
        let options = Options { pool_bytes: 2 << 20, ..options(seed, 4) };
        let (_, report) = pass(&options, text, "pool");
        let pool = report.memory.pool.expect("the node has one");
        assert_eq!((pool.bytes, pool.buffer_bytes, pool.buffers), (2 << 20, 64 << 10, 31));
        assert_eq!(pool.free_buffers, 31);
        assert_eq!(report.memory.total_bytes, 62 << 20);
    }
    let without = run(&options(1, 4), "", "pool").expect("it ends");
    assert_eq!(without.outcome, Outcome::Failure);
}

const POOL: &str = "[pool]\nbytes = \"2M\"\nbuffer = \"64K\"\n";

fn with_datasets(seed: u64, cores: usize, faults: DiskFaults) -> Options {
    let mut options = Options { pool_bytes: 2 << 20, ..with_disks(seed, cores, 1, faults) };
    options.disks[0].bytes = 4 << 20;
    options
}

#[test]
fn a_disk_goes_on_wherever_it_interrupts_and_however_often() {
    for seed in 0..20 {
        let (cores, disks) = (1 + seed as usize % 5, 1 + seed as usize % 2);
        let node = with_disks(seed, cores, disks, DiskFaults::default());
        let (finished, report) = pass(&node, "", "interrupts");
        let figures = report.program.expect("a scenario has a report").figures;
        assert_eq!(figures["routed_disk0"], u64::from(cores > 1), "seed {seed}");
        let told = finished.log.iter().filter(|line| line.contains("interrupts for nothing"));
        assert!(told.count() >= 2, "seed {seed}: {:?}", finished.log);
    }
}

#[test]
fn datasets_are_written_and_found_again() {
    for (seed, cores) in [(0, 1), (1, 2), (2, 4), (3, 6)] {
        let first = with_datasets(seed, cores, DiskFaults::default());
        let (finished, _) = pass(&first, POOL, "datasets");
        let mut second = first.clone();
        second.disks[0].contents = finished.disks[0].clone();
        pass(&second, POOL, "datasets look=1");
    }
    // Without a pool, or on a disk with something else, they say so.
    let without = run(&with_disks(1, 2, 1, DiskFaults::default()), "", "datasets");
    assert_eq!(without.expect("it ends").outcome, Outcome::Failure);
    let mut foreign = with_disks(1, 2, 1, DiskFaults::default());
    let (written, _) = pass(&foreign, "", "disks");
    foreign.disks[0].contents = written.disks[0].clone();
    foreign.pool_bytes = 2 << 20;
    let ended = run(&foreign, POOL, "datasets").expect("it ends");
    assert_eq!(ended.outcome, Outcome::Failure);
    assert_eq!(ended.disks, written.disks, "what is on it is left alone");
}

#[test]
fn datasets_are_whole_or_absent_when_the_power_failed_at_any_write() {
    let mut failed = 0;
    for write in 1..60 {
        let cut = DiskFaults { cut_at_write: Some(write), ..DiskFaults::default() };
        let first = with_datasets(write, 3, cut);
        let finished = run(&first, POOL, "datasets").expect("it ends");
        failed += u32::from(finished.power_failed);
        let mut second = with_datasets(write, 3, DiskFaults::default());
        second.disks[0].contents = finished.disks[0].clone();
        pass(&second, POOL, "datasets look=2");
    }
    assert!(failed > 50, "the power failed only {failed} times");
}

#[test]
fn a_moving_receiver_loses_nothing() {
    pass_seeds(40, 4, "moving messages=600 stay=20");
}

#[test]
fn a_receiver_moves_between_dedicated_and_shared_cores() {
    for seed in 0..20 {
        for text in ["[idle]\ndedicated = [2]\n", "[idle]\ndedicated = [0, 1, 3]\npolls = 3\n"] {
            pass(&options(seed, 4), text, "moving messages=200 stay=10");
            pass(&options(seed, 4), text, "ping rounds=3");
        }
    }
}

#[test]
fn deadlines_come_in_order() {
    pass_seeds(20, 4, "timers");
}

#[test]
fn timers_with_tolerance_come_together() {
    let interrupts = |text| {
        let (_, report) = pass(&options(1, 4), text, "timers");
        let figures = report.program.expect("a scenario has a report").figures;
        (figures["exact_interrupts"], figures["tolerant_interrupts"])
    };
    assert_eq!(interrupts(""), (4, 1));
    // Each at the beginning of its window.
    let text = "[timer]\nlongest_slack_ms = 0\n";
    let failed = run(&options(1, 4), text, "timers").expect("it ends");
    assert_eq!(failed.outcome, Outcome::Failure);
}

#[test]
fn each_timer_is_as_late_as_it_says_and_loses_nothing() {
    /// What waking and a few passes take, beside the timer itself.
    const WAKING: u64 = 20_000;
    for seed in 0..20 {
        let (_, report) = pass(&options(seed, 4), "", "timers");
        let figures = report.program.expect("a scenario has a report").figures;
        let coarse = figures["late_ns_coarse"];
        assert!(coarse > 2 * WAKING, "seed {seed}: nothing was drawn: {coarse}");
        for name in ["simulated", "coarse"] {
            let late = figures[format!("late_ns_{name}").as_str()];
            let most = figures[format!("resolution_ns_{name}").as_str()] + WAKING;
            assert!(late <= most, "seed {seed}: {name} is {late} ns late, at most {most}");
        }
        assert_eq!(figures["woken_over_changes"], 16);
    }
}

#[test]
fn a_computing_worker_is_left_alone_and_the_counter_works() {
    let (_, report) = pass(&options(1, 4), "", "tickless ms=1000");
    let figures = report.program.expect("a scenario has a report").figures;
    assert_eq!(figures["tick"], 0);
    let (_, report) = pass(&options(1, 4), "[timer]\ntick_workers = true\n", "ticked ms=1000");
    let figures = report.program.expect("a scenario has a report").figures;
    assert!(figures["tick"] >= 7, "{figures:?}");
    // Each scenario fails where the other passes.
    let failed = run(&options(1, 4), "", "ticked ms=1000").expect("it ends");
    assert_eq!(failed.outcome, Outcome::Failure);
    let text = "[timer]\ntick_workers = true\n";
    let failed = run(&options(1, 4), text, "tickless ms=1000").expect("it ends");
    assert_eq!(failed.outcome, Outcome::Failure);
}

#[test]
fn an_idle_node_sleeps() {
    pass_seeds(5, 4, "idle ms=1000");
    pass_seeds(2, 1, "idle");
}

#[test]
fn services_are_called_on_every_core() {
    pass_seeds(20, 4, "calls");
    pass_seeds(2, 1, "calls");
    pass_seeds(2, 9, "calls");
}

#[test]
fn every_core_calls_every_core_at_once() {
    pass_seeds(2, 4, "flood");
    pass_seeds(5, 4, "flood calls=500");
    pass_seeds(2, 1, "flood calls=500");
}

#[test]
fn services_are_made_of_services() {
    pass_seeds(20, 4, "composed");
    pass_seeds(2, 1, "composed");
    pass_seeds(2, 2, "composed");
    pass_seeds(2, 9, "composed");
}

#[test]
fn what_a_graph_has_acknowledged_is_in_whenever_its_core_ends() {
    for seed in 0..6 {
        pass(
            &with_datasets(seed, 3 + seed as usize % 3, DiskFaults::default()),
            POOL,
            "graph-kept",
        );
    }
    // The power fails at any write; in the next life all is said again.
    let mut failed = 0;
    for write in (1..200).step_by(9) {
        let cut = DiskFaults { cut_at_write: Some(write), ..DiskFaults::default() };
        let first = with_datasets(write, 3, cut);
        let finished = run(&first, POOL, "graph-kept ends=1 parts=1").expect("it ends");
        failed += u32::from(finished.power_failed);
        let mut second = with_datasets(write, 3, DiskFaults::default());
        second.disks[0].contents = finished.disks[0].clone();
        pass(&second, POOL, "graph-kept ends=1 look=1");
    }
    assert!(failed > 15, "the power failed only {failed} times");
}

#[test]
fn a_graph_is_the_same_in_any_order_of_its_events() {
    pass_seeds(20, 4, "graph");
    pass_seeds(2, 2, "graph edges=200 vertices=20");
    pass_seeds(2, 3, "graph edges=9000 vertices=900");
    pass_seeds(20, 5, "graph parts=3");
}

#[test]
fn instances_are_chosen_by_how_they_serve() {
    pass_seeds(20, 4, "quality");
    pass_seeds(2, 2, "quality");
}

#[test]
fn policies_are_services() {
    pass_seeds(20, 4, "policies");
    pass_seeds(2, 1, "policies");
    pass_seeds(2, 2, "policies");
    pass_seeds(2, 9, "policies");
}

#[test]
fn hostile_policies_harm_nobody() {
    pass_seeds(20, 4, "hostile");
}

#[test]
fn calls_end_once_and_say_why() {
    pass_seeds(30, 4, "ends");
}

#[test]
fn calls_end_at_once_and_truly_while_cores_come_and_go() {
    for seed in 0..12 {
        let faults =
            Faults { core_stops: 12, stops_within: Duration::from_millis(55), ..Faults::default() };
        pass(&Options { faults, ..options(seed, 4) }, "", "calls-churn ms=60");
    }
}

#[test]
fn calls_end_at_once_while_the_management_core_comes_and_goes() {
    for seed in 0..12 {
        let faults = Faults {
            core_stops: 12,
            stops_within: Duration::from_millis(if seed % 2 == 0 { 2 } else { 30 }),
            stop_manager: true,
            ..Faults::default()
        };
        pass(&Options { faults, ..options(seed, 4) }, "", "calls-churn ms=40");
    }
}

#[test]
fn default_services_serve_every_core() {
    pass_seeds(20, 4, "defaults");
    pass_seeds(2, 1, "defaults");
    pass_seeds(2, 9, "defaults");
}

#[test]
fn services_are_found_again_after_the_registry() {
    pass_seeds(30, 4, "registry-restart");
}

#[test]
fn operations_can_be_counted() {
    let (_, report) = pass(&options(1, 4), "", "counts ops=50");
    let figures = report.program.expect("a scenario has a report").figures;
    for name in ["message", "task", "timer", "allocate", "release", "channel"] {
        assert!(figures.contains_key(name), "{name} is not in {figures:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for command in ["ping", "restart", "moving messages=200 stay=10"] {
        let (first, _) = pass(&options(11, 4), "", command);
        let (second, _) = pass(&options(11, 4), "", command);
        let (other, _) = pass(&options(12, 4), "", command);
        assert_eq!(first, second, "{command}");
        assert_ne!(first.trace_hash, other.trace_hash, "{command}");
    }
}

#[test]
fn late_signals_only_delay() {
    for seed in 0..20 {
        let faults = Faults { signal_delay: Duration::from_millis(2), ..Faults::default() };
        let options = Options { faults, ..options(seed, 4) };
        pass(&options, "", "ping rounds=10");
        pass(&options, "", "moving messages=200 stay=20");
    }
}

#[test]
fn a_node_whose_cores_stop_still_boots_and_reports() {
    for seed in 0..200 {
        let faults = Faults {
            core_stops: 6,
            stops_within: Duration::from_micros(300),
            stop_manager: seed % 2 == 0,
            ..Faults::default()
        };
        let options = Options { faults, ..options(seed, 4) };
        pass(&options, "", "boot");
    }
}

#[test]
fn nothing_is_lost_when_all_comes_and_goes() {
    pass_seeds(20, 4, "churn us=2000 begin_ms=50");
}

#[test]
fn nothing_is_lost_when_workers_stop_meanwhile() {
    for seed in 0..60 {
        let faults =
            Faults { core_stops: 8, stops_within: Duration::from_millis(52), ..Faults::default() };
        let options = Options { faults, ..options(seed, 4) };
        pass(&options, "", "churn us=2000 begin_ms=50");
    }
}
