//! Roles that change while a node works: each of `nile_roles`' optimisers, under the mechanism's
//! hysteresis, through days of mixed work on nodes of 4 to 64 cores. Beside them stand the best
//! roles that stay, and a clairvoyant.
//!
//! * `day`: the work.
//! * `node`: a node that does it, and what it measures.
//! * `bounds`: what it takes at best.
//! * `distance`: how far from the optimum one answer of each optimiser is.

mod bounds;
mod day;
mod distance;
mod node;
#[cfg(test)]
mod tests;

use nile_roles::{ALL, Optimiser, choose};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::options::Options;
use crate::report::{Figure, Report, Target};
use crate::runs::{Outcome, run_seeds};
use crate::trace::Trace;

use bounds::{Bounds, bounds};
use distance::Kind;
use node::{Lived, live};

/// The nodes of a run, by their cores.
const SIZES: [usize; 3] = [4, 16, 64];

/// How many assignments an optimiser may judge at a time.
const BUDGET: u32 = 1_000;

/// For how many seconds a core that changes serves nobody.
const AWAY: f64 = 0.5;

/// For how many seconds a change has to be worth its price.
const HORIZON: f64 = 30.0;

/// What a change of one core of a node costs, in millionths of the node's time.
fn price(cores: usize) -> u32 {
    (AWAY / HORIZON / cores as f64 * 1e6) as u32
}

fn random(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    run_seeds("roles", options, 1, simulate)
}

/// A day of one node, by each optimiser.
struct Day {
    bounds: Bounds,
    lived: [Lived; ALL.len()],
}

/// Lives a day that `seed` draws, on a node of so many cores.
fn day(seed: u64, cores: usize) -> Day {
    let stretches = day::draw(&mut random(seed), cores);
    let live = |optimiser: &dyn Optimiser| live(&stretches, cores, optimiser, seed);
    Day { bounds: bounds(&stretches, cores), lived: ALL.map(live) }
}

/// A problem of each kind: by how much each optimiser's answer is dearer than the least.
fn distances(seed: u64) -> [[f64; ALL.len()]; Kind::ALL.len()] {
    Kind::ALL.map(|kind| {
        let problem = distance::draw(&mut random(seed), kind);
        let costs = ALL.map(|it| choose(it, &problem, BUDGET, seed).cost.0);
        let least = distance::least(&problem, seed).min(costs.into_iter().min().unwrap_or(0));
        costs.map(|cost| cost as f64 / least as f64 - 1.0)
    })
}

/// One run: a day for each size of node, and a problem of each kind.
fn simulate(seed: u64) -> Outcome {
    let days = SIZES.map(|cores| day(seed, cores));
    let distances = distances(seed);
    let mut trace = Trace::default();
    let mut broken = None;
    let mut figures = Vec::new();
    for (index, optimiser) in ALL.iter().enumerate() {
        let name = optimiser.name();
        let mut figure = |what: &str, value: f64, promised: Option<f64>| {
            let figure = Figure::new(&format!("{name}: {what}"), value, "");
            figures.push(match promised.filter(|_| PROMISED.contains(&name)) {
                Some(most) => figure.with_target(Target::AtMost(most)),
                None => figure,
            });
        };
        for (cores, day) in SIZES.iter().zip(&days) {
            let lived = &day.lived[index];
            let Bounds { fixed, clairvoyant, .. } = day.bounds;
            let ratio = lived.seconds / clairvoyant;
            figure(&format!("{cores} cores, of a clairvoyant"), ratio, Some(1.10));
            figure(&format!("{cores} cores, of static roles"), lived.seconds / fixed, Some(1.02));
            trace.note_bytes(&lived.seconds.to_bits().to_le_bytes());
            if ratio < 0.99 {
                broken = Some(format!("{name} is quicker than the clairvoyant"));
            }
        }
        let worst = |day: &Day| day.lived[index].seconds / day.bounds.usual;
        figure("of the default roles", days.iter().map(worst).fold(0.0, f64::max), Some(0.83));
        for (kind, distances) in Kind::ALL.iter().zip(&distances) {
            let name = kind.name();
            figure(&format!("{name} cores, above the least"), distances[index] * 100.0, None);
        }
    }
    Outcome { trace_hash: trace.hash(), broken, figures }
}

/// Those that keep what is promised of roles that change.
const PROMISED: [&str; 2] = ["exact", "hill_climbing"];
