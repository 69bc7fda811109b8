//! How far from the optimum each optimiser's answers are, at equal budgets, where cores are equal
//! and where they are not.

use nile_abi::Role;
use nile_roles::optimisers::{Annealing, Exact};
use nile_roles::{Problem, choose};
use rand_chacha::ChaCha8Rng;

use super::day::node;
use super::price;
use crate::draw::below;

/// Nodes of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// All cores are equal.
    Equal(usize),
    /// Half of the cores are threads of shared ones, and half are far from disks or network.
    Unequal(usize),
}

impl Kind {
    /// Those of the table.
    pub const ALL: [Kind; 4] =
        [Kind::Equal(16), Kind::Equal(64), Kind::Unequal(12), Kind::Unequal(64)];

    /// For the table's head.
    pub fn name(self) -> String {
        match self {
            Kind::Equal(cores) => format!("{cores} equal"),
            Kind::Unequal(cores) => format!("{cores} unequal"),
        }
    }
}

/// A node on which some demand is put, up to nine tenths of what it could do.
pub fn draw(random: &mut ChaCha8Rng, kind: Kind) -> Problem {
    let (Kind::Equal(count) | Kind::Unequal(count)) = kind;
    let mut cores = node(count, price(count));
    if let Kind::Unequal(_) = kind {
        for core in &mut cores {
            let whole = if below(random, 2) == 0 { 1000 } else { 600 };
            core.speed = [whole; 4];
            let far = if below(random, 2) == 0 { Role::Disk } else { Role::Network };
            core.speed[far as usize] = whole * 7 / 10;
        }
    }
    let parts: [u64; 3] = std::array::from_fn(|_| 20 + below(random, 1000));
    let all = parts.iter().sum::<u64>() * 10 / 9;
    let share = |part: u64| part * (count as u64 - 1) * 1_000_000 / all;
    let demand = [100_000, share(parts[0]), share(parts[1]), share(parts[2])];
    Problem::new(cores, &demand).expect("that is a node")
}

/// Evaluations that nobody counts, where the optimum is looked for.
const PLENTY: u32 = 400_000;

/// The least that is known: the optimum wherever enumeration comes to its end.
pub fn least(problem: &Problem, seed: u64) -> u64 {
    let exact = choose(&Exact, problem, PLENTY, seed);
    match exact.evaluations < PLENTY {
        true => exact.cost.0,
        false => exact.cost.0.min(choose(&Annealing, problem, PLENTY / 4, seed).cost.0),
    }
}
