//! Composites that keep a promise (Dhara, I and VI): a program says which values it has and which
//! it wants, and gets something to call. The plan is made of what the node's registry knows of
//! instances and how they were found to serve; when a part fails, or the whole is slower than
//! promised for some calls, it is planned anew over what is there then. Calls go on meanwhile: one
//! whose part failed is made again by the new plan, which is right since all parts are pure.
//!
//! * [`contract`]: what is promised, and when a latency counts as broken; `pace`: when a throughput
//!   does.
//! * `offers`: what there is to plan with.
//! * [`synthesized`]: a plan that is carried out and watched; `published`: as a service of its own.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod contract;
mod offers;
mod pace;
mod published;
pub mod synthesized;

use alloc::rc::Rc;

use nile_stl::{CallResult, LocalFuture, Stl};
use nile_synthesis::Goal;

pub use contract::Contract;
pub use synthesized::{Part, Synthesized};

/// Plans for programs.
pub trait Synthesize {
    /// The best composite for a goal, under this name, by pure methods that the caller may call.
    /// Fails with `NotFound` (no plan), `Invalid` (the goal), or as calls of the registry and of
    /// what is asked for its schema.
    fn synthesize(
        &self,
        name: &str,
        goal: Goal,
    ) -> LocalFuture<'static, CallResult<Rc<Synthesized>>>;
}

impl Synthesize for Stl {
    fn synthesize(
        &self,
        name: &str,
        goal: Goal,
    ) -> LocalFuture<'static, CallResult<Rc<Synthesized>>> {
        Synthesized::plan(self.clone(), name.into(), goal)
    }
}
