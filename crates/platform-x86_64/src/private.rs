//! Statics of which each core has its own copy.
//!
//! Every writable static is private to its core: the page tables of each core point the range of
//! `.data` and `.bss` at frames of its own. So no other core ever sees one; what is left to keep
//! apart is a core's own running code from its own interrupt handlers.

use core::cell::UnsafeCell;

use crate::privileged;

/// A value in a private static. It is copied out and in with interrupts masked, so that a handler
/// sees it before or after a change. Faults and NMIs are not masked: what they read is only set
/// while a core starts.
pub struct Private<T>(UnsafeCell<T>);

// SAFETY: a static of this type exists once per core and only that core can reach its copy; on
// one core, accesses do not overlap, see the type's description.
unsafe impl<T: Send> Sync for Private<T> {}

impl<T> Private<T> {
    /// A static's first value.
    pub const fn new(value: T) -> Private<T> {
        Private(UnsafeCell::new(value))
    }

    /// Where this core's copy is.
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Copy> Private<T> {
    /// This core's value.
    pub fn get(&self) -> T {
        // SAFETY: this core's copy, and no handler of it runs meanwhile.
        privileged::without_interrupts(|| unsafe { *self.0.get() })
    }

    /// Replaces this core's value.
    pub fn set(&self, value: T) {
        // SAFETY: as in `get`.
        privileged::without_interrupts(|| unsafe { *self.0.get() = value });
    }
}
