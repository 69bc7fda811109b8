//! One direction of a cable: what comes out of it, when, and how often.

use core::time::Duration;

use nile_abi::Instant;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::counts::Counts;
use crate::frame::Frame;
use crate::link::{Link, Probability, Rate};

/// The most bytes on their way in one direction of a cable, whatever its delay. Memory is bounded
/// by it: 16 MiB are 10 ms of 10 Gbit/s.
pub const IN_FLIGHT: usize = 16 << 20;

/// Bytes of a frame that are never damaged: its addresses.
const SPARED: usize = 12;

/// The state of one direction.
#[derive(Default)]
pub struct Lane {
    /// When the last frame so far will be wholly in the cable.
    busy_until: Instant,
    /// Bytes that went in and did not come out yet.
    in_flight: usize,
}

/// What comes out for one frame that went in: nothing, the frame, or it and its duplicate.
pub type Arrivals = [Option<(Instant, Frame)>; 2];

impl Lane {
    /// Sends `frame` into the cable at `now`. Every arrival that is later than `now` has to be
    /// told by [`Lane::arrived`] when it comes.
    pub fn carry(
        &mut self,
        now: Instant,
        frame: Frame,
        link: &Link,
        random: &mut ChaCha8Rng,
        counts: &mut Counts,
    ) -> Arrivals {
        if link.is_perfect() {
            return [Some((now, frame)), None];
        }
        let Some(inside) = self.enter(now, frame.len(), link) else {
            counts.overflowed += 1;
            return [None, None];
        };
        if happens(link.loss, random) {
            counts.lost += 1;
            return [None, None];
        }
        let twice = happens(link.duplicate, random);
        counts.duplicated += u64::from(twice);
        let copy = twice.then(|| frame.clone());
        [Some(frame), copy].map(|copy| {
            let arrival = Lane::pass(inside, copy?, link, random, counts);
            if arrival.0 > now {
                self.in_flight += arrival.1.len();
            }
            Some(arrival)
        })
    }

    /// When a frame of `bytes` is wholly in the cable, if it finds room.
    fn enter(&mut self, now: Instant, bytes: usize, link: &Link) -> Option<Instant> {
        // A duplicate is never refused, so there must be room for it.
        if self.in_flight + 2 * bytes > IN_FLIGHT {
            return None;
        }
        let Some(rate) = link.rate else { return Some(now) };
        let waiting = self.busy_until.since(now);
        let takes = rate.time(Rate::wire_bytes(bytes));
        if !waiting.is_zero() && waiting + takes > rate.time(link.queue) {
            return None;
        }
        self.busy_until = now + waiting + takes;
        Some(self.busy_until)
    }

    /// What becomes of one copy of a frame that is in the cable at `inside`.
    fn pass(
        inside: Instant,
        frame: Frame,
        link: &Link,
        random: &mut ChaCha8Rng,
        counts: &mut Counts,
    ) -> (Instant, Frame) {
        let frame = match happens(link.corrupt, random) && frame.len() > SPARED {
            true => {
                counts.corrupted += 1;
                corrupt(&frame, random)
            }
            false => frame,
        };
        let held_back = match happens(link.reorder, random) {
            true => {
                counts.reordered += 1;
                let most = link.delay.saturating_mul(2).saturating_add(Link::HELD_BACK);
                let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(1 + below(most, random))
            }
            false => Duration::ZERO,
        };
        (inside + link.delay + held_back, frame)
    }

    /// A frame of `bytes` came out.
    pub fn arrived(&mut self, bytes: usize) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// The cable has another rate: what waited for the old one no longer counts.
    pub fn change(&mut self) {
        self.busy_until = Instant::START;
    }
}

fn happens(probability: Probability, random: &mut ChaCha8Rng) -> bool {
    probability > Probability::NEVER
        && below(1_000_000, random) < u64::from(probability.as_per_million())
}

/// A number below `bound`. The bias of a remainder of 64 bits is far below what a run can show.
fn below(bound: u64, random: &mut ChaCha8Rng) -> u64 {
    random.next_u64() % bound
}

fn corrupt(frame: &Frame, random: &mut ChaCha8Rng) -> Frame {
    let at = SPARED + below((frame.len() - SPARED) as u64, random) as usize;
    let mut damage = random.next_u64().to_le_bytes();
    // The first byte is really changed, whatever was drawn.
    damage[0] = damage[0].max(1);
    let length = 1 + below(8, random) as usize;
    frame.damaged(at, &damage[..length])
}
