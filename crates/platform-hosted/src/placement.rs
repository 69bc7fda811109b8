//! Which CPU runs which core: each core is pinned to one, in turn over those that the node may
//! use, so that two cores that talk are not moved about under a measurement.

use std::num::NonZero;

use nile_abi::CoreId;
use nile_platform::Board;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use crate::machine::is_isolated;

/// The CPUs that the calling thread may use, in rising order; none where Linux does not say.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The one of `cpus` that `core` runs on, if there is any.
pub(crate) fn cpu_of(core: CoreId, cpus: &[usize]) -> Option<usize> {
    cpus.get(core.index().checked_rem(cpus.len())?).copied()
}

/// Makes the calling thread that of `core`: on its CPU, and with timers that do not wait for
/// others (Linux would let a sleep run 50 µs over). Where Linux refuses, the core runs anywhere
/// and wakes a little later.
pub(crate) fn settle(core: CoreId, cpus: &[usize]) {
    if let Some(cpu) = cpu_of(core, cpus) {
        let mut set = CpuSet::new();
        set.set(cpu);
        let _ = sched_setaffinity(Some(gettid()), &set);
    }
    let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
}

/// The placement of all cores, as a line for the boot report.
pub(crate) fn describe(board: &Board, cpus: &[usize]) -> String {
    let place = |core| {
        let kind = if is_isolated(board.record(core).roles()) { "process" } else { "thread" };
        match cpu_of(core, cpus) {
            Some(cpu) => format!("{core} {kind} on CPU {cpu}"),
            None => format!("{core} {kind} on any CPU"),
        }
    };
    let places: Vec<String> = board.core_ids().map(place).collect();
    format!("placement: {}", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_take_the_allowed_cpus_in_turn() {
        let on = |core| cpu_of(CoreId(core), &[3, 5]);
        assert_eq!([on(0), on(1), on(2)], [Some(3), Some(5), Some(3)]);
        assert_eq!(cpu_of(CoreId(7), &[]), None);
        assert!(!allowed().is_empty());
    }
}
