//! The packages of a core that wait for their next turn. Each makes way for the loop's pass first,
//! and is a task that is ready afterwards: which of them is next the executor says.
//!
//! What waits for a turn is no reason for another package to end its own before its slice is over,
//! unlike everything else that is ready; so these are counted apart.

use core::cell::Cell;

use nile_sync::Notify;

/// The packages of one core that wait for a turn.
#[derive(Default)]
pub(crate) struct Queue {
    /// Those for which no pass has begun.
    asleep: Cell<usize>,
    /// Those that are ready.
    awake: Cell<usize>,
    /// How many passes have begun.
    pass: Cell<u64>,
    passes: Notify,
}

impl Queue {
    /// Waits until the loop has begun another pass, and then for the turn. Who is woken before, by
    /// what an earlier call of the package waited for, goes on to wait.
    pub async fn turn(&self) {
        self.asleep.set(self.asleep.get() + 1);
        let before = self.pass.get();
        self.passes.until(|| (self.pass.get() != before).then_some(())).await;
        self.awake.set(self.awake.get() - 1);
    }

    /// The loop begins a pass. Whether any package waited for that.
    pub fn wake(&self) -> bool {
        self.awake.set(self.awake.get() + self.asleep.take());
        self.pass.set(self.pass.get() + 1);
        self.passes.notify()
    }

    /// Whether a package waits that has yet to become ready.
    pub fn waits(&self) -> bool {
        self.asleep.get() > 0
    }

    /// How many of the core's ready tasks are packages that wait.
    pub fn ready(&self) -> usize {
        self.awake.get()
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::{Context, Waker};

    use super::*;

    #[test]
    fn who_waits_is_ready_with_the_next_pass_and_counted_until_its_turn() {
        let queue = Queue::default();
        let context = &mut Context::from_waker(Waker::noop());
        assert!(!queue.wake());
        let (mut one, mut other) = (pin!(queue.turn()), pin!(queue.turn()));
        assert!(one.as_mut().poll(context).is_pending());
        assert!(other.as_mut().poll(context).is_pending());
        assert!(other.as_mut().poll(context).is_pending(), "it is woken by something else");
        assert_eq!((queue.waits(), queue.ready()), (true, 0));
        assert!(queue.wake());
        assert_eq!((queue.waits(), queue.ready()), (false, 2));
        assert!(one.as_mut().poll(context).is_ready());
        assert_eq!((queue.waits(), queue.ready()), (false, 1));
        assert!(other.as_mut().poll(context).is_ready());
        assert_eq!((queue.waits(), queue.ready()), (false, 0));
    }
}
