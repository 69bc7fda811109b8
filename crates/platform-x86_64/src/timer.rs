//! One timer for two purposes: the periodic tick of a management core, and the next deadline of
//! any core. The local APIC's timer is always armed for the earlier of the two, once; its handler
//! arms it again if anything is left. A core with neither has no timer interrupt at all.
//!
//! Reaching the timer costs, most of all where it is emulated. So it is left where it is when it
//! comes earlier than it must, on cores that do not mind: its handler finds nothing due, and arms
//! it for what is next.
//!
//! A core can take another timer than its own ([`shared`]), which is then armed in its place.
//!
//! A tick comes at multiples of its period from its start, however late a handler runs; ticks
//! that were missed are not made up for.

pub mod shared;

use core::time::Duration;

use nile_abi::Instant;
use nile_platform::Cause;

use crate::clock::read_tsc;
use crate::local::{self, Local};
use crate::private::Private;
use crate::privileged;

/// What this core's timer is for, in time-stamp counter ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Schedule {
    /// Period and next time of the tick.
    tick: Option<Tick>,
    /// The core's own next deadline.
    deadline: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tick {
    period: u64,
    next: u64,
}

static SCHEDULE: Private<Schedule> = Private::new(Schedule::IDLE);

/// Which timer this core has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Its local APIC's.
    Local,
    /// Its comparator of the HPET.
    Hpet,
    /// The PIT.
    Pit,
}

static SOURCE: Private<Source> = Private::new(Source::Local);

/// The end of the last turn, as long as it is what is scheduled.
static TURN_END: Private<Option<Instant>> = Private::new(None);

/// When this core's timer interrupts, if it does.
static ARMED: Private<Option<u64>> = Private::new(None);

/// The shortest period of a tick: a core could not do anything else at a higher rate.
const MIN_PERIOD: Duration = Duration::from_micros(100);

/// Starts this core's periodic tick, or stops it. A period below 100 µs is taken as 100 µs.
/// Before the core is [`local::install`]ed this does nothing.
pub fn set_tick(period: Option<Duration>) {
    change(comes_when_due, |schedule, local| {
        schedule.tick = period.map(|period| {
            let period = local.clock.ticks_for(period.max(MIN_PERIOD));
            Tick { period, next: read_tsc().saturating_add(period) }
        });
    });
}

/// Makes this core be interrupted at `deadline`, soon if it is past, or at no deadline, and perhaps
/// once before. It replaces the last one. Before the core is [`local::install`]ed this does
/// nothing.
pub fn set_deadline(deadline: Option<Instant>) {
    change(comes_in_time, |schedule, local| {
        schedule.deadline = deadline.map(|deadline| local.clock.tsc_at(deadline));
    });
}

/// Takes the last deadline back: no timer interrupts this core any more, but for its tick.
pub fn clear_deadline() {
    change(comes_when_due, |schedule, _| schedule.deadline = None);
}

/// The same as a deadline of the turn of a package, which is interrupted by nothing sooner. To be
/// called with interrupts masked, before each turn.
pub(crate) fn set_turn_end(end: Option<Instant>) {
    if end.is_some() && TURN_END.get() == end {
        return;
    }
    if end.is_some() || SCHEDULE.get().deadline.is_some() {
        change(comes_when_due, |schedule, local| {
            schedule.deadline = end.map(|end| local.clock.tsc_at(end));
        });
        TURN_END.set(end);
    }
}

/// The timer that this core has.
pub fn source() -> Source {
    SOURCE.get()
}

/// Takes another one, which the core must have: what is scheduled comes by it from now on. The one
/// before may interrupt once more.
pub fn take(source: Source) {
    let Some(local) = local::get() else { return };
    privileged::without_interrupts(|| {
        let before = SOURCE.get();
        SOURCE.set(source);
        arm(&local, SCHEDULE.get().next());
        if before != source {
            stop(&local, before);
        }
    });
}

/// The timer's interrupt has come: says what for, and arms the timer for what comes next.
/// Called with interrupts masked.
pub(crate) fn expired(local: &Local) -> Cause {
    let mut schedule = SCHEDULE.get();
    let cause = schedule.expire(read_tsc());
    SCHEDULE.set(schedule);
    TURN_END.set(None);
    arm(local, schedule.next());
    cause
}

fn change(
    serves: fn(armed: Option<u64>, next: Option<u64>) -> bool,
    make: impl FnOnce(&mut Schedule, &Local),
) {
    let Some(local) = local::get() else { return };
    privileged::without_interrupts(|| {
        let mut schedule = SCHEDULE.get();
        make(&mut schedule, &local);
        SCHEDULE.set(schedule);
        TURN_END.set(None);
        if !serves(ARMED.get(), schedule.next()) {
            arm(&local, schedule.next());
        }
    });
}

/// Whether a timer that comes at `armed` does for what is due at `next`.
fn comes_when_due(armed: Option<u64>, next: Option<u64>) -> bool {
    armed == next
}

/// The same, if it may come once for nothing.
fn comes_in_time(armed: Option<u64>, next: Option<u64>) -> bool {
    next.is_none_or(|next| armed.is_some_and(|armed| armed <= next))
}

