//! The processor's own clock.

use core::arch::x86_64::_rdtsc;

/// The time-stamp counter: it counts at a rate of its own, which no one call tells. No system call,
/// and nothing else happens.
#[inline(always)]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and kernels let everybody read it.
    unsafe { _rdtsc() }
}
