//! The policy that every system has, and the type of all of them.

use std::cell::RefCell;
use std::collections::VecDeque;

use nile_stl::{Start, Stl, service};

/// The tasks, as they come to run.
pub struct Even(RefCell<VecDeque<u64>>);

impl Start for Even {
    fn start(_: &Stl) -> Even {
        Even(RefCell::default())
    }
}

/// Tasks run in turns.
#[service(
    subsystem = "processes",
    capability = "dispatching",
    layer = high,
    on = every,
    keywords(interactive = 7, latency = 4),
    attributes(global_priority = 20, preemptive = true),
    type(
        name = "dispatching",
        attributes(global_priority: int in 0..=99, optional order: text in 1..=20),
        parameters(optional local_priority: int in 0..=9),
        state(runnable = 0),
    ),
)]
impl Even {
    /// A task can run, with a priority that its policy may heed.
    #[stl_k(allow(package, operator, peer))]
    fn enqueue(&self, task: u64, priority: u64) {
        // Whoever asks first runs first.
        let _ = priority;
        self.0.borrow_mut().push_back(task);
    }

    /// The task that runs next, and leaves the policy; 0 if it has none.
    #[stl_k(reply = "task", allow(package, operator, peer))]
    fn next(&self) -> u64 {
        self.0.borrow_mut().pop_front().unwrap_or(0)
    }
}
