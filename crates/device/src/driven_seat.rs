//! A domain's seat as the tasks of its managing core use it: one of them waits for its supervisor,
//! and the core's loop wakes it.

use core::cell::Cell;
use core::task::{Context, Poll};

use nile_sync::Waiter;

use crate::domains::Seat;

/// The seat of a domain, and the task that waits for a knock.
pub struct DrivenSeat {
    seat: Seat,
    heard: Cell<u64>,
    waiter: Waiter,
}

impl DrivenSeat {
    /// A seat that nobody waits at yet. The first to wait is not kept: there may have been a knock.
    pub fn new(seat: Seat) -> DrivenSeat {
        let heard = Cell::new(seat.knocks().wrapping_sub(1));
        DrivenSeat { seat, heard, waiter: Waiter::default() }
    }

    /// Whether a task waits and would be woken.
    pub fn is_ready(&self) -> bool {
        self.waiter.waits() && self.seat.knocks() != self.heard.get()
    }

    /// Wakes the waiting task if there was a knock; whether it did. The core's loop does once a
    /// pass.
    pub fn turn(&self) -> bool {
        self.is_ready() && self.waiter.wake()
    }

    /// Ready when there was a knock since it was last ready; else the task is woken by the next
    /// one. One task waits.
    pub fn poll_knock(&self, context: &mut Context<'_>) -> Poll<()> {
        let knocks = self.seat.knocks();
        if self.heard.replace(knocks) != knocks {
            self.waiter.forget();
            return Poll::Ready(());
        }
        self.waiter.wait(context.waker());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use core::task::Waker;

    use nile_ring::Region;

    use super::*;
    use crate::domains::SEAT_BYTES;

    #[test]
    fn each_knock_is_heard_once_and_one_before_anybody_waits_too() {
        let seat = Seat::new(Region::owned(SEAT_BYTES)).expect("large enough");
        let driven = DrivenSeat::new(seat.clone());
        let mut context = Context::from_waker(Waker::noop());
        assert!(!driven.turn(), "nobody waits");
        assert!(driven.poll_knock(&mut context).is_ready());
        assert!(driven.poll_knock(&mut context).is_pending());
        assert!(!driven.turn());
        seat.knock();
        assert!(driven.is_ready() && driven.turn(), "it is woken");
        assert!(!driven.turn(), "once");
        assert!(driven.poll_knock(&mut context).is_ready());
        assert!(driven.poll_knock(&mut context).is_pending());
    }
}
