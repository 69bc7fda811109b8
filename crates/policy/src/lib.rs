//! Policies as services (Dhara, III and IV.A): a policy decides, a mechanism does.
//!
//! * [`Scheduling`]: what a scheduling policy is told, and what it answers.
//! * [`Scheduler`]: the mechanism. It owns whatever is ready, asks the policies in the order of
//!   their global priorities, and goes on when a policy answers wrong, or not at all.
//! * [`Expelled`]: why a policy was, and what it decided last.
//! * [`Manager`]: who binds subjects to policies on a core, or wherever else there are some.
//! * [`policies`]: real time, earliest deadline, fair, and first in first out; and one whose order
//!   somebody else makes, ahead.
//!
//! Nothing here knows a kernel: a core's executor schedules tasks by it, a cluster's `job` service
//! gives out workers by it, and a simulation runs either.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod class;
mod expelled;
mod manager;
mod parameters;
pub mod policies;
mod scheduler;
mod scheduling;
mod turn;

pub use class::{ClassId, GUARD, SLICE, Statistics, usual_slice};
pub use expelled::{Decision, Expelled, Expulsion, MOST_DECISIONS};
pub use manager::{Manager, SubjectState};
pub use parameters::{Parameter, Parameters, Refusal};
pub use scheduler::{DEFAULT_PRIORITY, Scheduler};
pub use scheduling::{Answer, Ran, Ready, Scheduling, Stop, Subject, Token};
pub use turn::{Next, Picked, Turn};

#[cfg(test)]
mod tests;
