//! The stacks of threads: memory from the package's heap, with a canary at the far end.
//!
//! A package cannot take a page from its own address space, so there is no guard page. The canary
//! is looked at whenever a thread gives the core away; a thread that has run over it ends the
//! package. What it wrote beyond until then is the package's own memory and nobody else's.

use core::alloc::Layout;
use core::num::NonZeroUsize;
use core::ptr::NonNull;

use alloc::alloc::{alloc, dealloc, handle_alloc_error};
use corosensei::stack::{MIN_STACK_SIZE, STACK_ALIGNMENT, Stack, StackPointer};

/// What a stack has at its far end, and nobody writes by chance.
const CANARY: u64 = 0x5c3a_91e4_27bd_806f;

/// Words of the canary: one line.
const CANARY_WORDS: usize = 8;

/// A thread's stack.
pub(super) struct HeapStack {
    base: NonNull<u8>,
    layout: Layout,
}

impl HeapStack {
    /// A stack of at least `bytes` bytes, at most `isize::MAX`. Without memory for it, what
    /// becomes of the package is up to its allocation error handler.
    pub fn new(bytes: usize) -> HeapStack {
        let bytes = bytes.clamp(MIN_STACK_SIZE, isize::MAX as usize / 2);
        let bytes = (bytes + 8 * CANARY_WORDS).next_multiple_of(STACK_ALIGNMENT);
        let layout = Layout::from_size_align(bytes, STACK_ALIGNMENT.max(64))
            .expect("the size is bounded above");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc(layout) });
        let stack = HeapStack { base: base.unwrap_or_else(|| handle_alloc_error(layout)), layout };
        for word in 0..CANARY_WORDS {
            // SAFETY: the far end of the memory just allocated, which is aligned for words.
            unsafe { stack.base.cast::<u64>().add(word).write(CANARY) };
        }
        stack
    }

    /// What is at the stack's far end.
    pub fn canary(&self) -> Canary {
        Canary(self.base.cast())
    }
}

/// The far end of a stack.
#[derive(Clone, Copy)]
pub(super) struct Canary(NonNull<u64>);

impl Canary {
    /// Whether nobody has run over the stack's end, as far as the canary knows.
    ///
    /// # Safety
    /// The stack still exists.
    pub unsafe fn is_alive(self) -> bool {
        (0..CANARY_WORDS).all(|word| {
            // SAFETY: written by `HeapStack::new`. Volatile, because a runaway thread's stores are
            // not this code's.
            unsafe { self.0.add(word).read_volatile() == CANARY }
        })
    }

    /// What a thread does that runs over its stack's end.
    ///
    /// # Safety
    /// As above.
    #[cfg(test)]
    pub unsafe fn kill(self) {
        // SAFETY: the canary's last word, the one nearest to the stack.
        unsafe { self.0.add(CANARY_WORDS - 1).write(0) }
    }
}

// SAFETY: the memory is the stack's alone, aligned, and large enough. The guard page that is asked
// for cannot be had here; the canary stands for it, as the module says.
unsafe impl Stack for HeapStack {
    fn base(&self) -> StackPointer {
        self.limit().saturating_add(self.layout.size())
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::from(self.base.addr())
    }
}

impl Drop for HeapStack {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and the thread that ran on it is gone.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_aligned_and_tells_when_it_is_run_over() {
        let stack = HeapStack::new(5000);
        assert!(stack.base().get().is_multiple_of(STACK_ALIGNMENT));
        assert!(stack.limit().get().is_multiple_of(STACK_ALIGNMENT));
        assert!(stack.base().get() - stack.limit().get() >= 5000 + 8 * CANARY_WORDS);
        // SAFETY: the stack exists.
        unsafe {
            assert!(stack.canary().is_alive());
            stack.canary().kill();
            assert!(!stack.canary().is_alive());
        }
    }
}
