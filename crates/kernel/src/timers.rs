//! Timers of one core, to the nanosecond. The hardware timer is armed only for the earliest end of
//! a window, and only when the core sleeps, so a core without timers has no timer interrupts.
//!
//! A timer is a [`Window`]. The core wakes at the smallest `until`, and whenever it is awake it
//! fires all timers whose `from` has come: for windows that are known in advance no other rule
//! wakes a core less often (docs/book/timers.md). Those that are found together fire in the order
//! of their subjects' priority, then of their ends. What is found later fires behind all of them,
//! so that no priority starves another.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::task::Waker;

use nile_abi::{Instant, Window};

/// Names one armed timer: the end of its window, and what tells it apart from others that end then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimerId {
    until: Instant,
    // Keeps the order in which timers were armed.
    number: u64,
}

/// A timer that has slack or a priority: the one that begins first is next.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Early {
    from: Instant,
    id: TimerId,
    priority: u32,
}

/// A timer whose window has begun: the highest is next.
type Due = (u32, Reverse<TimerId>);

/// What the timers of a core have done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Timers that were armed.
    pub armed: u64,
    /// Those that fired; the others were cancelled, or wait.
    pub fired: u64,
    /// Those that wait.
    pub waiting: u64,
    /// Those that fired before their window's end: they needed no wake of their own.
    pub coalesced: u64,
}

/// The armed timers of one core.
pub struct Timers {
    /// All of them, by the ends of their windows.
    armed: BTreeMap<TimerId, Waker>,
    /// Those whose beginning is not the end or that have a priority, until they are due. Their
    /// numbers are odd. Some may have been cancelled.
    early: BinaryHeap<Reverse<Early>>,
    /// How many of these there may be before it is looked which have been cancelled.
    room: usize,
    /// What was found due and has neither fired nor, perhaps, been cancelled.
    due: BinaryHeap<Due>,
    /// How far the clock has to be for anything in `early` or `due` to fire; the end of time if
    /// there is nothing.
    begins: Instant,
    /// Of the last timer, but for the lowest bit, which says that one was entered in `early`.
    number: u64,
    cancelled: u64,
    coalesced: u64,
}

const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Cancelled timers that are kept at most, beside as many as there are that wait.
const ROOM: usize = 64;

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            armed: BTreeMap::new(),
            early: BinaryHeap::new(),
            room: ROOM,
            due: BinaryHeap::new(),
            begins: NEVER,
            number: 0,
            cancelled: 0,
            coalesced: 0,
        }
    }
}

impl Timers {
    /// Wakes `waker` once, in this window. Higher priorities fire first.
    pub fn arm(&mut self, window: Window, priority: u32, waker: Waker) -> TimerId {
        self.number += 2;
        let mut id = TimerId { until: window.until(), number: self.number };
        if window.from() != id.until || priority > 0 {
            id.number |= 1;
            self.enter_early(Early { from: window.from(), id, priority });
        }
        self.armed.insert(id, waker);
        id
    }

    #[cold]
    fn enter_early(&mut self, it: Early) {
        if self.early.len() >= self.room {
            let mut early = core::mem::take(&mut self.early);
            early.retain(|Reverse(it)| self.find(it.id).is_some());
            self.room = 2 * early.len() + ROOM;
            self.early = early;
        }
        self.begins = self.begins.min(it.from);
        self.early.push(Reverse(it));
    }

    // These two are called, so that what arms and fires exact timers is in line.
    #[inline(never)]
    fn find(&mut self, id: TimerId) -> Option<&mut Waker> {
        self.armed.get_mut(&id)
    }

    #[inline(never)]
    fn take(&mut self, id: TimerId) -> Option<Waker> {
        self.armed.remove(&id)
    }

    /// Forgets a timer; nothing happens if it has fired.
    pub fn cancel(&mut self, id: TimerId) {
        self.cancelled += u64::from(self.take(id).is_some());
    }

    /// Replaces the waker of a timer. `false` if it has fired.
    pub fn rewake(&mut self, id: TimerId, waker: &Waker) -> bool {
        match self.find(id) {
            Some(armed) => {
                armed.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// The earliest end of a window: when the core has to be awake.
    pub fn next_due(&self) -> Option<Instant> {
        self.armed.keys().next().map(|id| id.until)
    }

    /// Fires the next timer whose window has begun by `now`. `false` if there is none.
    pub fn fire_one(&mut self, now: Instant) -> bool {
        let next = match self.begins <= now {
            true => self.next_in_order(now),
            false => self.next_exact(now),
        };
        match next {
            Some(waker) => {
                waker.wake();
                true
            }
            None => false,
        }
    }

    /// The next of those that are due at once and have no slack.
    fn next_exact(&mut self, now: Instant) -> Option<Waker> {
        let first = self.armed.first_entry().filter(|entry| entry.key().until <= now)?;
        Some(first.remove())
    }

    /// The next of those that were found together, among which there may be some with slack.
    #[cold]
    fn next_in_order(&mut self, now: Instant) -> Option<Waker> {
        if self.due.is_empty() {
            self.find_due(now);
        }
        let mut found = None;
        while found.is_none()
            && let Some((_, Reverse(id))) = self.due.pop()
        {
            // Else it was cancelled meanwhile.
            found = self.take(id).map(|waker| (id, waker));
        }
        if self.due.is_empty() {
            // Until then, all that is due was in there.
            self.begins = self.early.peek().map_or(NEVER, |Reverse(first)| first.from);
        }
        match found {
            Some((id, waker)) => {
                self.coalesced += u64::from(now < id.until);
                Some(waker)
            }
            None => self.next_exact(now),
        }
    }

    fn find_due(&mut self, now: Instant) {
        let exact = self.armed.keys().take_while(|id| id.until <= now);
        self.due.extend(exact.filter(|id| id.number & 1 == 0).map(|id| (0, Reverse(*id))));
        while self.early.peek().is_some_and(|Reverse(first)| first.from <= now) {
            if let Some(Reverse(first)) = self.early.pop() {
                self.due.push((first.priority, Reverse(first.id)));
            }
        }
    }

    /// What they have done so far.
    pub fn counts(&self) -> Counts {
        let (armed, waiting) = (self.number / 2, self.armed.len() as u64);
        let fired = armed - waiting - self.cancelled;
        Counts { armed, fired, waiting, coalesced: self.coalesced }
    }

    /// The ends of the windows of those that are armed, the earliest first, at most so many.
    pub fn ends(&self, most: usize) -> Vec<Instant> {
        self.armed.keys().take(most).map(|id| id.until).collect()
    }
}

#[cfg(test)]
mod tests;
