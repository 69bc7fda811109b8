//! The timers of a simulated core: one that is exact, and one that is coarse, late by what is drawn
//! and unable to wait for long.

use std::time::Duration;

use nile_abi::{CoreId, Instant};
use nile_platform::TimerSource;

use crate::state::State;

/// What every core has; at first the first.
pub(crate) const SOURCES: [TimerSource; 2] = [
    TimerSource {
        name: "simulated",
        resolution: Duration::from_nanos(1),
        longest: Duration::MAX,
        cost: 100,
        shared: false,
    },
    TimerSource {
        name: "coarse",
        resolution: Duration::from_millis(1),
        longest: Duration::from_millis(50),
        cost: 10,
        shared: false,
    },
];

impl State {
    /// When a core that falls asleep now and is to be awake at `due` is woken by its timer.
    pub fn timer_fires(&mut self, core: CoreId, due: Instant) -> Instant {
        let place = self.sources[core.index()];
        if place == 0 {
            return due;
        }
        let TimerSource { resolution, longest, .. } = SOURCES[place];
        let longest = self.time_of(core) + longest;
        if longest < due { longest } else { due + self.draw_span(Duration::ZERO, resolution) }
    }
}
