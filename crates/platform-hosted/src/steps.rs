//! How long each step of the start takes, without gaps from the first to the last.

use nile_platform::Step;

use crate::clock::Clock;

/// The steps so far; the clock that measures them is the node's.
pub(crate) struct Steps {
    clock: Clock,
    done: Vec<Step>,
}

impl Steps {
    /// Begins the first step, and the node's time with it.
    pub fn begin() -> Steps {
        Steps { clock: Clock::start(), done: Vec::new() }
    }

    /// The node's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends a step and begins the next.
    pub fn done(&mut self, name: &'static str) {
        let before: u64 = self.done.iter().map(|step| step.micros).sum();
        let now = self.clock.now().as_nanos() / 1000;
        self.done.push(Step { name, micros: now.saturating_sub(before) });
    }

    /// The steps, in order.
    pub fn finish(self) -> Vec<Step> {
        self.done
    }
}
