//! A request to the processor's cache.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::ptr;

/// Has the processor bring the cache line that `byte` is in, and does not wait for it. Nothing
/// changes but the time until it is read.
#[inline(always)]
pub fn prefetch(byte: &u8) {
    // SAFETY: it reads nothing that a program could see, and fails for no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(byte).cast()) }
}
