//! A policy for long jobs that came later than the others: nothing of theirs was edited for it.

use std::cell::RefCell;
use std::collections::VecDeque;

use nile_stl::{Start, Stl, service};

/// The tasks, the oldest first.
pub struct Queued(RefCell<VecDeque<u64>>);

impl Start for Queued {
    fn start(_: &Stl) -> Queued {
        Queued(RefCell::default())
    }
}

/// Tasks run to their ends in the order in which they came.
#[service(
    type = super::even::TYPE,
    keywords(batch = 8, throughput = 6),
    attributes(global_priority = 10, preemptive = false, order = "arrival"),
)]
impl Queued {
    /// A task can run.
    #[stl_k(allow(package, operator, peer))]
    fn enqueue(&self, task: u64, priority: u64) {
        // Whoever asks first runs first.
        let _ = priority;
        self.0.borrow_mut().push_back(task);
    }

    /// The oldest task.
    #[stl_k(reply = "task", allow(package, operator, peer))]
    fn next(&self) -> u64 {
        self.0.borrow_mut().pop_front().unwrap_or(0)
    }

    /// What only this policy has: how many wait.
    #[stl_k(reply = "tasks", allow(package, operator, peer))]
    fn waiting(&self) -> u64 {
        self.0.borrow().len() as u64
    }
}
