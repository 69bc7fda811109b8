//! What can end a core's sleep at a moment: one of the machine's timers.

use core::time::Duration;

/// A timer as a machine describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerSource {
    /// Its name, unique on its machine.
    pub name: &'static str,
    /// How late it may be by itself, beside what waking takes. It is never early but for a wait
    /// that is longer than [`longest`](TimerSource::longest).
    pub resolution: Duration,
    /// The longest that it waits at once; a core that waits longer is woken once in a while.
    pub longest: Duration,
    /// What arming it costs, in instructions or as if it were: for comparison, not measured.
    pub cost: u32,
    /// Whether it is the machine's and not each core's: some cores alone have it.
    pub shared: bool,
}

impl TimerSource {
    /// Its resolution in nanoseconds.
    pub fn resolution_nanos(&self) -> u64 {
        u64::try_from(self.resolution.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The longest that it waits at once, in milliseconds.
    pub fn longest_millis(&self) -> u64 {
        u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX)
    }
}
