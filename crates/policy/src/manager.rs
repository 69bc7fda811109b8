//! What whoever schedules offers to whoever binds.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::Poll;

use crate::{Parameters, Refusal, Scheduling, Statistics};

/// A subject as its manager knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubjectState {
    /// Its name.
    pub name: String,
    /// The policy that it is bound to, or `default`.
    pub policy: String,
}

/// Who binds subjects to policies: Dhara's policy manager (IV.A) as others see it. Nothing waits.
pub trait Manager {
    /// The subjects, in the order in which they came.
    fn subjects(&self) -> Vec<SubjectState>;

    /// The policies from the highest global priority to the lowest, the default among them.
    fn policies(&self) -> Vec<Statistics>;

    /// Adds a policy, unless there is one of this name that works.
    fn install(&self, name: &str, priority: i64, policy: Box<dyn Scheduling>);

    /// Binds a subject to a policy that was installed, in one step: it and all that it has ready
    /// leave the one before.
    fn bind(&self, subject: &str, policy: &str, parameters: &Parameters) -> Result<(), Refusal>;

    /// Binds a subject to the default; `false` if it was.
    fn unbind(&self, subject: &str) -> bool;

    /// The next policy that was expelled and that nobody has been told of; pending until there is
    /// one.
    fn poll_expelled(&self, context: &mut core::task::Context<'_>) -> Poll<String>;
}
