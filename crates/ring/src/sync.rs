//! The atomics that this crate is built on: the machine's, or loom's when a model runs.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use self::model::AtomicU64;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{Ordering, fence};

/// A release store to a word that several threads store to, after which a thread that sees a
/// *later* store to the word also sees what came before this one.
///
/// The machines that NileOS runs on (x86, and ARMv8 and RISC-V would too) give that without an
/// instruction, because a store reaches all other cores at once. The language's memory model,
/// which loom follows, gives it only if the later store is an exchange, so in a model it is one.
#[inline]
pub(crate) fn store_in_turn(word: &AtomicU64, value: u64) {
    #[cfg(not(loom))]
    word.store(value, Ordering::Release);
    #[cfg(loom)]
    word.swap(value, Ordering::Release);
}

#[cfg(loom)]
mod model {
    use super::Ordering;
    use loom::sync::atomic;

    /// loom's atomic, with every access made to depend on every other.
    ///
    /// loom 0.7 remembers only the last access to an atomic when it looks for other orders to
    /// try. A thread that loads and then stores hides the loads of others before it, and their
    /// order with that store is never tried. An exchange of nothing before each access, which
    /// depends on all accesses and synchronises nothing, gives those orders back.
    #[derive(Debug)]
    pub struct AtomicU64 {
        value: atomic::AtomicU64,
        turn: atomic::AtomicBool,
    }

    impl AtomicU64 {
        pub fn new(value: u64) -> AtomicU64 {
            AtomicU64 { value: atomic::AtomicU64::new(value), turn: atomic::AtomicBool::new(false) }
        }

        fn turn(&self) -> &atomic::AtomicU64 {
            self.turn.swap(false, Ordering::Relaxed);
            &self.value
        }

        pub fn load(&self, order: Ordering) -> u64 {
            self.turn().load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            self.turn().store(value, order);
        }

        pub fn swap(&self, value: u64, order: Ordering) -> u64 {
            self.turn().swap(value, order)
        }

        pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.turn().fetch_add(value, order)
        }

        pub fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            self.turn().compare_exchange(current, new, success, failure)
        }
    }
}
