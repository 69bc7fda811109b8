//! A policy for tasks with deadlines.

use std::cell::RefCell;
use std::collections::BTreeSet;

use nile_stl::{Start, Stl, service};

/// The tasks, each after its priority.
pub struct Urgent(RefCell<BTreeSet<(u64, u64)>>);

impl Start for Urgent {
    fn start(_: &Stl) -> Urgent {
        Urgent(RefCell::default())
    }
}

/// The task of the highest priority runs.
#[service(
    type = super::even::TYPE,
    keywords(realtime = 9, latency = 5),
    attributes(global_priority = 30, preemptive = true, order = "priority"),
)]
impl Urgent {
    /// A task can run.
    #[stl_k(allow(package, operator, peer))]
    fn enqueue(&self, task: u64, priority: u64) {
        self.0.borrow_mut().insert((priority, task));
    }

    /// The task of the highest priority.
    #[stl_k(reply = "task", allow(package, operator, peer))]
    fn next(&self) -> u64 {
        self.0.borrow_mut().pop_last().map_or(0, |(_, task)| task)
    }
}
