//! Whether a composite takes as many calls in a second as it promises. That shows only while enough
//! of them wait: by Little's law so many are in flight as come in the time that one takes.

use core::cell::Cell;
use core::time::Duration;

use nile_abi::Instant;

/// So many calls make a span, over which the pace is judged.
pub(crate) const SPAN: u32 = 16;

/// So many spans that follow each other are too slow before the plan is made anew.
const SLOW_SPANS: u32 = 3;

/// At most so many, when planning anew changes nothing.
const MOST_SLOW_SPANS: u32 = 1 << 8;

/// The pace of a composite under one plan.
pub(crate) struct Pace {
    /// What is promised; `u64::MAX` if nothing is.
    per_second: u64,
    /// When the last span was over.
    since: Cell<Option<Instant>>,
    calls: Cell<u32>,
    /// How long the calls of this span took together.
    took_ns: Cell<u64>,
    /// The quickest call of all: about what one takes that waits for no other.
    quickest_ns: Cell<u64>,
    slow: Cell<u32>,
    /// The best pace of the slow spans.
    best: Cell<u64>,
    patience: Cell<u32>,
}

impl Pace {
    pub fn of(per_second: u64) -> Pace {
        Pace {
            per_second,
            since: Cell::default(),
            calls: Cell::default(),
            took_ns: Cell::default(),
            quickest_ns: Cell::new(u64::MAX),
            slow: Cell::default(),
            best: Cell::default(),
            patience: Cell::new(SLOW_SPANS),
        }
    }

    /// Whether the calls of a span are over with the next one.
    pub fn ends_span(&self) -> bool {
        self.calls.get() + 1 == SPAN
    }

    /// Notes a call that is over. If the promise is broken now, how many calls there are in a
    /// second.
    pub fn note(&self, now: Instant, took: Duration) -> Option<u64> {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.quickest_ns.set(self.quickest_ns.get().min(took_ns.max(1)));
        let since = self.since.get().unwrap_or(now.before(took));
        self.since.set(Some(since));
        self.took_ns.set(self.took_ns.get().saturating_add(took_ns));
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() < SPAN || self.per_second == u64::MAX {
            return None;
        }
        let elapsed_ns = u64::try_from(now.since(since).as_nanos()).unwrap_or(u64::MAX).max(1);
        let per_second = u64::from(self.calls.take()) * 1_000_000_000 / elapsed_ns;
        let in_flight = self.took_ns.take() / elapsed_ns;
        self.since.set(Some(now));
        let wanted = u128::from(self.per_second) * u128::from(self.quickest_ns.get());
        let is_asked = u128::from(in_flight) > wanted / 1_000_000_000;
        if !is_asked || per_second >= self.per_second {
            self.forget();
            return None;
        }
        self.slow.set(self.slow.get() + 1);
        self.best.set(self.best.get().max(per_second));
        if self.slow.get() < self.patience.get() {
            return None;
        }
        let best = self.best.get();
        self.forget();
        Some(best)
    }

    /// Nothing better was found: it is longer until it is looked for again.
    pub fn nothing_better(&self) {
        self.patience.set((self.patience.get() * 2).min(MOST_SLOW_SPANS));
    }

    fn forget(&self) {
        self.slow.set(0);
        self.best.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found of a service that takes `width` calls at once, each for `each_us`, while
    /// `callers` call it, for some spans.
    fn found(pace: &Pace, width: u64, each_us: u64, callers: u64) -> Option<u64> {
        let micros = |us| Instant::from_nanos(us * 1000);
        let mut free = alloc::vec![0; width as usize];
        let mut calls = alloc::vec![0; callers as usize];
        for _ in 0..8 * SPAN {
            let (caller, begun) =
                (0..).zip(&calls).map(|(at, it)| (at, *it)).min_by_key(|it| it.1)?;
            let slot = free.iter_mut().min()?;
            *slot = begun.max(*slot) + each_us;
            let over = *slot;
            calls[caller] = over;
            let took = micros(over).since(micros(begun));
            if let Some(found) = pace.note(micros(over), took) {
                return Some(found);
            }
        }
        None
    }

    #[test]
    fn who_takes_fewer_calls_than_promised_is_found_while_they_wait() {
        let of = |per_second, width, each_us, callers| {
            found(&Pace::of(per_second), width, each_us, callers)
        };
        // One at a time, each for 5 ms, is 200 in a second.
        assert_eq!(of(1000, 1, 5_000, 16), Some(200));
        assert_eq!(of(200, 1, 5_000, 16), None, "it is what was promised");
        assert_eq!(of(1000, 1, 5_000, 1), None, "nobody asks for more");
        assert_eq!(of(1000, 64, 5_000, 3), None, "three callers make 600 of whoever is quick");
        assert_eq!(of(1000, 64, 5_000, 16), None);
        assert_eq!(of(u64::MAX, 1, 5_000, 16), None, "nothing is promised");
    }

    #[test]
    fn a_span_that_is_held_up_is_nothing() {
        let pace = Pace::of(1000);
        let mut now = Instant::START;
        for call in 0..100 * SPAN {
            // Every third span stands still for a while.
            let span = if call % (3 * SPAN) == 0 { 100 } else { 1 };
            now = now + Duration::from_millis(span) / 2;
            let took = Duration::from_millis(if span == 1 { 5 } else { 100 });
            assert_eq!(pace.note(now, took), None, "{call}");
        }
    }
}
