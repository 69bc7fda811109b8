//! First in, first out: what is ready longest runs until it waits. It has the lowest priority of
//! all, for long batches that take what nobody else wants (Dhara, IV.A).

use alloc::collections::VecDeque;

use nile_abi::Instant;

use crate::{Answer, Ready, Scheduling, Token};

/// First in, first out.
#[derive(Default)]
pub struct Fifo(VecDeque<Token>);

impl Fifo {
    /// Its global priority.
    pub const PRIORITY: i64 = 10;
}

impl Scheduling for Fifo {
    fn enqueue(&mut self, it: &Ready) {
        self.0.push_back(it.token);
    }

    fn dequeue(&mut self, it: &Ready) {
        self.0.retain(|token| *token != it.token);
    }

    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.0.pop_front().map(|token| Answer::Run(token, None))
    }
}
