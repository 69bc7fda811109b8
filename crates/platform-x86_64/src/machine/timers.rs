//! What can end a core's sleep.

use core::time::Duration;

use nile_platform::TimerSource;

use super::Core;
use crate::timer::Source;
use crate::timer::shared::{LEAST_COUNTS, MOST_COUNTS, PIT_HERTZ};

impl Core {
    /// The timers that it has.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Source, TimerSource)> + use<> {
        let (node, counts) = (self.node, Duration::from_nanos);
        let (resolution, longest) = node.clock.timer_grain();
        let exact = node.features.tsc_deadline;
        let (name, cost) = if exact { ("tsc_deadline", 100) } else { ("apic", 200) };
        let local = TimerSource { name, resolution, longest, cost, shared: false };
        let (least, most) = (u64::from(LEAST_COUNTS), u64::from(MOST_COUNTS));
        let hpet = TimerSource {
            name: "hpet",
            resolution: counts(least * node.timers.femtos / 1_000_000 + 1),
            longest: counts(node.timers.femtos / 1_000 * most / 1_000),
            cost: 2_000,
            shared: true,
        };
        let pit = TimerSource {
            name: "pit",
            resolution: counts(1_000_000_000 / PIT_HERTZ + 1),
            longest: counts(u64::from(u16::MAX) * 1_000_000_000 / PIT_HERTZ),
            cost: 4_000,
            shared: true,
        };
        let hpet = node.timers.has_comparator(self.id).then_some((Source::Hpet, hpet));
        let pit =
            (node.timers.pit && self.id == nile_abi::CoreId::BOOT).then_some((Source::Pit, pit));
        [Some((Source::Local, local)), hpet, pit].into_iter().flatten()
    }
}
