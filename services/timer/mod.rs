//! The timer service: what the timers of a core do (Dhara, IV.C). Waiting is the service `time`.

use alloc::vec::Vec;

use nile_abi::Instant;
use nile_interfaces::timer::{MOST_LISTED, TimerCounts, TimerKernel};
use nile_stl::{CallResult, Start, Stl, service};

/// The core's timers are its state.
pub struct Timer {
    stl: Stl,
}

impl Start for Timer {
    fn start(stl: &Stl) -> Timer {
        Timer { stl: stl.clone() }
    }
}

#[service(on = every, keywords(timer = 5, tolerance = 3, deadline = 2))]
impl TimerKernel for Timer {
    fn counts(&self) -> CallResult<TimerCounts> {
        let timers = self.stl.node()?.timers(0);
        Ok(TimerCounts {
            armed: timers.armed,
            fired: timers.fired,
            coalesced: timers.coalesced,
            waiting: timers.waiting,
            interrupts: timers.interrupts,
            wakes: timers.wakes,
        })
    }

    fn list(&self) -> CallResult<Vec<u64>> {
        let timers = self.stl.node()?.timers(MOST_LISTED);
        Ok(timers.ends.into_iter().map(Instant::as_nanos).collect())
    }
}
