//! Moth-flame optimisation (Mirjalili 2015, Knowledge-Based Systems 89): the best positions so far
//! are flames, fewer from generation to generation; each moth flies in a logarithmic spiral around
//! its flame, ever closer.

use super::fixed::{ONE, cos_turns, exp, times, unit};
use super::flock::{self, Member, SIZE};
use crate::{Optimiser, Search, Spent};

/// The method of Mirjalili with its published parameters.
pub struct MothFlame;

impl Optimiser for MothFlame {
    fn name(&self) -> &'static str {
        "moth_flame"
    }

    fn explain(&self) -> &'static str {
        "moths fly in spirals around the best places so far, which become fewer"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let mut moths = flock::first(search)?;
        let mut flames = moths.clone();
        let generations = (search.left() as usize / SIZE).max(1);
        for generation in 1..=generations {
            let gone = generation as i64 * ONE / generations as i64;
            let count = SIZE - generation * (SIZE - 1) / generations;
            for (index, moth) in moths.iter_mut().enumerate() {
                let flame = &flames[index.min(count.max(1) - 1)];
                let mut at = moth.at.clone();
                for (x, lit) in at.iter_mut().zip(&flame.at) {
                    // From 1 down to a number that falls from -1 to -2.
                    let t = ONE - times(2 * ONE + gone, unit(&mut search.random));
                    *x = times(times((lit - *x).abs(), exp(t)), cos_turns(t)) + lit;
                }
                *moth = Member::new(at, search)?;
            }
            flames.extend(moths.iter().cloned());
            flock::sort(&mut flames);
            flames.truncate(SIZE);
        }
        Ok(())
    }
}
