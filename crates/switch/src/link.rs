//! The settings of a cable. The default is a perfect one: no delay, no limit, no fault.

use core::num::NonZeroU64;
use core::time::Duration;

/// The settings of the cable between a port and the switch; they hold in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// How long a frame takes through the cable, besides the time that the rate asks for.
    pub delay: Duration,
    /// How quickly bits enter the cable; `None` is at once.
    pub rate: Option<Rate>,
    /// Bytes that may wait until the rate lets them in; a frame that finds no room is dropped.
    /// Counted as on the wire ([`Rate::wire_bytes`]).
    pub queue: usize,
    /// How probably a frame is lost. It has used its share of the rate.
    pub loss: Probability,
    /// How probably a frame comes out twice.
    pub duplicate: Probability,
    /// How probably a frame is held back, for at most twice the delay and [`Link::HELD_BACK`], so
    /// that others overtake it.
    pub reorder: Probability,
    /// How probably a frame's bytes are changed, in one place of up to eight bytes. The two
    /// addresses are spared: behind a damaged sender address the switch would learn the place of
    /// a node that never sent the frame, and no cable can misdirect the frames of others.
    pub corrupt: Probability,
}

impl Link {
    /// The least time for which a frame that is to be overtaken may be held back.
    pub const HELD_BACK: Duration = Duration::from_micros(100);

    /// Bytes that wait for a rate if nothing else is said: what small switches have for a port.
    pub const QUEUE: usize = 256 << 10;

    /// No delay, no rate, no faults.
    pub const PERFECT: Link = Link {
        delay: Duration::ZERO,
        rate: None,
        queue: Link::QUEUE,
        loss: Probability::NEVER,
        duplicate: Probability::NEVER,
        reorder: Probability::NEVER,
        corrupt: Probability::NEVER,
    };

    /// Whether a frame comes out as it went in, at once.
    pub fn is_perfect(&self) -> bool {
        *self == Link { queue: self.queue, ..Link::PERFECT }
    }
}

impl Default for Link {
    fn default() -> Link {
        Link::PERFECT
    }
}

/// Bits per second on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// This many bits per second; `None`, which is no limit, for zero.
    pub const fn bits_per_second(bits: u64) -> Option<Rate> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Rate(bits)),
            None => None,
        }
    }

    /// This many thousand million bits per second; `None`, which is no limit, for zero.
    pub const fn gigabits_per_second(gigabits: u32) -> Option<Rate> {
        Rate::bits_per_second(gigabits as u64 * 1_000_000_000)
    }

    /// Bits per second.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// Bytes that a frame of `frame` bytes takes of the wire: it is padded to 60, and preamble,
    /// check sequence and the gap between frames come to 24 more.
    pub const fn wire_bytes(frame: usize) -> usize {
        (if frame < 60 { 60 } else { frame }) + 24
    }

    /// How long `wire_bytes` take, rounded up to nanoseconds.
    pub fn time(self, wire_bytes: usize) -> Duration {
        let bits = (wire_bytes as u64).saturating_mul(8);
        Duration::from_nanos(match bits.checked_mul(1_000_000_000) {
            Some(scaled) => scaled.div_ceil(self.0.get()),
            None => (bits / self.0.get()).saturating_add(1).saturating_mul(1_000_000_000),
        })
    }
}

/// How probably something happens to a frame, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Probability(u32);

impl Probability {
    /// It never happens.
    pub const NEVER: Probability = Probability(0);

    /// It always happens.
    pub const ALWAYS: Probability = Probability(1_000_000);

    /// `parts` in a million; more than a million are a million.
    pub const fn per_million(parts: u32) -> Probability {
        Probability(if parts > 1_000_000 { 1_000_000 } else { parts })
    }

    /// `parts` in a hundred; more than a hundred are a hundred.
    pub const fn percent(parts: u32) -> Probability {
        Probability::per_million(parts.saturating_mul(10_000))
    }

    /// Parts in a million.
    pub const fn as_per_million(self) -> u32 {
        self.0
    }
}
