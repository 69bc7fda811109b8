//! The kernel as a machine sees it that calls the loop instead of being called by it: the
//! simulator steps every core's loop in one thread.

use nile_abi::Instant;

use crate::Outcome;

/// What one pass of a core's loop came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There may be more to do at once.
    Busy,
    /// Nothing to do until the doorbell is rung or the given moment comes. Whoever puts the core
    /// to sleep prepares its doorbell first and then asks [`Loop::has_work`] once more.
    Idle(Option<Instant>),
    /// The loop has ended.
    Stopped(Outcome),
}

/// A core's loop.
pub trait Loop {
    /// One pass: drain channels, poll ready tasks, fire due timers. Never blocks.
    fn turn(&mut self) -> Turn;

    /// Whether a turn would find something to do now.
    fn has_work(&self) -> bool;

    /// The same of what is not the turns of packages.
    fn is_waited_for(&self) -> bool {
        self.has_work()
    }
}
