//! The worked example: Ackermann's function (NileOS paper, Figure 11), once in the kernel and once
//! in user mode.

use nile_abi::Status;
use nile_stl::{CallError, CallResult, Start, Stl, service};

/// Calls of the function that one request may cost: it grows faster than anything.
const MOST_CALLS: u64 = 10_000_000;

/// The service has no state.
pub struct Ackermann;

impl Start for Ackermann {
    fn start(_: &Stl) -> Ackermann {
        Ackermann
    }
}

/// Ackermann's function, as far as anybody wants to wait for it.
#[service(
    subsystem = "examples",
    capability = "arithmetic",
    layer = high,
    on = every,
    keywords(ackermann = 5, recursion = 3, arithmetic = 1)
)]
impl Ackermann {
    /// The function's value, computed in the kernel.
    #[stl_k(allow(package, operator, peer))]
    #[pure]
    fn compute(&self, #[range(0..=3)] m: u64, #[range(0..=100_000)] n: u64) -> CallResult<u64> {
        ackermann(m, n)
    }

    /// The same, computed in user mode without a system call.
    #[stl_u(allow(package, operator, peer))]
    fn estimate(&self, #[range(0..=3)] m: u64, #[range(0..=100_000)] n: u64) -> CallResult<u64> {
        ackermann(m, n)
    }
}

/// The function by its recursion, with a list of what is left to do instead of a stack: `left`
/// holds the first arguments of the calls whose second one is being computed.
fn ackermann(m: u64, n: u64) -> CallResult<u64> {
    let mut left = alloc::vec![m];
    let mut value = n;
    let mut calls = 0;
    while let Some(m) = left.pop() {
        calls += 1;
        if calls > MOST_CALLS {
            return Err(CallError::new(Status::Invalid, "the value takes too long to compute"));
        }
        match (m, value) {
            (0, _) => value += 1,
            (_, 0) => {
                left.push(m - 1);
                value = 1;
            }
            _ => {
                left.push(m - 1);
                left.push(m);
                value -= 1;
            }
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_the_known_ones() {
        for (m, n, value) in [(0, 0, 1), (1, 2, 4), (2, 3, 9), (3, 3, 61)] {
            assert_eq!(ackermann(m, n), Ok(value));
        }
        let error = ackermann(3, 1000).unwrap_err();
        assert_eq!(error.status, Status::Invalid);
    }
}
