//! A service whose methods cost what is known.

use nile_bosml::{Blob, Bytes};
use nile_stl::{Start, Stl, service};

/// Steps of the work: with them it takes about 2,000 instructions, what Dhara gives for one context
/// switch (Dhara, III.F).
const STEPS: u32 = 204;

/// The service has no state.
pub struct Costed;

impl Start for Costed {
    fn start(_: &Stl) -> Costed {
        Costed
    }
}

/// What measurements call.
#[service(subsystem = "tests", capability = "costing", layer = high, on = every)]
impl Costed {
    /// Does nothing.
    #[stl_k(allow(package, operator, peer))]
    fn nothing(&self) {}

    /// The work of a context switch.
    #[stl_k(allow(package, operator, peer))]
    fn work(&self, seed: u64) -> u64 {
        work(seed)
    }

    /// Gives back what it gets.
    #[stl_k(reply = "data", allow(package, operator, peer))]
    fn echo(&self, data: Bytes<'_>) -> Blob {
        data.into()
    }
}

/// The work itself: each step waits for the one before it (xorshift).
#[inline(never)]
pub fn work(seed: u64) -> u64 {
    (0..STEPS).fold(seed, |mut state, _| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^ state << 17
    })
}
