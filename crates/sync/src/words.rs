//! Words of shared memory, and the threads that die between two stores to them.
//!
//! Everything that several cores share goes through these functions: a load sees all that came
//! before the store that it sees, and every store and exchange is a place where a test can have
//! its thread die ([`mortal`]).

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use nile_ring::Word;

/// The word's value, after which what was stored before it can be loaded.
#[inline]
pub fn load(word: &Word) -> u64 {
    #[cfg(any(loom, test))]
    if mortal::is_dead() {
        return 0;
    }
    word.load(Acquire)
}

/// Stores a value, and makes what was stored before it visible with it.
#[inline]
pub fn store(word: &Word, value: u64) {
    #[cfg(any(loom, test))]
    if !mortal::lives() {
        return;
    }
    word.store(value, Release);
}

/// A word of data, which an earlier load has found to be there.
#[inline]
pub fn get(word: &Word) -> u64 {
    #[cfg(any(loom, test))]
    if mortal::is_dead() {
        return 0;
    }
    word.load(Relaxed)
}

/// Stores a word of data, which a later store makes visible.
#[inline]
pub fn put(word: &Word, value: u64) {
    #[cfg(any(loom, test))]
    if !mortal::lives() {
        return;
    }
    word.store(value, Relaxed);
}

/// Stores `new` if the word is `old`; else gives what it is.
#[inline]
pub fn exchange(word: &Word, old: u64, new: u64) -> Result<u64, u64> {
    #[cfg(any(loom, test))]
    if !mortal::lives() {
        return Err(!old);
    }
    word.compare_exchange(old, new, AcqRel, Acquire)
}

/// Adds to a word; gives what it was.
#[inline]
pub fn add(word: &Word, more: u64) -> u64 {
    #[cfg(any(loom, test))]
    if !mortal::lives() {
        return 0;
    }
    word.fetch_add(more, AcqRel)
}

/// Orders all that this core did before with all that it does after, as every other core sees it.
#[inline]
pub fn fence() {
    #[cfg(not(loom))]
    core::sync::atomic::fence(SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(SeqCst);
}

/// Threads that die as a core does: between two stores, without a word to anybody.
#[cfg(any(loom, test))]
pub mod mortal {
    extern crate std;

    use core::cell::Cell;
    use std::boxed::Box;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// The stores that a thread has left.
    #[derive(Clone, Copy, PartialEq)]
    enum Life {
        Endless,
        Left(u32),
        Over,
    }

    #[cfg(not(loom))]
    std::thread_local! {
        static LIFE: Cell<Life> = const { Cell::new(Life::Endless) };
    }
    #[cfg(loom)]
    loom::thread_local! {
        static LIFE: Cell<Life> = Cell::new(Life::Endless);
    }

    /// The thread has died.
    #[derive(PartialEq, Debug)]
    pub struct Died;

    /// Runs `act` until its thread has made this many stores and exchanges and comes to another.
    /// What is dropped when it has died changes no word any more.
    pub fn with_stores<T>(stores: u32, act: impl FnOnce() -> T) -> Result<T, Died> {
        LIFE.with(|life| life.set(Life::Left(stores)));
        let end = catch_unwind(AssertUnwindSafe(act));
        LIFE.with(|life| life.set(Life::Endless));
        end.map_err(|why| if why.is::<Died>() { Died } else { resume_unwind(why) })
    }

    pub(super) fn is_dead() -> bool {
        LIFE.with(|life| life.get() == Life::Over)
    }

    /// Whether the thread may store. It dies of the first that it may not.
    pub(super) fn lives() -> bool {
        LIFE.with(|life| match life.get() {
            Life::Endless => true,
            Life::Left(0) => {
                life.set(Life::Over);
                resume_unwind(Box::new(Died))
            }
            Life::Left(left) => {
                life.set(Life::Left(left - 1));
                true
            }
            Life::Over => false,
        })
    }
}

/// Draws for tests that are one seed's.
#[cfg(test)]
pub struct Draws(pub u64);

#[cfg(test)]
impl Draws {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
