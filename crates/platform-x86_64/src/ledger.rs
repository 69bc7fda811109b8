//! What one incarnation of a core leaves to the next: which one it was, when it began, and how
//! many up to it ended soon after their beginning. It is in a private page that a restart leaves
//! alone.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant};

use crate::layout;

/// An incarnation that ends within this time of its beginning has done nothing useful.
const SOON: Duration = Duration::from_millis(500);

/// How often in a row a core may end so before it is left stopped.
pub const MAX_IN_A_ROW: u64 = 8;

/// A core's ledger. All zeros is one without entries.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Ledger {
    generation: AtomicU32,
    began: AtomicU64,
    ended_soon: AtomicU64,
}

impl Ledger {
    /// The ledger of the core that calls this.
    ///
    /// # Safety
    /// The caller runs as `core`, in its own space.
    pub unsafe fn of(core: CoreId) -> &'static Ledger {
        let page = layout::ledger(core).start.0 as *const Ledger;
        // SAFETY: the page is mapped in the core's space for ever, is reached as atomics only,
        // and any bytes are a ledger.
        unsafe { &*page }
    }

    /// An incarnation begins; which one.
    pub fn begin(&self, now: Instant) -> Generation {
        let generation = Generation(self.generation.load(Ordering::Relaxed)).next();
        self.generation.store(generation.0, Ordering::Relaxed);
        self.began.store(now.as_nanos(), Ordering::Relaxed);
        generation
    }

    /// The present incarnation ends in a fault. Whether another one may begin.
    pub fn end(&self, now: Instant) -> bool {
        let began = Instant::from_nanos(self.began.load(Ordering::Relaxed));
        let in_a_row = match now.since(began) < SOON {
            true => self.ended_soon.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.ended_soon.store(in_a_row, Ordering::Relaxed);
        in_a_row <= MAX_IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_keeps_ending_soon_is_stopped_and_a_long_life_forgives() {
        let ledger = Ledger::default();
        assert_eq!(ledger.begin(Instant::START), Generation::FIRST);
        let mut now = Instant::START;
        let mut live = |span: Duration| {
            ledger.begin(now);
            now = now + span;
            ledger.end(now)
        };
        for _ in 0..MAX_IN_A_ROW {
            assert!(live(Duration::from_millis(1)));
        }
        assert!(live(SOON), "it did something");
        for _ in 0..MAX_IN_A_ROW {
            assert!(live(Duration::ZERO));
        }
        assert!(!live(Duration::ZERO));
    }
}
