//! A core as whoever binds its subjects to policies sees it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll};

use nile_platform::Machine;
use nile_policy::{Manager, Parameters, Refusal, Scheduling, Statistics, SubjectState};

use super::host::CoreHost;

impl<M: Machine> Manager for CoreHost<M> {
    fn subjects(&self) -> Vec<SubjectState> {
        self.0.executor.subjects()
    }

    fn policies(&self) -> Vec<Statistics> {
        self.0.executor.policies()
    }

    fn install(&self, name: &str, priority: i64, policy: Box<dyn Scheduling>) {
        self.0.executor.install(name, priority, policy);
    }

    fn bind(&self, subject: &str, policy: &str, parameters: &Parameters) -> Result<(), Refusal> {
        self.0.executor.bind(subject, policy, parameters, self.0.now())
    }

    fn unbind(&self, subject: &str) -> bool {
        self.0.executor.unbind(subject)
    }

    fn poll_expelled(&self, context: &mut Context<'_>) -> Poll<String> {
        self.0.executor.poll_expelled(context)
    }
}
