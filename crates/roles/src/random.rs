//! Drawn numbers.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Draws the same numbers from the same seed.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = u128::from(self.0.next_u64()) * bound as u128;
        (drawn >> 64) as usize
    }

    /// Whether something happens that happens in `parts` of `of` cases.
    pub fn happens(&mut self, parts: usize, of: usize) -> bool {
        self.below(of) < parts
    }
}
