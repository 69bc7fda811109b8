//! `domain-scale`: one node beside two domains on the same two CPUs. Two workers open and close
//! channels as fast as they can. Each time the managing core of their node allocates memory, zeroes
//! it, maps it and frees it again. One node has one such core; two domains have two.
//!
//! * One node: its managing core is on the first CPU, and both workers are on the second; or one of
//!   them is beside the managing core. The faster of the two counts in each round.
//! * Two domains: each has a CPU for its managing core and its worker.
//!
//! `domain-scale-own` is the same with system calls that no managing core sees: there, two domains
//! must not differ from one node. Control: each is measured with the other's calls.

use std::time::Duration;

use super::gauge::{Domain, Task, measure};
use super::machine::Machine;
use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::two_cpus;
use crate::rounds::{Times, order};

/// How long calls are made in a round.
const SECONDS: u64 = 2;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Real { 7 } else { 1 };
    let [here, there] = two_cpus()?;
    let machine = Machine::up("11", "384M")?;
    let apart = Domain::create(&machine, "apart", here, &[there, there])?;
    let beside = Domain::create(&machine, "beside", here, &[here, there])?;
    let left = Domain::create(&machine, "left", here, &[here])?;
    let right = Domain::create(&machine, "right", there, &[there])?;
    let rate = |kind: &str, cores: [(&Domain<'_>, u16); 2]| -> Result<f64, Failure> {
        let task = |(domain, core)| {
            let argument = format!("rate {kind} {SECONDS} {core}");
            Task { domain, core, argument, tells: true }
        };
        let found = measure(&cores.map(task), Duration::from_secs(SECONDS))?;
        Ok(found.iter().sum::<f64>() / 1e3)
    };
    // Nanoseconds of a call, since less is better there.
    let mut times = [Times::of(2), Times::of(2)];
    for round in 0..=rounds {
        for (kind, times) in ["channels", "empty"].into_iter().zip(&mut times) {
            let mut rates = [0.0; 3];
            for contestant in order(round, rates.len()) {
                rates[contestant] = match contestant {
                    0 => rate(kind, [(&left, 1), (&right, 1)])?,
                    1 => rate(kind, [(&apart, 1), (&apart, 2)])?,
                    _ => rate(kind, [(&beside, 1), (&beside, 2)])?,
                };
            }
            let [two, apart, beside] = rates;
            eprintln!("  {kind}: {two:.0} in two domains, {apart:.0} and {beside:.0} in one node");
            if round > 0 {
                times.0[0].push(1e9 / two);
                times.0[1].push(1e9 / apart.max(beside));
            }
        }
    }
    if mode == Mode::Control {
        times.reverse();
    }
    let figure = |name: &str, times: &Times, target| {
        let [ours, one] = [0, 1].map(|it| 1e9 / times.median(it));
        let peer = Peer { name: "one node".into(), value: one };
        Figure::with_ratio(name, "1/s", ours, peer, times.ratio(1, 0), target)
    };
    let [managed, own] = &times;
    Ok(vec![
        figure("domain-scale", managed, Target::AtLeast(1.8)),
        figure("domain-scale-own", own, Target::AtMost(1.03)),
    ])
}
