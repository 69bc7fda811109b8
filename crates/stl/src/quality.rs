//! How instances elsewhere were found to serve. A call that leaves this core is timed where its
//! end is handled; calls on this core are not. What was found is told to the registry, some
//! instances at a time, so that queries and plans go by it.
//!
//! A call is timed only while the budget of its millisecond lasts: who calls often pays for a few
//! calls, who calls seldom has each of them timed.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_order::SortedMap;

use crate::host::{Host, Place};

/// Instances that one core remembers: of more the one that was told longest ago is forgotten.
pub const MOST_MEASURED: usize = 64;

/// Calls that are timed in one span of the budget.
const BUDGET: u8 = 8;
const SPAN: Duration = Duration::from_millis(1);

/// So long the registry is told nothing again.
const BETWEEN_REPORTS: Duration = Duration::from_millis(5);

/// What has not changed is told again after this, so that it does not age.
const REFRESH: Duration = Duration::from_secs(2);

/// How an instance was found to serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The instance.
    pub place: Place,
    /// How long a call takes until it has succeeded, in nanoseconds.
    pub latency_ns: u64,
    /// How many of a million calls fail.
    pub failures_ppm: u32,
    /// Calls that were timed, or failed, since the last report.
    pub calls: u32,
}

/// What is known of one instance.
struct Measure {
    /// The last three calls' times; the one in the middle counts, so one late answer is nothing.
    last_ns: [u64; 3],
    smoothed_ns: u64,
    failures_ppm: u32,
    calls: u32,
    /// What was told, and when.
    told: Option<(u64, u32, Instant)>,
}

/// See the module.
pub(crate) struct Measures {
    span: Cell<Instant>,
    left: Cell<u8>,
    known: RefCell<SortedMap<Place, Measure>>,
    /// When the registry was told last.
    told: Cell<Instant>,
}

/// Whether a call failed by whom it was made to, not by what was asked.
pub fn is_failure(status: Status) -> bool {
    use Status::{Busy, Dead, Failed, NoMemory, NoTables, Panicked, Timeout};
    matches!(status, Busy | Dead | Failed | NoMemory | NoTables | Panicked | Timeout)
}

impl Measures {
    pub fn new() -> Measures {
        Measures {
            span: Cell::new(Instant::START),
            left: Cell::new(BUDGET),
            known: RefCell::default(),
            told: Cell::new(Instant::START),
        }
    }

    /// Whether a call that begins now is timed.
    #[inline]
    pub fn takes(&self, now: Instant) -> bool {
        if now.since(self.span.get()) >= SPAN {
            self.span.set(now);
            self.left.set(BUDGET);
        }
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// Notes the end of a call, after so long if it was timed; whether the registry should hear.
    pub fn note(&self, now: Instant, place: Place, took: Option<Duration>, end: Status) -> bool {
        let mut known = self.known.borrow_mut();
        // It is not there: nobody was called.
        if end == Status::Gone {
            known.remove(&place);
            return false;
        }
        if known.get(&place).is_none() && known.len() >= MOST_MEASURED {
            let since = |it: &Measure| it.told.map(|(_, _, at)| at);
            let oldest = known.iter().min_by_key(|(_, it)| since(it)).map(|(place, _)| *place);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let measure = known.entry(place).or_insert_with(Measure::new);
        measure.note(took, is_failure(end));
        measure.is_news(now) && now.since(self.told.get()) >= BETWEEN_REPORTS
    }

    /// What the registry has not heard.
    pub fn news(&self, host: &dyn Host) -> Vec<Measured> {
        let now = host.now();
        self.told.set(now);
        let mut news = Vec::new();
        for (place, it) in self.known.borrow_mut().iter_mut().filter(|(_, it)| it.is_news(now)) {
            let (latency_ns, failures_ppm) = (it.latency_ns(), it.failures_ppm);
            let calls = core::mem::take(&mut it.calls);
            it.told = Some((latency_ns, failures_ppm, now));
            news.push(Measured { place: *place, latency_ns, failures_ppm, calls });
        }
        news
    }
}

impl Measure {
    fn new() -> Measure {
        Measure { last_ns: [0; 3], smoothed_ns: 0, failures_ppm: 0, calls: 0, told: None }
    }

    fn note(&mut self, took: Option<Duration>, failed: bool) {
        self.calls = self.calls.saturating_add(1);
        let ppm = i64::from(self.failures_ppm);
        let change = if failed { (1_000_000 - ppm) / 8 } else { -((ppm + 15) / 16) };
        self.failures_ppm = u32::try_from(ppm + change).unwrap_or(0);
        // A quick failure is no quick call.
        let Some(took) = took.filter(|_| !failed) else { return };
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).clamp(1, u64::MAX / 8);
        if self.smoothed_ns == 0 {
            (self.last_ns, self.smoothed_ns) = ([took; 3], took);
            return;
        }
        let [_, second, third] = self.last_ns;
        self.last_ns = [second, third, took];
        let middle = second.max(third).min(second.min(third).max(took));
        self.smoothed_ns = (3 * self.smoothed_ns + middle).div_ceil(4);
    }

    /// How long until a call has succeeded: one that fails is made again.
    fn latency_ns(&self) -> u64 {
        let succeed = u64::from(1_000_000 - self.failures_ppm.min(999_000));
        let spent = u128::from(self.smoothed_ns.max(1)) * 1_000_000 / u128::from(succeed);
        u64::try_from(spent).unwrap_or(u64::MAX)
    }

    /// Whether it is more than a fifth from what was told, or that was long ago.
    fn is_news(&self, now: Instant) -> bool {
        let Some((latency_ns, failures_ppm, at)) = self.told else { return self.calls > 0 };
        let is_far = |new: u64, old: u64| new.abs_diff(old) > old / 5;
        let failures = (u64::from(self.failures_ppm), u64::from(failures_ppm));
        let changed = is_far(self.latency_ns(), latency_ns)
            || (failures.0.abs_diff(failures.1) > 1000 && is_far(failures.0, failures.1));
        self.calls > 0 && (changed || now.since(at) >= REFRESH)
    }
}

#[cfg(test)]
mod tests;
