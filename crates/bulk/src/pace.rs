//! How much may be on its way to this endpoint: at most a window, granted at the link's rate.

use core::time::Duration;

use nile_abi::Instant;

use crate::settings::Link;

/// Credits are worth what the frames take of the wire. Preamble, check sequence and the gap
/// between frames come to this many bytes.
const WIRE_BYTES: u64 = 24;

const PATIENCE_LEAST: Duration = Duration::from_micros(500);
const PATIENCE_MOST: Duration = Duration::from_millis(100);

/// Bytes that a frame takes of the wire.
pub fn wire_bytes(frame: usize) -> u64 {
    frame as u64 + WIRE_BYTES
}

/// The account of an endpoint's link.
pub struct Pace {
    rate: Option<u64>,
    window: u64,
    /// Bytes that have been granted, have not come, and may still come.
    on_the_way: u64,
    /// When the link will have carried what has been granted so far.
    carried: Instant,
    /// How far that may be ahead of the time: what makes up for late timers.
    ahead: Duration,
}

/// Whether more can be granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permit {
    /// Now.
    Now,
    /// At this moment.
    At(Instant),
    /// When something has arrived, or is given up.
    Full,
}

impl Pace {
    pub fn new(link: &Link) -> Pace {
        let mut pace = Pace {
            rate: link.rate.filter(|rate| *rate > 0),
            window: link.window,
            on_the_way: 0,
            carried: Instant::START,
            ahead: Duration::ZERO,
        };
        pace.ahead = pace.time(link.window / 2);
        pace
    }

    /// After which time without news what was granted counts as lost: far more than it takes to
    /// fill and empty the window.
    pub fn patience(&self) -> Duration {
        self.time(self.window.saturating_mul(4)).clamp(PATIENCE_LEAST, PATIENCE_MOST)
    }

    /// How many frames of so many bytes on the wire to grant at once, where `transfers` take
    /// turns: enough that few credit frames are sent, so few that each gets some of the window.
    pub fn batch(&self, frame: u64, transfers: usize) -> u32 {
        let share = self.window / (4 * frame.max(1)) / transfers.max(1) as u64;
        share.clamp(1, 16) as u32
    }

    /// Whether `bytes` can be granted. What alone exceeds the window can when nothing else is on
    /// its way.
    pub fn permits(&self, now: Instant, bytes: u64) -> Permit {
        if self.on_the_way > 0 && self.on_the_way + bytes > self.window {
            return Permit::Full;
        }
        match self.carried.since(now) {
            wait if wait <= self.ahead => Permit::Now,
            wait => Permit::At(now + (wait - self.ahead)),
        }
    }

    /// `bytes` are granted.
    pub fn grant(&mut self, now: Instant, bytes: u64) {
        self.carried = self.carried.max(now) + self.time(bytes);
    }

    /// What is on its way of one transfer has changed.
    pub fn account(&mut self, before: u64, after: u64) {
        self.on_the_way = self.on_the_way.saturating_sub(before).saturating_add(after);
    }

    fn time(&self, bytes: u64) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
