//! The receiving end of a channel as the loop sees it: polled once a pass while a task waits.

use core::cell::{Cell, RefCell};
use core::task::Waker;

use nile_abi::Status;
use nile_ring::{Message, ReceiveError, Receiver};
use nile_sync::Waiter;

/// A receiver and the task that waits for it.
pub struct Input {
    receiver: RefCell<Receiver>,
    waiter: Waiter,
    closed: Cell<bool>,
}

impl Input {
    /// An input that nobody waits for yet.
    pub fn new(receiver: Receiver) -> Input {
        Input {
            receiver: RefCell::new(receiver),
            waiter: Waiter::default(),
            closed: Cell::new(false),
        }
    }

    /// Whether a task waits and would be woken.
    pub fn is_ready(&self) -> bool {
        self.waiter.waits() && (self.closed.get() || self.receiver.borrow().is_ready())
    }

    /// Wakes the waiting task if there is something for it; whether it did.
    pub fn wake_if_ready(&self) -> bool {
        self.is_ready() && self.waiter.wake()
    }

    /// Wakes `waiter` once a message comes or the channel closes.
    pub fn wait(&self, waiter: &Waker) {
        self.waiter.wait(waiter);
    }

    /// The sender is gone: what is in the ring is still delivered, then [`Status::Dead`].
    pub fn close(&self) {
        self.closed.set(true);
    }

    /// The next message; `Ok(None)` when there is none yet. Messages for another incarnation and
    /// corrupt cells are dropped: whoever waits for their answer learns [`Status::Dead`] from the
    /// management core.
    pub fn try_receive(&self) -> Result<Option<Message>, Status> {
        loop {
            match self.receiver.borrow_mut().try_recv() {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) if self.closed.get() => return Err(Status::Dead),
                Ok(None) => return Ok(None),
                Err(ReceiveError::Stale(_) | ReceiveError::Corrupt) => {}
            }
        }
    }
}
