//! Monarch butterfly optimisation (Wang, Deb, Cui 2019, Neural Computing and Applications 31): the
//! better part of the population mixes its positions with those of the others; the others take
//! over what the best has, or what one of them has, and then at times a Lévy flight.

use alloc::vec::Vec;

use super::fixed::{ONE, levy};
use super::flock::{self, Member, SIZE};
use crate::{Optimiser, Random, Search, Spent};

/// So many twelfths of the population, and of chances, are the first land's.
const PART: usize = 5;

/// The chance of the first land in a migration, in parts of 72: that part of a period of 1.2.
const MIGRATES: usize = PART * 5;

/// The method of Wang, Deb and Cui with its published parameters.
pub struct MonarchButterfly;

impl Optimiser for MonarchButterfly {
    fn name(&self) -> &'static str {
        "monarch_butterfly"
    }

    fn explain(&self) -> &'static str {
        "butterflies of two lands migrate, and adjust to the best"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let mut all = flock::first(search)?;
        let cores = search.problem().cores();
        let first = (SIZE * PART).div_ceil(12);
        for generation in 1_i64.. {
            let scale = generation.saturating_mul(generation);
            let mut next = Vec::with_capacity(SIZE);
            for index in 0..SIZE {
                let random = &mut search.random;
                let draw = |core: usize| {
                    if index < first {
                        migrated(&all, first, core, random)
                    } else {
                        adjusted(&all, first, core, scale, random)
                    }
                };
                let at = (0..cores).map(draw).collect();
                next.push(Member::new(at, search)?);
            }
            flock::succeed(&mut all, next);
        }
        Ok(())
    }
}

/// What somebody of either land has.
fn migrated(all: &[Member], first: usize, core: usize, random: &mut Random) -> i64 {
    let is_first = random.happens(MIGRATES, 72);
    let from = if is_first { random.below(first) } else { first + random.below(all.len() - first) };
    all[from].at[core]
}

/// What the best has, or somebody of the second land, who may have flown on.
fn adjusted(all: &[Member], first: usize, core: usize, scale: i64, random: &mut Random) -> i64 {
    if random.happens(PART, 12) {
        return all[0].at[core];
    }
    let other = all[first + random.below(all.len() - first)].at[core];
    if random.happens(12 - PART, 12) { other + (levy(random) - ONE / 2) / scale } else { other }
}
