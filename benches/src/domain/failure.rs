//! `domain-failure`: how long 99% of calls to a domain take while its neighbour fails, beside the
//! same before. Each has a CPU of its own.
//!
//! * `-panics`: the neighbour's managing core ends, again and again.
//! * `-hangs`: its worker core computes without end, and all else of it stands still.
//! * `-floods`: it sends messages to the domain as fast as it can, which takes none of them.
//! * `-killed`: all of its processes are killed, and it is made anew, again and again.
//!
//! Each call must be answered. Besides, millions of messages go to the domain from a third one
//! while the neighbour panics, hangs or is killed, and each must come, once and in its turn.
//! Control: the neighbour is on the domain's CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::gauge::{Domain, Task, measure};
use super::machine::Machine;
use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::number;
use crate::place::{Cpu, two_cpus};
use crate::rounds::{Times, order};

/// How the neighbour fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Panics,
    Hangs,
    Floods,
    Killed,
}

/// In which ways it does, each the contestant of its number.
const ALL: [(How, &str); 4] = [
    (How::Panics, "domain-failure-panics"),
    (How::Hangs, "domain-failure-hangs"),
    (How::Floods, "domain-failure-floods"),
    (How::Killed, "domain-failure-killed"),
];

/// How long the neighbour has failed when calls begin.
const BEGUN: Duration = Duration::from_millis(200);

/// A command that ends the managing core, and two by which a domain ends and comes back.
const PANIC: [&str; 3] = ["fault", "kill", "batch.c0"];
const KILL: [&str; 3] = ["fault", "kill", "batch"];
const RESTART: [&str; 4] = ["domain", "restart", "batch", "--force"];

/// What the domains send each other messages over.
const SHARE: [&str; 7] = ["domain", "share", "rf", "--memory", "2M", "--with", "web,batch,red"];

/// `batch`, which fails, and who is told to have it do so.
struct Neighbour<'d> {
    machine: &'d Machine,
    domain: Domain<'d>,
    cpu: Cpu,
}

impl Neighbour<'_> {
    /// What `act` gives while the neighbour fails, which it has begun before.
    fn fails_during<T>(
        &self,
        how: How,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let say = |words: &[&str]| self.machine.on(self.cpu, words).map(drop);
        match how {
            How::Panics => self.again_and_again(|| say(&PANIC), act),
            How::Killed => self.again_and_again(|| say(&KILL).and_then(|()| say(&RESTART)), act),
            How::Hangs => {
                self.domain.start(1, "rate empty 60 1")?;
                self.machine.signal(self.domain.node(), Signal::STOP)?;
                thread::sleep(BEGUN);
                let acted = act();
                self.machine.signal(self.domain.node(), Signal::CONT)?;
                say(&["package", "stop", "batch.c1"])?;
                acted
            }
            How::Floods => {
                // What was made anew shares nothing.
                say(&SHARE)?;
                say(&["package", "start", "rf", "--on", "web.c1", "--argument", "deaf"])?;
                let flood = ["--on", "batch.c1", "--argument", "flood 1000000000000 1"];
                say(&[&["package", "start", "rf"], &flood[..]].concat())?;
                thread::sleep(BEGUN);
                let acted = act();
                // One that had ended would not have flooded anybody any more: then this fails.
                say(&["package", "stop", "batch.c1"])?;
                say(&["package", "stop", "web.c1"])?;
                acted
            }
        }
    }

    /// Fails anew all the time, at least once.
    fn again_and_again<T>(
        &self,
        fail: impl Fn() -> Result<(), Failure> + Sync,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let failing = scope.spawn(|| -> Result<(), Failure> {
                loop {
                    fail()?;
                    if over.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                }
            });
            thread::sleep(BEGUN);
            let acted = act();
            over.store(true, Ordering::Relaxed);
            let failed = failing.join();
            failed.map_err(|_| Failure::Node("who has it fail has panicked".into()))??;
            acted
        })
    }
}

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let [others, own] = two_cpus()?;
    let (rounds, calls, cpu) = match mode {
        Mode::Real => (9, "2000", others),
        Mode::Control => (2, "1000", own),
    };
    let machine = Machine::up("8", "384M")?;
    let web = Domain::create(&machine, "web", own, &[own])?;
    let batch = Domain::create(&machine, "batch", cpu, &[cpu])?;
    let red = Domain::create(&machine, "red", others, &[others])?;
    machine.say(&SHARE)?;
    machine.put_first("switch", others)?;
    let call = ["call", "ackermann.compute", "m=3", "n=5", "--core", "web.c0", "--json"];
    let call = [&call[..], &["--times", calls]].concat();
    let p99 = || number(&machine.first_on(others, &call)?, "p99_us");
    let neighbour = Neighbour { machine: &machine, domain: batch, cpu };
    if mode == Mode::Real {
        // The core that would take the messages has who is flooded.
        for (how, name) in ALL.into_iter().filter(|(how, _)| *how != How::Floods) {
            neighbour.fails_during(how, || messages(&red, &web))?;
            eprintln!("  {name}: no message of those between the two others was lost");
        }
    }
    let mut times = Times::of(1 + ALL.len());
    for round in 0..=rounds {
        for contestant in order(round, 1 + ALL.len()) {
            let took = match contestant {
                0 => p99()?,
                _ => neighbour.fails_during(ALL[contestant - 1].0, p99)?,
            };
            if round > 0 {
                times.0[contestant].push(took);
            }
        }
    }
    let figure = |(place, (_, name)): (usize, (How, &str))| {
        let peer = Peer { name: "before".into(), value: times.median(0) };
        let (ours, ratio) = (times.median(1 + place), times.ratio(1 + place, 0));
        Figure::with_ratio(name, "µs", ours, peer, ratio, Target::AtMost(1.05))
    };
    Ok(ALL.into_iter().enumerate().map(figure).collect())
}

/// Sends messages from one domain to another, all of which have to come.
fn messages(from: &Domain<'_>, to: &Domain<'_>) -> Result<(), Failure> {
    let argument = |whom: &Domain<'_>, role: &str| format!("stream post {} {role}", whom.place());
    let follow = Task { domain: to, core: 1, argument: argument(from, "follow"), tells: false };
    let lead = Task { domain: from, core: 1, argument: argument(to, "lead"), tells: true };
    measure(&[follow, lead], Duration::ZERO).map(drop)
}
