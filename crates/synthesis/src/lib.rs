//! Automatic composition (Dhara, I and III.B): from the values that somebody has to the values that
//! they want, by methods of services, with the best quality. Sans-IO: it is told which methods
//! there are and how good, and gives a plan, which is an ordinary
//! [`Composition`](nile_registry::Composition).
//!
//! A *value* is known by what it means and by its type. A *method* leads from a set of values to a
//! set of values; only *pure* ones are taken, since a plan may call them in any order, twice, or
//! for nothing. How long a value takes is the greatest of what its method takes, plus the method:
//! a *superior function*, so Knuth's generalization of Dijkstra's algorithm finds the least in one
//! pass (A Generalization of Dijkstra's Algorithm, 1977). The throughput of a plan is the least of
//! its parts, so the greatest that is possible is found by leaving out the slowest ones.
//!
//! * [`goal`]: what is given, wanted and allowed, and what there is.
//! * `graph`: values and methods by numbers, and the quickest way to each.
//! * [`plan`]: the plan, and its composition.
//! * [`error`]: why there is none.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod error;
pub mod goal;
mod graph;
pub mod plan;

#[cfg(test)]
mod tests;

pub use error::SynthesisError;
pub use goal::{Goal, Objective, Offer, Quality, Value};
pub use plan::{Plan, Step, synthesize};
