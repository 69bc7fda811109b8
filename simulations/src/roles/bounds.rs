//! What a day takes at best: with roles that stay, chosen when all is known; and for a clairvoyant,
//! who knows all of the day before and pays for changes as everybody does.

use super::AWAY;
use super::day::{Counts, Stretch};
use nile_abi::{Role, RoleSet};

/// About how many seconds lie between two moments at which the clairvoyant may change roles.
const PIECE: f64 = 5.0;

fn bits(roles: &[Role]) -> usize {
    usize::from(roles.iter().copied().collect::<RoleSet>().bits())
}

/// Every way to divide the cores but the managing one, with one at most that has both kinds of
/// devices: of equal cores, two that have one kind each do at least as much as two that have both.
fn all(cores: usize) -> Vec<Counts> {
    let free = cores as u16 - 1;
    let mut found = Vec::new();
    for network in 0..=free {
        for disk in 0..=free - network {
            for both in 0..=(free - network - disk).min(1) {
                let mut counts = [0; 16];
                counts[bits(&[Role::Management])] = 1;
                counts[bits(&[Role::Network])] = network;
                counts[bits(&[Role::Disk])] = disk;
                counts[bits(&[Role::Network, Role::Disk])] = both;
                counts[bits(&[Role::Worker])] = free - network - disk - both;
                found.push(counts);
            }
        }
    }
    found
}

/// What a day takes at best.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// With the roles of a configuration without any.
    pub usual: f64,
    /// With the best roles that stay.
    pub fixed: f64,
    /// For the clairvoyant.
    pub clairvoyant: f64,
}

/// The bounds of a day on a node of so many cores.
pub fn bounds(day: &[Stretch], cores: usize) -> Bounds {
    let mut usual = [0; 16];
    usual[bits(&[Role::Management])] = 1;
    usual[bits(&[Role::Network, Role::Disk])] = 1;
    usual[bits(&[Role::Worker])] = cores as u16 - 2;
    let whole = |counts: &Counts| day.iter().map(|it| it.time(counts) * it.length).sum::<f64>();
    let all: Vec<Counts> = all(cores);
    let fixed = all.iter().map(whole).fold(f64::INFINITY, f64::min);
    Bounds { usual: whole(&usual), fixed, clairvoyant: clairvoyant(day, &all, usual) }
}

/// A dynamic programme over the day's pieces and the ways to divide the cores. Who is worse off
/// than the best by more than a change of all cores takes need not be gone on with: it is no worse
/// to come from the best.
fn clairvoyant(day: &[Stretch], all: &[Counts], usual: Counts) -> f64 {
    let mut known: Vec<(f64, Counts)> = vec![(0.0, usual)];
    for stretch in day {
        let times: Vec<f64> = all.iter().map(|counts| stretch.time(counts)).collect();
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let pieces = (stretch.length / PIECE).round().max(1.0);
        let length = stretch.length / pieces;
        for _ in 0..pieces as usize {
            let best = known.iter().map(|(spent, _)| *spent).fold(f64::INFINITY, f64::min);
            let limit = best + least * length + 2.0 * AWAY;
            let mut next: Vec<(f64, Counts)> = Vec::new();
            for (time, to) in all.iter().zip(&times).map(|(to, time)| (time, to)) {
                if best + time * length > limit {
                    continue;
                }
                // From where least was spent: whoever spent more than is found cannot be better.
                let mut least = f64::INFINITY;
                for (spent, from) in &known {
                    if spent + time * length >= least {
                        break;
                    }
                    least = least.min(spent + through(stretch, from, to, *time, length));
                }
                next.push((least, *to));
            }
            let best = next.iter().map(|(spent, _)| *spent).fold(f64::INFINITY, f64::min);
            next.retain(|(spent, _)| *spent <= best + AWAY);
            next.sort_by(|one, other| one.0.total_cmp(&other.0));
            known = next;
        }
    }
    known.iter().map(|(spent, _)| *spent).fold(f64::INFINITY, f64::min)
}

/// How long a piece takes whose cores change from `from` to `to` at its beginning: at first only
/// those serve that stay.
fn through(stretch: &Stretch, from: &Counts, to: &Counts, time: f64, length: f64) -> f64 {
    if from == to {
        return time * length;
    }
    let stay: Counts = std::array::from_fn(|index| from[index].min(to[index]));
    let done = AWAY / stretch.time(&stay);
    if done >= length { length * AWAY / done } else { AWAY + (length - done) * time }
}
