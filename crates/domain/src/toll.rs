//! What a domain may have its supervisor's devices do, and what they have done of that: frames and
//! requests are charged to the domain that they come from (RainForest 5.4: accounting by origin).
//!
//! Each place has a *toll* for each [`Way`], a cache line of the ledger that stands before the
//! rows, wherever a machine's ledger is. The supervisor stores the limit, and whoever drives the
//! device adds to the counters. Both outlive the incarnations of either.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::domain::Domain;
use crate::ledger::Ledger;
use crate::refused::Refused;
use crate::words::{Sizes, Words};

/// Words of a toll: rate, burst, weight; passed, bytes, dropped, nanoseconds.
pub const TOLL: usize = 8;

/// By which way a domain uses a device of its supervisor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// The network, with frames (RFtun).
    Network,
    /// A part of a disk, with requests (RFfuse).
    Disk,
}

impl Way {
    /// All.
    pub const ALL: [Way; 2] = [Way::Network, Way::Disk];

    /// The least and most bytes of a burst: whatever moves at once fits into it.
    pub fn bursts(self) -> (u64, u64) {
        match self {
            Way::Network => (2 << 10, 1 << 30),
            Way::Disk => (64 << 10, 1 << 30),
        }
    }
}

/// What a domain may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Bytes a second in the long run; as many as there is room for if nothing is said.
    pub rate: Option<NonZeroU64>,
    /// Bytes that it may send at once after a while without sending.
    pub burst: u64,
    /// How much of what is shared it gets beside others that wait, too: twice as much as one with
    /// half of the weight.
    pub weight: u64,
}

impl Limit {
    /// Words of it.
    pub const WORDS: usize = 3;
    /// The least and greatest weight.
    pub const WEIGHTS: (u64, u64) = (1, 100);

    /// What the first words of a toll say. Zeros are no limit.
    pub fn from_words([rate, burst, weight]: [u64; Limit::WORDS]) -> Limit {
        let none = Limit::default();
        Limit {
            rate: NonZeroU64::new(rate),
            burst: if burst == 0 { none.burst } else { burst },
            weight: weight.clamp(Limit::WEIGHTS.0, Limit::WEIGHTS.1),
        }
    }

    fn to_words(self) -> [u64; Limit::WORDS] {
        [self.rate.map_or(0, NonZeroU64::get), self.burst, self.weight]
    }

    /// With these changes, if there is such a limit of a way. A rate of zero is none.
    pub fn with(self, way: Way, change: LimitChange) -> Result<Limit, Refused> {
        let is_in = |what, would, range: (u64, u64)| match (range.0..=range.1).contains(&would) {
            true => Ok(would),
            false => Err(Refused::Range { what, would, range }),
        };
        Ok(Limit {
            rate: change.rate.map_or(self.rate, NonZeroU64::new),
            burst: is_in("burst", change.burst.unwrap_or(self.burst), way.bursts())?,
            weight: is_in("weight", change.weight.unwrap_or(self.weight), Limit::WEIGHTS)?,
        })
    }
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { rate: None, burst: 64 << 10, weight: 1 }
    }
}

/// What is to be different; the rest stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LimitChange {
    /// Bytes a second; zero for no limit.
    pub rate: Option<u64>,
    /// Bytes of a burst.
    pub burst: Option<u64>,
    /// The weight.
    pub weight: Option<u64>,
}

/// What was moved for a domain by one way since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Carried {
    /// Frames that it sent, or requests that it had, and that went on.
    pub passed: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that were dropped: beyond its limit or its share of another domain's loop, without
    /// room at the other end, or with a sender that is not its address. Requests that no disk can
    /// meet.
    pub dropped: u64,
    /// How long they kept the core busy that moved them, dropped ones too.
    pub time: Duration,
}

impl Carried {
    /// Words behind the limit.
    pub const WORDS: usize = 4;

    /// As what is added to these words.
    pub fn to_words(self) -> [u64; Carried::WORDS] {
        [self.passed, self.bytes, self.dropped, self.time.as_nanos() as u64]
    }

    fn from_words([passed, bytes, dropped, nanos]: [u64; Carried::WORDS]) -> Carried {
        Carried { passed, bytes, dropped, time: Duration::from_nanos(nanos) }
    }
}

const _: () = assert!(Limit::WORDS + Carried::WORDS <= TOLL);

impl<W: Words> Ledger<W> {
    /// What the domain in a place may send by a way.
    pub fn limit(&self, way: Way, slot: u8) -> Limit {
        let first = Sizes::toll(way, slot);
        Limit::from_words(core::array::from_fn(|at| self.words().load(first + at)))
    }

    /// What was moved for it.
    pub fn carried(&self, way: Way, slot: u8) -> Carried {
        let first = Sizes::toll(way, slot) + Limit::WORDS;
        Carried::from_words(core::array::from_fn(|at| self.words().load(first + at)))
    }

    pub(crate) fn set_limit(&mut self, domain: &Domain, way: Way, limit: Limit) {
        for (at, word) in limit.to_words().into_iter().enumerate() {
            self.store(Sizes::toll(way, domain.id.slot) + at, word);
        }
    }

    /// The next domain of a place has no limits, and nothing was moved for it.
    pub(crate) fn open_tolls(&mut self, slot: u8) {
        for first in Way::ALL.map(|way| Sizes::toll(way, slot)) {
            (0..TOLL).for_each(|at| self.store(first + at, 0));
        }
    }
}
