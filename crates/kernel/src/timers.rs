//! Deadlines of one core, to the nanosecond. The hardware timer is armed only for the earliest,
//! and only when the core sleeps, so a core without deadlines has no timer interrupts.

use alloc::collections::BTreeMap;
use core::task::Waker;

use nile_abi::Instant;

/// Names one armed deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimerId {
    due: Instant,
    // Tells apart deadlines of one moment, and keeps them in the order in which they were set.
    sequence: u64,
}

/// The armed deadlines of one core.
#[derive(Default)]
pub struct Timers {
    armed: BTreeMap<TimerId, Waker>,
    sequence: u64,
}

impl Timers {
    /// Wakes `waker` once, when `due` has come.
    pub fn arm(&mut self, due: Instant, waker: Waker) -> TimerId {
        self.sequence += 1;
        let id = TimerId { due, sequence: self.sequence };
        self.armed.insert(id, waker);
        id
    }

    /// Forgets a deadline; nothing happens if it has fired.
    pub fn cancel(&mut self, id: TimerId) {
        self.armed.remove(&id);
    }

    /// Replaces the waker of a deadline. `false` if it has fired.
    pub fn rewake(&mut self, id: TimerId, waker: &Waker) -> bool {
        match self.armed.get_mut(&id) {
            Some(armed) => {
                armed.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// The earliest deadline.
    pub fn next_due(&self) -> Option<Instant> {
        self.armed.keys().next().map(|id| id.due)
    }

    /// Wakes the next deadline that has come by `now`. `false` if none has.
    pub fn fire_one(&mut self, now: Instant) -> bool {
        match self.next_timer(now) {
            Some(waker) => {
                waker.wake();
                true
            }
            None => false,
        }
    }

    /// Which due timer fires next: the earliest. A policy plugs in here.
    fn next_timer(&mut self, now: Instant) -> Option<Waker> {
        let first = self.armed.first_entry().filter(|entry| entry.key().due <= now)?;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn deadlines_fire_in_order_and_not_before() {
        let mut timers = Timers::default();
        let counts: [Arc<Count>; 3] = Default::default();
        for (count, due) in counts.iter().zip([20, 10, 10]) {
            timers.arm(Instant::from_nanos(due), count.clone().into());
        }
        assert_eq!(timers.next_due(), Some(Instant::from_nanos(10)));
        assert!(!timers.fire_one(Instant::from_nanos(9)));
        assert!(timers.fire_one(Instant::from_nanos(10)));
        assert_eq!(counts[1].0.load(Ordering::Relaxed), 1);
        assert!(timers.fire_one(Instant::from_nanos(10)));
        assert!(!timers.fire_one(Instant::from_nanos(19)));
        assert!(timers.fire_one(Instant::from_nanos(u64::MAX)));
        assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [1, 1, 1]);
        assert_eq!(timers.next_due(), None);
    }

    #[test]
    fn a_cancelled_deadline_does_not_fire() {
        let mut timers = Timers::default();
        let count = Arc::new(Count::default());
        let id = timers.arm(Instant::from_nanos(5), count.clone().into());
        timers.cancel(id);
        assert!(!timers.rewake(id, &count.clone().into()));
        assert!(!timers.fire_one(Instant::from_nanos(5)));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
    }
}
