//! Hill climbing with restarts: steps at random that gain, or lose nothing.

use super::step::{Step, anywhere};
use crate::{Optimiser, Search, Spent};

/// So many steps in a row that gain nothing, for each core, end a climb.
const PATIENCE: usize = 12;

/// Climbs from what is now, and then from anywhere.
pub struct HillClimbing;

impl Optimiser for HillClimbing {
    fn name(&self) -> &'static str {
        "hill_climbing"
    }

    fn explain(&self) -> &'static str {
        "changes and swaps at random that lose nothing; from anywhere, once none gains"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let problem = search.problem();
        let mut at = problem.now();
        loop {
            let mut cost = search.cost(&at)?;
            let mut idle = 0;
            while idle < PATIENCE * at.len() {
                let back = Step::draw(problem, &at, &mut search.random).take(&mut at);
                let found = search.cost(&at)?;
                idle = if found < cost { 0 } else { idle + 1 };
                if found <= cost {
                    cost = found;
                } else {
                    back.take(&mut at);
                }
            }
            at = anywhere(problem, &mut search.random);
        }
    }
}
