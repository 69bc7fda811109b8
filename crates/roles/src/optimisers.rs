//! The optimisers, all with the same budget: what each judges is counted.
//!
//! * [`Threshold`]: a rule that judges one assignment.
//! * [`Exact`]: the optimum. Where cores are equal only counts matter, and those are few.
//! * [`Greedy`], [`HillClimbing`], [`Annealing`]: plain local searches.
//! * [`MothSearch`], [`MothFlame`], [`MonarchButterfly`], [`ElephantHerding`]: those that the
//!   NileOS paper names (V), over positions in a cube that `flock` turns into assignments.

mod annealing;
mod elephant_herding;
mod exact;
mod fixed;
mod flock;
mod greedy;
mod hill_climbing;
mod monarch_butterfly;
mod moth_flame;
mod moth_search;
mod step;
mod threshold;

pub use annealing::Annealing;
pub use elephant_herding::ElephantHerding;
pub use exact::Exact;
pub use greedy::Greedy;
pub use hill_climbing::HillClimbing;
pub use monarch_butterfly::MonarchButterfly;
pub use moth_flame::MothFlame;
pub use moth_search::MothSearch;
pub use threshold::Threshold;

use crate::Optimiser;

/// Every optimiser.
pub static ALL: [&dyn Optimiser; 9] = [
    &Threshold,
    &Exact,
    &Greedy,
    &HillClimbing,
    &Annealing,
    &MothSearch,
    &MothFlame,
    &MonarchButterfly,
    &ElephantHerding,
];
