//! What scenarios draw from their seeds: numbers, spans, and how messages fare.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// A number below `bound`.
pub fn below(random: &mut ChaCha8Rng, bound: u64) -> u64 {
    random.next_u64() % bound.max(1)
}

/// How long something takes, up to `most`.
pub fn span(random: &mut ChaCha8Rng, most: Duration) -> Duration {
    Duration::from_nanos(random.next_u64() % (most.as_nanos() as u64).max(1))
}

/// How messages fare, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// So many never arrive.
    pub lost: u64,
    /// So many arrive twice.
    pub doubled: u64,
    /// So many take up to three seconds; others, two milliseconds.
    pub late: u64,
}

impl Weather {
    /// All arrive.
    pub const GOOD: Weather = Weather { lost: 0, doubled: 0, late: 0 };

    /// One of several.
    pub fn draw(random: &mut ChaCha8Rng) -> Weather {
        match below(random, 4) {
            0 => Weather::GOOD,
            1 => Weather { lost: 10, doubled: 10, late: 10 },
            2 => Weather { lost: 100, doubled: 50, late: 50 },
            _ => Weather { lost: 0, doubled: 200, late: 200 },
        }
    }

    /// Whether all arrive, once and soon.
    pub fn is_good(&self) -> bool {
        (self.lost, self.doubled, self.late) == (0, 0, 0)
    }

    /// How long each copy of a message takes that arrives.
    pub fn delays(&self, random: &mut ChaCha8Rng) -> Vec<Duration> {
        if below(random, 1000) < self.lost {
            return Vec::new();
        }
        let is_doubled = below(random, 1000) < self.doubled;
        let delay = |_| {
            let is_late = below(random, 1000) < self.late;
            let most = Duration::from_millis(if is_late { 3000 } else { 2 });
            Duration::from_micros(100) + span(random, most)
        };
        (0..1 + u32::from(is_doubled)).map(delay).collect()
    }
}
