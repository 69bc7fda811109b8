//! Reads and writes 1:1 of a map with 10,000 keys, and of one with 64, by two threads and by eight,
//! on two CPUs: `nile_sync::mvrlu` beside RLU, and beside all others in one table. A write adds one
//! to a key's value, so that the sum of all tells whether one was lost.
//!
//! The control keeps all keys in one object, and is measured beside RLU alone.

use std::time::Duration;

use super::crew::{Contestant, plans, turn};
use super::rlu::Waiting;
use super::versions::Layout;
use super::{maps, rcu, rlu, shards, versions};
use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::{Cpu, two_cpus};
use crate::rounds::{Times, order};

/// How long a contestant works in a round.
const TURN: Duration = Duration::from_millis(50);

/// Threads and keys of a table's column; the name of its figure, and its target beside RLU.
struct Contest {
    threads: u16,
    keys: u32,
    judged: Option<(&'static str, f64)>,
}

const CONTESTS: [Contest; 4] = [
    Contest { threads: 2, keys: 10_000, judged: Some(("sync-mix-2", 1.0)) },
    Contest { threads: 8, keys: 10_000, judged: Some(("sync-mix-8", 5.0)) },
    Contest { threads: 2, keys: 64, judged: None },
    Contest { threads: 8, keys: 64, judged: None },
];

/// The places of ours and of RLU among all.
const OURS: usize = 0;
const RLU: usize = 1;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let cpus = two_cpus()?;
    let (count, rounds) = if mode == Mode::Control { (2, 2) } else { (CONTESTS.len(), 20) };
    let contests = &CONTESTS[..count];
    eprintln!("  millions of operations a second, on {} and {}:", cpus[0], cpus[1]);
    let mut rows: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut figures = Vec::new();
    for contest in contests {
        let mut all = contestants(mode, contest, cpus);
        let times = measure(contest, rounds, cpus, &mut all)?;
        // Millions a second from nanoseconds each; less time is more operations.
        let millions = |place| 1e3 / times.median(place);
        for (place, contestant) in all.iter().enumerate() {
            match rows.get_mut(place) {
                Some((_, row)) => row.push(millions(place)),
                None => rows.push((contestant.name, vec![millions(place)])),
            }
        }
        if let Some((name, least)) = contest.judged {
            let peer = Peer { name: all[RLU].name.into(), value: millions(RLU) };
            let (ratio, target) = (times.ratio(RLU, OURS), Target::AtLeast(least));
            figures.push(Figure::with_ratio(name, "M/s", millions(OURS), peer, ratio, target));
        }
    }
    let heads =
        contests.iter().map(|it| format!("{:>13}", format!("{} x {}", it.threads, it.keys)));
    eprintln!("  {:<34}{}", "threads x keys", heads.collect::<String>());
    for (name, row) in rows {
        let row = row.iter().map(|value| format!("{value:>13.2}"));
        eprintln!("  {name:<34}{}", row.collect::<String>());
    }
    Ok(figures)
}

fn contestants(mode: Mode, contest: &Contest, cpus: [Cpu; 2]) -> Vec<Contestant> {
    let Contest { threads, keys, .. } = *contest;
    let real = Layout { keys, keys_per_object: 1, log: 1 << 12, takes_snapshots: false };
    let layout = match mode {
        Mode::Real => real,
        Mode::Control => Layout { keys_per_object: keys, log: 16, ..real },
    };
    let in_snapshots = Layout { takes_snapshots: true, ..real };
    let mut all = vec![
        Contestant::new("mvrlu", versions::clients(layout, threads)),
        Contestant::new("RLU", rlu::clients(keys, threads, Waiting::Spin)),
    ];
    if mode == Mode::Real {
        all.extend([
            Contestant::new("mvrlu in snapshots", versions::clients(in_snapshots, threads)),
            Contestant::new("RLU that yields", rlu::clients(keys, threads, Waiting::Yield)),
            Contestant::new("RCU (sdd), a lock for each key", rcu::clients(keys, threads)),
            Contestant::new("papaya", maps::papaya(keys, threads)),
            Contestant::new("scc", maps::scc(keys, threads)),
            Contestant::new("dashmap", maps::dashmap(keys, threads)),
            Contestant::new("RwLock<HashMap>", maps::locked(keys, threads)),
            Contestant::new("two shards, batches of 16", shards::clients(keys, threads, cpus)),
        ]);
    }
    all
}

/// Lets them work in turns, and looks whether all that they have added is there.
fn measure(
    contest: &Contest,
    rounds: usize,
    cpus: [Cpu; 2],
    all: &mut [Contestant],
) -> Result<Times, Failure> {
    let plans = plans(contest.keys, contest.threads.into());
    let mut times = Times::of(all.len());
    for round in 0..rounds {
        for place in order(round, all.len()) {
            times.0[place].push(turn(cpus, &mut all[place], &plans, TURN)?);
        }
    }
    all.iter_mut().try_for_each(|contestant| contestant.check(contest.keys))?;
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_contestant_reads_wrong_or_loses_an_addition() {
        let contest = Contest { threads: 3, keys: 8, judged: None };
        let cpus = two_cpus().expect("two CPUs");
        let mut all = contestants(Mode::Real, &contest, cpus);
        let times = measure(&contest, 2, cpus, &mut all).expect("no wrong one");
        assert!(times.0.iter().flatten().all(|time| *time > 0.0));
        assert!(all.iter().all(|contestant| contestant.adds > 0));
        for contestant in &mut all {
            contestant.adds += 1;
            assert!(contestant.check(contest.keys).is_err(), "a lost addition is not seen");
        }
    }
}
