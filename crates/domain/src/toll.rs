//! What a domain may send, and what its supervisor has moved of that: frames are charged to the
//! domain that they come from (RainForest 5.4: accounting by origin).
//!
//! Each place has a *toll*, a cache line of the ledger that stands before the rows, wherever a
//! machine's ledger is: the bridge has nothing else of it. The supervisor stores the limit, and the
//! bridge adds to the counters. Both outlive the incarnations of either.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::domain::Domain;
use crate::ledger::Ledger;
use crate::refused::Refused;
use crate::words::{Sizes, Words};

/// Words of a toll: rate, burst, weight; frames, bytes, frames dropped, nanoseconds.
pub const TOLL: usize = 8;

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
    /// The least and most bytes of a burst: any frame fits into it.
    pub const BURSTS: (u64, u64) = (2 << 10, 1 << 30);
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

    /// With these changes, if there is such a limit. A rate of zero is none.
    pub fn with(self, change: LimitChange) -> Result<Limit, Refused> {
        let is_in = |what, would, range: (u64, u64)| match (range.0..=range.1).contains(&would) {
            true => Ok(would),
            false => Err(Refused::Range { what, would, range }),
        };
        Ok(Limit {
            rate: change.rate.map_or(self.rate, NonZeroU64::new),
            burst: is_in("burst", change.burst.unwrap_or(self.burst), Limit::BURSTS)?,
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

/// What was moved for a domain since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Carried {
    /// Frames that it sent and that went on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What it sent and that was dropped: beyond its limit or its share of another domain's loop,
    /// without room at the other end, or with a sender that is not its address.
    pub dropped: u64,
    /// How long its frames kept the core busy that moved them, dropped ones too.
    pub time: Duration,
}

impl Carried {
    /// Words behind the limit.
    pub const WORDS: usize = 4;

    /// As what is added to these words.
    pub fn to_words(self) -> [u64; Carried::WORDS] {
        [self.frames, self.bytes, self.dropped, self.time.as_nanos() as u64]
    }

    fn from_words([frames, bytes, dropped, nanos]: [u64; Carried::WORDS]) -> Carried {
        Carried { frames, bytes, dropped, time: Duration::from_nanos(nanos) }
    }
}

const _: () = assert!(Limit::WORDS + Carried::WORDS <= TOLL);

impl<W: Words> Ledger<W> {
    /// What the domain in a place may send.
    pub fn limit(&self, slot: u8) -> Limit {
        Limit::from_words(core::array::from_fn(|at| self.words().load(Sizes::toll(slot) + at)))
    }

    /// What was moved for it.
    pub fn carried(&self, slot: u8) -> Carried {
        let at = Sizes::toll(slot) + Limit::WORDS;
        Carried::from_words(core::array::from_fn(|which| self.words().load(at + which)))
    }

    pub(crate) fn set_limit(&mut self, domain: &Domain, limit: Limit) {
        for (at, word) in limit.to_words().into_iter().enumerate() {
            self.store(Sizes::toll(domain.id.slot) + at, word);
        }
    }

    /// The next domain of a place has no limit, and nothing was moved for it.
    pub(crate) fn open_toll(&mut self, slot: u8) {
        (0..TOLL).for_each(|at| self.store(Sizes::toll(slot) + at, 0));
    }
}
