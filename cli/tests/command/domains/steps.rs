//! The scenarios of domains that run on every machine ([`nile_scenarios::domain_steps`]), by the
//! commands that people use ([`commands`]), with hosted domains and with those of a PC.

mod commands;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nile_scenarios::domain_steps::{SCENARIOS, carry_out};

use crate::cluster::{Place, until};
use crate::support::{launcher, run};
use commands::{Commands, DISK, list};

/// Removes the files of packages, which nobody has any more but the supervisor's node. A domain
/// that has just ended may be held for one that does not answer.
fn forget_packages(place: &Place) {
    until("all nodes are asked", || place.run(&["ls", "--all"]).status == Some(0));
    for dataset in list(&place.json(&["ls", "--all"])["datasets"]) {
        place.run(&["rm", dataset["name"].as_str().expect("it has a name")]).expect(0);
    }
}

/// After how long a command is killed that makes or changes a domain.
const MOMENTS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(40)];
const MOMENTS_OF_A_PC: [Duration; 2] = [Duration::from_millis(40), Duration::from_millis(200)];

/// What a future gives that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("a command is waited for by the thread"),
    }
}

/// Carries all scenarios out, one after the other, on the machine that is up.
fn all_hold(place: &Place, moments: &'static [Duration]) {
    for scenario in SCENARIOS {
        let begun = Instant::now();
        let done = at_once(carry_out(scenario, &mut Commands { place, moments }));
        done.unwrap_or_else(|why| panic!("{scenario}: {why}"));
        println!("{scenario}: {:?}", begun.elapsed());
        forget_packages(place);
    }
}

#[test]
fn scenarios_of_domains_hold_on_linux() {
    let place = Place::new();
    let up = ["up", "--machine", "hosted", "--supervisor", "--cores", "7", "--memory", "320M"];
    place.run(&up).expect(0);
    all_hold(&place, &MOMENTS);
}

#[test]
fn scenarios_of_domains_hold_on_a_pc() {
    let place = Place::new();
    // The launcher provides QEMU and the kernel.
    let mut up = launcher();
    place.in_here(&mut up);
    up.args(["up", "--machine", "qemu", "--supervisor", "--disk", DISK, "--disks", "3"]);
    run(&mut up, &["--cores", "7", "--memory", "352M"]).expect(0);
    all_hold(&place, &MOMENTS_OF_A_PC);
}
