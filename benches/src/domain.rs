//! Domains of a hosted machine, beside themselves and beside containers of LXC.
//!
//! * `domain-colocate`: how long calls to a domain take that has a CPU of its own, alone and beside
//!   a sort in another domain: 99% of them, and half of them. Control: the sort is on the same CPU.
//! * `domain-create`, `domain-destroy`: by `nile domain`, beside `lxc-start` until the container's
//!   program runs. Control: a domain is made and ended in that time.
//! * `domain-core`: a core more or less by `nile domain resize`, beside a container that is sent to
//!   another CPU by `lxc-cgroup`, until its busy thread is there. Control: both changes in the time
//!   of one.
//! * `domain-memory`: 512 MiB more or less by `nile domain resize`, beside a promise. Control:
//!   three changes in the time of one.
//! * [`trips`]: messages and packets between domains; [`stream`]: data; [`scale`]: domains beside
//!   one node; [`failure`]: a neighbour that fails. [`gauge`] is the package that measures there.
//!
//! Two CPUs are enough. Everything but the service is on the first, and what carries its calls goes
//! before the sort there: else the client would be what waits.

pub mod failure;
mod gauge;
mod lxc;
mod machine;
pub mod scale;
pub mod stream;
pub mod trips;

use std::time::{Duration, Instant};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::number;
use crate::place::{Cpu, two_cpus};
use crate::rounds::{Times, median, order};
use lxc::Container;
use machine::Machine;

/// What the end of a domain is promised to take, and 512 MiB more or less for one.
const PROMISED_MILLIS: f64 = 2.0;

const WEB: [&str; 7] = ["domain", "create", "web", "--cores", "1", "--memory", "64M"];
const BATCH: [&str; 9] =
    ["domain", "create", "batch", "--cores", "2", "--memory", "512M", "--disk", "2G"];

/// How long a sort goes on until calls are measured beside it.
const BEGUN: Duration = Duration::from_millis(500);

/// See the module.
pub fn run_colocate(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let [others, own] = two_cpus()?;
    let (rounds, number_of_calls, size, sorts_on) = match mode {
        Mode::Real => (9, "2000", "256M", others),
        Mode::Control => (3, "1000", "256M", own),
    };
    let machine = Machine::up("4", "1G")?;
    // Its core has the second CPU by the ledger. There is none for the cores of the other.
    machine.say(&WEB)?;
    machine.on(sorts_on, &BATCH)?;
    machine.put_first("switch", others)?;
    let call = [
        "call",
        "ackermann.compute",
        "m=3",
        "n=5",
        "--core",
        "web.c0",
        "--times",
        number_of_calls,
        "--json",
    ];
    let calls = |what: &str| -> Result<[f64; 2], Failure> {
        let said = machine.first_on(others, &call)?;
        let [p99, p50] = [number(&said, "p99_us")?, number(&said, "p50_us")?];
        eprintln!("  {what}: p50 {p50:.0} µs, p99 {p99:.0} µs");
        Ok([p99, p50])
    };
    let sort = ["run", "terasort", "--size", size, "--on", "batch"];
    let mut times = [Times::of(2), Times::of(2)];
    for round in 0..=rounds {
        for contestant in order(round, 2) {
            let took = match contestant {
                0 => {
                    let mut beside = machine.begin(others, &sort)?;
                    std::thread::sleep(BEGUN);
                    let took = calls("beside a sort")?;
                    if beside.try_wait()?.is_some() {
                        return Err(Failure::Node("the sort was over before the calls".into()));
                    }
                    machine::end(beside, "the sort")?;
                    took
                }
                _ => calls("alone")?,
            };
            if round > 0 {
                let both = times.iter_mut().zip(took);
                both.for_each(|(times, took)| times.0[contestant].push(took));
            }
        }
    }
    let figure = |name: &str, times: &Times| {
        let peer = Peer { name: "the same alone".into(), value: times.median(1) };
        let (ours, ratio) = (times.median(0), times.ratio(0, 1));
        Figure::with_ratio(name, "µs", ours, peer, ratio, Target::AtMost(1.05))
    };
    let [p99, p50] = &times;
    Ok(vec![figure("domain-colocate", p99), figure("domain-colocate-p50", p50)])
}

