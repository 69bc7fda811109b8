//! A day's work of a node: jobs one after the other, some of them beside others, in stretches in
//! which what is asked of each role stays in proportion.

use nile_abi::{Role, RoleSet};
use nile_roles::{Core, PerRole, Problem, Tally};
use rand_chacha::ChaCha8Rng;

use crate::draw::below;

/// Cores of a node by what they are: how many have each set of roles, by the set's bits.
pub type Counts = [u16; 16];

/// Work of one kind.
pub struct Stretch {
    /// The problem that asks for this work in a second.
    problem: Problem,
    /// What is asked of each role for a second, in millionths of a core.
    pub work: PerRole<u64>,
    /// For how many seconds, if all cores had something to do all the time.
    pub length: f64,
}

impl Stretch {
    /// How many times as long a second's work takes on these cores: forever where a role has none.
    pub fn time(&self, counts: &Counts) -> f64 {
        let mut tally = Tally::default();
        for (bits, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let set = RoleSet::from_bits(bits as u8);
            // All cores are equal: the managing one does as much of its role as another would.
            tally.add(&self.problem, 0, set, u64::from(*count));
        }
        match tally.covers(&self.problem) {
            true => tally.bottleneck(&self.problem) as f64 / 1e6,
            false => f64::INFINITY,
        }
    }
}

/// What jobs ask of network, disk and worker, in parts, and how many seconds it lasts.
type Phase = ([u64; 3], [u64; 2]);

const IMPORT: &[Phase] = &[([60, 40, 5], [30, 120])];
const COMPUTE: &[Phase] = &[([2, 4, 100], [30, 180])];
const SORT: &[Phase] =
    &[([4, 40, 60], [20, 60]), ([60, 25, 25], [15, 45]), ([5, 60, 40], [20, 60])];
const EXPORT: &[Phase] = &[([50, 50, 3], [20, 90])];

/// What management takes: a tenth of a core.
const MANAGEMENT: u64 = 100_000;

/// The node that a configuration without roles gives, from three cores on: the first manages, the
/// second has the devices.
pub fn node(cores: usize, change: u32) -> Vec<Core> {
    let devices = RoleSet::from_iter([Role::Network, Role::Disk]);
    let may = devices.with(Role::Worker);
    let mut all = vec![Core::usual(RoleSet::EMPTY.with(Role::Worker), may, change); cores];
    all[0] = Core::usual(RoleSet::EMPTY.with(Role::Management), may, change).pinned();
    all[1].now = devices;
    all
}

/// A day of some twenty minutes.
pub fn draw(random: &mut ChaCha8Rng, cores: usize) -> Vec<Stretch> {
    let mut day = Vec::new();
    let job = |random: &mut ChaCha8Rng| match below(random, 4) {
        0 => IMPORT,
        1 => COMPUTE,
        2 => SORT,
        _ => EXPORT,
    };
    while day.len() < 16 {
        let phases = job(random);
        // One of four jobs has another beside it.
        let beside = (below(random, 4) == 0).then(|| job(random)[0].0);
        for (parts, [least, most]) in phases {
            let length = (least + below(random, most - least)) as f64;
            let parts = match beside {
                Some(others) => std::array::from_fn(|index| parts[index] + others[index]),
                None => *parts,
            };
            day.push(stretch(random, cores, parts, length));
        }
    }
    day
}

/// Work in these parts, more or less, that all cores but the managing one could do in `length`.
pub fn stretch(random: &mut ChaCha8Rng, cores: usize, parts: [u64; 3], length: f64) -> Stretch {
    let parts = parts.map(|part| part * (700 + below(random, 600)));
    let all: u64 = parts.iter().sum();
    let share = |part| part * (cores as u64 - 1) * 1_000_000 / all;
    let work = [MANAGEMENT, share(parts[0]), share(parts[1]), share(parts[2])];
    let problem = Problem::new(node(cores, 0), &work).expect("that is a node");
    Stretch { problem, work, length }
}
