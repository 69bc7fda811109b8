//! Which core of a node does what (NileOS paper, V: roles that change at run time, by optimisers
//! that are plugged in as services).
//!
//! * [`Load`]: what is measured of a core, and from that, [`demand`]: what is asked of each role.
//! * [`Problem`]: the cores with their speeds and what each may be, and the [`Cost`] of an
//!   assignment.
//! * [`Search`]: what an optimiser may spend and has found. It never holds an assignment that is
//!   not legal, or that is worse than staying put.
//! * [`Optimiser`] and the list of them, [`ALL`]: a rule, an exact one, three plain searches, and
//!   the four that the paper names.
//! * [`Damped`]: the hysteresis of the mechanism, which no optimiser can get around.
//!
//! All of it is numbers: the same problem, budget and seed give the same answer on every machine.
//! Nothing here knows a kernel; whoever moves a core's roles is told which.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod damped;
mod load;
pub mod optimisers;
mod problem;
mod random;
mod search;

pub use damped::{Damped, HOLD, MOST_QUIET, QUIET, Question, REVERSAL};
pub use load::{Load, demand};
pub use optimisers::ALL;
pub use problem::{Core, Cost, MENU, MOST_CORES, PerRole, Problem, Tally, Unfit};
pub use random::Random;
pub use search::{Answer, Optimiser, Search, Spent, choose};

#[cfg(test)]
mod tests;