/// Arms the timer for what is next, or stops it.
fn arm(local: &Local, next: Option<u64>) {
    ARMED.set(next);
    let source = SOURCE.get();
    let Some(next) = next else { return stop(local, source) };
    if source != Source::Local {
        arm_other(local, source, next);
    } else if local.apic.has_tsc_deadline() {
        // Zero would stop it.
        local.apic.timer_start_at(next.max(1));
    } else {
        // What is too far for the timer's count comes in several steps.
        let ticks = next.saturating_sub(read_tsc());
        local.apic.timer_start(local.clock.timer_ticks(ticks));
    }
}

#[cold]
fn arm_other(local: &Local, source: Source, next: u64) {
    let nanos = local.clock.nanos_for(next.saturating_sub(read_tsc()));
    match source {
        Source::Pit => shared::pit_start(nanos),
        _ => local.timers.hpet_start(local.core, nanos),
    }
}

fn stop(local: &Local, source: Source) {
    match source {
        Source::Local => local.apic.timer_stop(),
        Source::Hpet => local.timers.hpet_stop(local.core),
        Source::Pit => shared::pit_stop(),
    }
}

impl Schedule {
    const IDLE: Schedule = Schedule { tick: None, deadline: None };

    /// The next time that the timer must interrupt.
    fn next(&self) -> Option<u64> {
        let tick = self.tick.map(|tick| tick.next);
        tick.into_iter().chain(self.deadline).min()
    }

    /// Takes what is due at `now` off the schedule and says what the interrupt was for. A tick
    /// that comes with a deadline is a tick.
    fn expire(&mut self, now: u64) -> Cause {
        self.deadline = self.deadline.filter(|deadline| *deadline > now);
        match &mut self.tick {
            Some(tick) if tick.next <= now => {
                tick.advance(now);
                Cause::Tick
            }
            _ => Cause::Timer,
        }
    }
}

impl Tick {
    /// Moves to the first multiple of the period after `now`.
    fn advance(&mut self, now: u64) {
        let period = self.period.max(1);
        let missed = now.saturating_sub(self.next) / period;
        self.next = self.next.saturating_add(period.saturating_mul(missed + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKING: Schedule =
        Schedule { tick: Some(Tick { period: 1000, next: 5000 }), deadline: None };

    fn next_tick(schedule: &Schedule) -> Option<u64> {
        schedule.tick.map(|tick| tick.next)
    }

    #[test]
    fn a_timer_that_comes_too_early_is_in_time() {
        for (armed, next) in [(Some(5), Some(5)), (None, None)] {
            assert!(comes_when_due(armed, next) && comes_in_time(armed, next));
        }
        for (armed, next) in [(Some(5), Some(6)), (Some(5), None)] {
            assert!(!comes_when_due(armed, next) && comes_in_time(armed, next));
        }
        for (armed, next) in [(Some(6), Some(5)), (None, Some(5))] {
            assert!(!comes_when_due(armed, next) && !comes_in_time(armed, next));
        }
    }

    #[test]
    fn nothing_scheduled_needs_no_timer() {
        assert_eq!(Schedule::IDLE.next(), None);
    }

    #[test]
    fn the_earlier_of_tick_and_deadline_is_next() {
        assert_eq!(TICKING.next(), Some(5000));
        assert_eq!(Schedule { deadline: Some(4999), ..TICKING }.next(), Some(4999));
        assert_eq!(Schedule { deadline: Some(5001), ..TICKING }.next(), Some(5000));
    }

    #[test]
    fn a_deadline_before_the_tick_is_a_timer_interrupt_and_leaves_the_tick() {
        let mut schedule = Schedule { deadline: Some(4000), ..TICKING };
        assert_eq!(schedule.expire(4010), Cause::Timer);
        assert_eq!(schedule, TICKING);
    }

    #[test]
    fn a_tick_leaves_a_later_deadline_and_takes_a_due_one() {
        let mut schedule = Schedule { deadline: Some(5500), ..TICKING };
        assert_eq!(schedule.expire(5001), Cause::Tick);
        assert_eq!((schedule.deadline, next_tick(&schedule)), (Some(5500), Some(6000)));
        let mut schedule = Schedule { deadline: Some(5000), ..TICKING };
        assert_eq!(schedule.expire(5000), Cause::Tick);
        assert_eq!(schedule.deadline, None);
    }

    #[test]
    fn a_late_tick_does_not_shift_the_next() {
        let mut schedule = TICKING;
        assert_eq!(schedule.expire(5400), Cause::Tick);
        assert_eq!(next_tick(&schedule), Some(6000));
    }

    #[test]
    fn missed_ticks_are_skipped() {
        let mut schedule = TICKING;
        assert_eq!(schedule.expire(8300), Cause::Tick);
        assert_eq!(next_tick(&schedule), Some(9000));
    }

    #[test]
    fn an_interrupt_before_anything_is_due_leaves_everything() {
        let early = Schedule { deadline: Some(4000), ..TICKING };
        let mut schedule = early;
        assert_eq!(schedule.expire(3999), Cause::Timer);
        assert_eq!(schedule, early);
    }

    #[test]
    fn the_end_of_time_does_not_overflow() {
        let mut schedule =
            Schedule { tick: Some(Tick { period: u64::MAX, next: 10 }), deadline: Some(u64::MAX) };
        assert_eq!(schedule.expire(u64::MAX - 1), Cause::Tick);
        assert_eq!(schedule.next(), Some(u64::MAX));
    }
}
