//! Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983): steps at random; one that loses is taken
//! with a probability that falls with the loss and with time.

use super::fixed::{ONE, exp};
use super::step::Step;
use crate::{Cost, Optimiser, Search, Spent};

/// The first temperature is the cost of staying divided by this.
const HOT: u64 = 8;

/// The temperature falls by a factor of e for each of so many parts of the budget.
const FALLS: u64 = 8;

/// Anneals once, over the whole budget.
pub struct Annealing;

impl Optimiser for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn explain(&self) -> &'static str {
        "changes and swaps at random; what loses is taken less and less often"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        let problem = search.problem();
        let budget = u64::from(search.left().max(1));
        let hot = search.stays().0 / HOT;
        let mut at = problem.now();
        let mut cost = search.cost(&at)?;
        loop {
            let gone = budget - u64::from(search.left());
            let fallen = exp(-((gone * FALLS * ONE as u64 / budget) as i64));
            let temperature = (u128::from(hot) * fallen as u128 / ONE as u128) as u64;
            let back = Step::draw(problem, &at, &mut search.random).take(&mut at);
            let found = search.cost(&at)?;
            if found <= cost || is_taken(found, cost, temperature, search) {
                cost = found;
            } else {
                back.take(&mut at);
            }
        }
    }
}

/// With a probability of e to minus the loss over the temperature.
fn is_taken(found: Cost, cost: Cost, temperature: u64, search: &mut Search<'_>) -> bool {
    let loss = found.0 - cost.0;
    // A loss of ten temperatures, or what is not legal, is never taken.
    if loss / 10 >= temperature {
        return false;
    }
    let odds = exp(-((loss * ONE as u64 / temperature) as i64));
    search.random.happens(odds as usize, ONE as usize)
}