/// See the module.
pub fn run_create(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Real { 100 } else { 3 };
    let machine = Machine::up("3", "256M")?;
    let container = Container::new("while :; do sleep 100; done")?;
    let (mut made, mut ended) = (Times::of(2), Times::of(2));
    for round in 0..=rounds {
        for contestant in order(round, 2) {
            let (create, destroy) = match contestant {
                0 => {
                    let begun = Instant::now();
                    if mode == Mode::Control {
                        machine.say(&WEB)?;
                        machine.say(&["domain", "destroy", "web"])?;
                    }
                    machine.say(&WEB)?;
                    let create = millis(begun);
                    let begun = Instant::now();
                    machine.say(&["domain", "destroy", "web"])?;
                    (create, millis(begun))
                }
                _ => {
                    let begun = Instant::now();
                    container.start()?;
                    let create = millis(begun);
                    let begun = Instant::now();
                    container.stop()?;
                    (create, millis(begun))
                }
            };
            if round > 0 {
                made.0[contestant].push(create);
                ended.0[contestant].push(destroy);
            }
        }
    }
    let [ours, theirs] = [0, 1].map(|it| (made.median(it), ended.median(it)));
    eprintln!("  a domain: made in {:.1} ms, ended in {:.1} ms", ours.0, ours.1);
    eprintln!("  a container: started in {:.1} ms, stopped in {:.1} ms", theirs.0, theirs.1);
    let lxc = Peer { name: "lxc-start".into(), value: theirs.0 };
    let promise = Peer { name: "promise".into(), value: PROMISED_MILLIS };
    let (ratio, target) = (made.ratio(0, 1), Target::AtMost(0.3));
    let create = Figure::with_ratio("domain-create", "ms", ours.0, lxc, ratio, target);
    let destroy = Figure::new("domain-destroy", "ms", ours.1, promise, Target::AtMost(1.0));
    Ok(vec![
        create.spread(&[("ours", &made.0[0]), ("lxc-start", &made.0[1])]),
        destroy.spread(&[("ours", &ended.0[0]), ("lxc-stop", &ended.0[1])]),
    ])
}

/// See the module.
pub fn run_core(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Real { 100 } else { 4 };
    let cpus: [Cpu; 2] = two_cpus()?;
    let machine = Machine::up("3", "256M")?;
    machine.say(&[&WEB[..], &["--max-cores", "2"]].concat())?;
    let container = Container::new("while :; do :; done")?;
    container.start()?;
    let process = container.process()?;
    let mut times = Times::of(2);
    for round in 0..=rounds {
        // One more in one round, and one less in the next.
        let resize = ["domain", "resize", "web", "--cores", ["2", "1"][round % 2]];
        for contestant in order(round, 2) {
            let begun = Instant::now();
            match contestant {
                0 => {
                    machine.say(&resize)?;
                    if mode == Mode::Control {
                        let back = ["domain", "resize", "web", "--cores", ["1", "2"][round % 2]];
                        machine.say(&back)?;
                        machine.say(&resize)?;
                    }
                }
                _ => container.go_to(cpus[round % 2], process)?,
            }
            if round > 0 {
                times.0[contestant].push(millis(begun));
            }
        }
    }
    container.stop()?;
    let peer = Peer { name: "lxc-cgroup cpuset.cpus".into(), value: times.median(1) };
    let (ours, ratio) = (times.median(0), times.ratio(0, 1));
    let target = Target::AtMost(1.0);
    let figure = Figure::with_ratio("domain-core", "ms", ours, peer, ratio, target);
    Ok(vec![figure.spread(&[("ours", &times.0[0]), ("lxc-cgroup", &times.0[1])])])
}

/// See the module.
pub fn run_memory(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Real { 100 } else { 4 };
    let machine = Machine::up("3", "1G")?;
    machine.say(&[&WEB[..], &["--max-memory", "576M"]].concat())?;
    let resize = |change: &str| machine.say(&["domain", "resize", "web", "--memory", change]);
    // More in one round, and less in the next.
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..=2 * rounds {
        let changes = if round % 2 == 0 { ["+512M", "-512M"] } else { ["-512M", "+512M"] };
        let begun = Instant::now();
        resize(changes[0])?;
        if mode == Mode::Control {
            resize(changes[1])?;
            resize(changes[0])?;
        }
        if round > 0 {
            took[round % 2].push(millis(begun));
        }
    }
    let figure = |name: &str, took: &[f64]| {
        let promise = Peer { name: "promise".into(), value: PROMISED_MILLIS };
        let figure = Figure::new(name, "ms", median(took), promise, Target::AtMost(1.0));
        figure.spread(&[("ours", took)])
    };
    let [more, less] = &took;
    Ok(vec![figure("domain-memory-more", more), figure("domain-memory-less", less)])
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
