//! A lock whose waiters put themselves in order while they wait: ShflLock (Kashyap et al., SOSP
//! 2019; FENCE, section 3).
//!
//! ```text
//! line 0          word 0   whose the lock is: 0 31 | no stealing 1 | seat 32
//!                 word 1   whose turn is next: seat 32
//!                 word 2   tickets that were given out
//! a line a seat   word 0   asleep 1 | 0 31 | seat 32 while it waits; else zero
//!                 word 1   its ticket
//!                 word 2   whom it has chosen as the head after it: seat 32
//! ```
//!
//! Whoever finds the lock free takes it. Else it puts its line among those that wait. One of them
//! is the *head*: it alone looks at the lock, while each of the others looks at its own line and
//! at the head's word. Before the head has the lock it has chosen who is head after it, by a
//! [`Policy`], off the path of whoever has the lock (there it is the shuffler). A waiter that has
//! been passed over [`PATIENCE`] times goes first.
//!
//! The original's queue is a linked list. Here it is all lines that wait, because a list has to be
//! mended when one of its waiters dies between two stores, and lines do not: one whose seat is gone
//! is no waiter, and one who is gone is no head. A *holder* who is gone loses the lock to the head,
//! which is told ([`Held::Broken`]) and decides about the data, as of a poisoned lock.
//!
//! Nothing here blocks: a task or package calls [`ShflLock::poll`] until it has the lock, and
//! between two calls it spins, yields or sleeps.

use nile_ring::{LINE_BYTES, Line, Region, Word};

use crate::seat::{Seat, Seats};
use crate::words::{add, exchange, fence, load, store};

/// How often a waiter may be passed over.
pub const PATIENCE: u64 = 64;

const NO_STEALING: u64 = 1 << 32;
const ASLEEP: u64 = 1 << 63;

/// Who of those that wait goes first.
pub trait Policy {
    /// How far a waiter is from whoever chooses; the nearest goes first, and of those the one that
    /// has waited longest.
    fn distance(&self, me: Seat, other: Waiter) -> u32;
}

/// One that waits, as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// Whose line it is.
    pub seat: Seat,
    /// Whether it has to be woken first.
    pub is_asleep: bool,
}

/// In the order of their tickets.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fair;

impl Policy for Fair {
    fn distance(&self, _: Seat, _: Waiter) -> u32 {
        0
    }
}

/// Those first whose group of cores is the chooser's: what they share is in a cache near it.
#[derive(Clone, Copy, Debug)]
pub struct Near<F>(pub F);

impl<F: Fn(u16) -> u32> Policy for Near<F> {
    fn distance(&self, me: Seat, other: Waiter) -> u32 {
        u32::from((self.0)(me.number) != (self.0)(other.seat.number))
    }
}

/// Those first who spin, before those who sleep.
#[derive(Clone, Copy, Default, Debug)]
pub struct Awake;

impl Policy for Awake {
    fn distance(&self, _: Seat, other: Waiter) -> u32 {
        u32::from(other.is_asleep)
    }
}

/// The lock is had, and its last holder has let go of it, or died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "data that a dead core has changed may be half changed"]
pub enum Held {
    /// As it should be.
    Whole,
    /// This seat had it when it died.
    Broken(Seat),
}

/// The lock. Clones name the same.
#[derive(Clone, Debug)]
pub struct ShflLock {
    region: Region,
    seats: Seats,
}

impl ShflLock {
    /// Bytes of the region for this many seats.
    pub const fn region_len(seats: usize) -> usize {
        (1 + seats) * LINE_BYTES
    }

    /// The lock in `region`, which is zeroed memory or holds one; `None` if it is too small for
    /// the seats.
    pub fn attach(region: Region, seats: Seats) -> Option<ShflLock> {
        (region.lines().len() > seats.len()).then_some(ShflLock { region, seats })
    }

    fn holder(&self) -> &Word {
        &self.region.lines()[0][0]
    }

    fn head(&self) -> &Word {
        &self.region.lines()[0][1]
    }

    fn line(&self, seat: Seat) -> &Line {
        &self.region.lines()[1 + usize::from(seat.number)]
    }

    /// Takes the lock, if it is free and no waiter has waited for too long.
    #[inline]
    pub fn try_lock(&self, me: Seat) -> bool {
        exchange(self.holder(), 0, me.bits()).is_ok()
    }

