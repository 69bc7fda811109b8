//! Time that passes in a package alone.

use core::hint;
use core::time::Duration;

use nile_abi::call::{System, SystemCall};

use crate::cycles;

/// Cycles in which the clock's rate is measured.
const MEASURED: u64 = 1 << 20;

/// Computes for about `span`, or for ever, without a system call: what a test of slow packages
/// does. It asks for the time twice before it begins.
pub fn compute(system: &dyn System, span: Option<Duration>) {
    let Some(span) = span else {
        loop {
            hint::spin_loop();
        }
    };
    let now = || system.call(SystemCall::Now, 0, &[], &mut []).result().unwrap_or_default();
    let begun = now();
    spin(MEASURED);
    let nanos = now().saturating_sub(begun).max(1);
    let cycles = span.as_nanos() * u128::from(MEASURED) / u128::from(nanos);
    spin(u64::try_from(cycles).unwrap_or(u64::MAX));
}

fn spin(span: u64) {
    let begun = cycles();
    while cycles().wrapping_sub(begun) < span {
        hint::spin_loop();
    }
}
