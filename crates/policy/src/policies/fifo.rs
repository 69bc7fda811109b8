//! First in, first out: what is ready longest runs until it waits. It has the lowest priority of
//! all, for long batches that take what nobody else wants (Dhara, IV.A).

use nile_abi::Instant;

use crate::{Answer, Ready, Scheduling};

/// First in, first out: the mechanism's own order, so that there is nothing to hold or to ask.
#[derive(Default)]
pub struct Fifo;

impl Fifo {
    /// Its global priority.
    pub const PRIORITY: i64 = 10;
}

impl Scheduling for Fifo {
    fn is_by_age(&self) -> bool {
        true
    }

    fn enqueue(&mut self, _: &Ready) {}

    fn dequeue(&mut self, _: &Ready) {}

    fn next(&mut self, _: Instant) -> Option<Answer> {
        None
    }
}