    /// Waits from now on. One that is `asleep` between two calls of [`ShflLock::poll`] is woken
    /// when there is something to do for it.
    pub fn wait(&self, me: Seat, asleep: bool) {
        let line = self.line(me);
        if Seat::of(load(&line[0])) != Some(me) {
            store(&line[1], add(&self.region.lines()[0][2], 1));
            store(&line[2], 0);
        }
        store(&line[0], if asleep { ASLEEP } else { 0 } | me.bits());
        // Either this sees that there is no head, or who leaves that place sees the line.
        fence();
    }

    /// Goes on waiting; what the lock is, if it is had. `wake` wakes a waiter that sleeps.
    pub fn poll(&self, me: Seat, policy: &impl Policy, wake: impl Fn(Seat)) -> Option<Held> {
        let head = load(self.head());
        if head != me.bits() {
            let is_free = Seat::of(head).is_none_or(|head| self.seats.is_gone(head));
            if !is_free || exchange(self.head(), head, me.bits()).is_err() {
                return None;
            }
        }
        let next = &self.line(me)[2];
        if !self.is_waiting(Seat::of(load(next))) {
            store(next, self.choose(me, policy).map_or(0, Seat::bits));
        }
        let held = self.seize(me)?;
        store(&self.line(me)[0], 0);
        self.pass(me, Seat::of(load(next)), wake);
        Some(held)
    }

    fn is_waiting(&self, seat: Option<Seat>) -> bool {
        let waits = |seat| Seat::of(load(&self.line(seat)[0])) == Some(seat);
        seat.is_some_and(|seat| waits(seat) && !self.seats.is_gone(seat))
    }

    /// Takes the lock as the head. If it cannot, whoever has it will look for a head.
    fn seize(&self, me: Seat) -> Option<Held> {
        loop {
            let word = load(self.holder());
            let (new, held) = match Seat::of(word) {
                None => (me.bits(), Some(Held::Whole)),
                Some(it) if self.seats.is_gone(it) => (me.bits(), Some(Held::Broken(it))),
                Some(_) if word & NO_STEALING != 0 => return None,
                Some(_) => (word | NO_STEALING, None),
            };
            if exchange(self.holder(), word, new).is_ok() {
                return held;
            }
        }
    }

    /// The others that wait, each with its ticket.
    fn waiters(&self, me: Seat) -> impl Iterator<Item = (Waiter, u64)> {
        self.region.lines()[1..].iter().filter_map(move |line| {
            let word = load(&line[0]);
            let seat = Seat::of(word).filter(|seat| *seat != me && !self.seats.is_gone(*seat))?;
            Some((Waiter { seat, is_asleep: word & ASLEEP != 0 }, load(&line[1])))
        })
    }

    fn choose(&self, me: Seat, policy: &impl Policy) -> Option<Seat> {
        let given = load(&self.region.lines()[0][2]);
        let rank = |waiter: Waiter, ticket: u64| {
            let is_patient = given.wrapping_sub(ticket) <= PATIENCE;
            (is_patient, if is_patient { policy.distance(me, waiter) } else { 0 }, ticket)
        };
        let first = self.waiters(me).min_by_key(|(waiter, ticket)| rank(*waiter, *ticket));
        first.map(|(waiter, _)| waiter.seat)
    }

    /// Gives the head's place to the next.
    fn pass(&self, me: Seat, next: Option<Seat>, wake: impl Fn(Seat)) {
        store(self.head(), next.map_or(0, Seat::bits));
        // Either this sees who has come or fallen asleep meanwhile, or that one sees the word.
        fence();
        let next = next.or_else(|| {
            let (late, _) = self.waiters(me).next()?;
            exchange(self.head(), 0, late.seat.bits()).is_ok().then_some(late.seat)
        });
        if let Some(next) = next {
            self.wake(next, wake);
        }
    }

    fn wake(&self, seat: Seat, wake: impl Fn(Seat)) {
        if load(&self.line(seat)[0]) & ASLEEP != 0 {
            wake(seat);
        }
    }

    /// Lets go of the lock, and wakes the head if it sleeps.
    #[inline]
    pub fn unlock(&self, me: Seat, wake: impl Fn(Seat)) {
        if exchange(self.holder(), me.bits(), 0).is_err() {
            self.unlock_for_head(me, wake);
        }
    }

    #[cold]
    fn unlock_for_head(&self, me: Seat, wake: impl Fn(Seat)) {
        // Only the head changes the word, once.
        let _ = exchange(self.holder(), NO_STEALING | me.bits(), NO_STEALING);
        fence();
        if let Some(head) = Seat::of(load(self.head())) {
            self.wake(head, wake);
        }
    }
}

#[cfg(test)]
mod tests;
