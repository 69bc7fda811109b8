//! How instances were found to serve, by the cores that call them: what each has said last, until
//! that is old. What nobody has called of late is not known any more, so it is tried again.

use core::time::Duration;

use alloc::vec::Vec;

use nile_abi::{CoreId, Instant};
use nile_interfaces::registry::Rating;
use nile_order::SortedMap;
use nile_registry::{InstanceId, Quality, Registry};

/// After so long what was found is not believed any more. Who goes on calling says it again long
/// before.
const OLD: Duration = Duration::from_secs(10);

/// Cores of whose words about one instance a registry keeps the last.
const MOST_CORES: usize = 8;

/// What one core found.
struct Word {
    core: CoreId,
    quality: Quality,
    calls: u32,
    at: Instant,
}

/// See the module.
#[derive(Default)]
pub(super) struct Observed(SortedMap<InstanceId, Vec<Word>>);

impl Observed {
    /// Notes what a core found.
    pub fn note(
        &mut self,
        registry: &mut Registry,
        id: InstanceId,
        core: CoreId,
        it: &Rating,
        now: Instant,
    ) {
        let Rating { latency_ns, failures_ppm, calls, .. } = *it;
        let failures_ppm = failures_ppm.min(1_000_000);
        let quality = Quality { latency_ns: latency_ns.max(1), failures_ppm };
        let words = self.0.entry(id).or_default();
        words.retain(|it| it.core != core && now.since(it.at) < OLD);
        if words.len() >= MOST_CORES {
            words.remove(0);
        }
        words.push(Word { core, quality, calls: calls.max(1), at: now });
        if registry.observe(id, Some(mean(words))).is_err() {
            self.0.remove(&id);
        }
    }

    /// Forgets what is old, before somebody asks.
    pub fn age(&mut self, registry: &mut Registry, now: Instant) {
        self.0.retain(|id, words| {
            let before = words.len();
            words.retain(|it| now.since(it.at) < OLD);
            let known = (!words.is_empty()).then(|| mean(words));
            // One that is not there any more is forgotten, too.
            let is_there = words.len() == before || registry.observe(*id, known).is_ok();
            is_there && known.is_some()
        });
    }

    /// The instance has ended.
    pub fn forget(&mut self, id: InstanceId) {
        self.0.remove(&id);
    }
}

/// The mean of what the cores say, each as often as it called.
fn mean(words: &[Word]) -> Quality {
    let calls: u128 = words.iter().map(|it| u128::from(it.calls)).sum();
    let mean = |value: fn(&Word) -> u64| {
        let sum: u128 = words.iter().map(|it| u128::from(value(it)) * u128::from(it.calls)).sum();
        u64::try_from(sum / calls.max(1)).unwrap_or(u64::MAX)
    };
    let failures_ppm = mean(|it| it.quality.failures_ppm.into());
    Quality {
        latency_ns: mean(|it| it.quality.latency_ns),
        failures_ppm: u32::try_from(failures_ppm).unwrap_or(u32::MAX),
    }
}
