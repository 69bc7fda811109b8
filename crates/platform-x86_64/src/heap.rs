//! The heap of a core. Its state is a private static like any other: every core has its own, and
//! an incarnation starts with a fresh one.

use core::alloc::{GlobalAlloc, Layout};

use spinning_top::RawSpinlock;
use talc::{TalcLock, source::Manual};

/// Never contended: only this core sees it, and interrupt handlers do not allocate.
static HEAP: TalcLock<RawSpinlock, Manual> = TalcLock::new(Manual);

/// The global allocator of an image: this core's private heap.
pub struct PrivateHeap;

// SAFETY: both methods are the inner allocator's, which keeps the contract.
unsafe impl GlobalAlloc for PrivateHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { HEAP.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { HEAP.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { HEAP.realloc(pointer, layout, bytes) }
    }
}

/// Gives the heap its memory. It needs no particular content.
///
/// # Safety
/// The range is mapped, writable and used by nothing else as long as this incarnation lives.
pub(crate) unsafe fn claim(start: *mut u8, bytes: usize) {
    // SAFETY: the caller gives the range away. A range too small to be of use is left alone, and
    // the first allocation fails.
    unsafe { HEAP.lock().claim(start, bytes) };
}
