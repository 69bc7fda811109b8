//! Moth search (Wang 2018, Memetic Computing 10): the better half takes Lévy flights around where
//! they are, which become shorter with the square of the generation; the others fly straight
//! towards the best, short of it or beyond it.

use alloc::vec::Vec;

use super::fixed::{levy, times, unit};
use super::flock::{self, Member};
use crate::{Optimiser, Search, Spent};

/// The golden ratio's fraction, by which a straight flight falls short, and its inverse.
const SHORT: i64 = 40_503;
const BEYOND: i64 = 106_039;

/// The method of Wang with its published parameters.
pub struct MothSearch;

impl Optimiser for MothSearch {
    fn name(&self) -> &'static str {
        "moth_search"
    }

    fn explain(&self) -> &'static str {
        "moths near the best take random flights, others fly towards it"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let mut moths = flock::first(search)?;
        for generation in 1_i64.. {
            let scale = generation.saturating_mul(generation);
            let mut next = Vec::with_capacity(moths.len());
            for (index, moth) in moths.iter().enumerate() {
                let random = &mut search.random;
                let at = if index < moths.len() / 2 {
                    moth.at.iter().map(|x| x + levy(random) / scale).collect()
                } else {
                    let reach = if random.happens(1, 2) { SHORT } else { BEYOND };
                    let factor = unit(random);
                    let towards =
                        |(x, best): (&i64, &i64)| times(factor, x + times(reach, best - x));
                    moth.at.iter().zip(&moths[0].at).map(towards).collect()
                };
                next.push(Member::new(at, search)?);
            }
            flock::succeed(&mut moths, next);
        }
        Ok(())
    }
}
