//! The toll of a domain as the core sees it that moves its frames: a cache line of the ledger.

use core::sync::atomic::Ordering;

use nile_domain::{Carried, Limit, Sizes, TOLL};
use nile_ring::Region;

/// Bytes of a toll.
pub const TOLL_BYTES: usize = TOLL * size_of::<u64>();

/// The toll of a domain: its limit, and what was moved for it.
#[derive(Clone, Debug)]
pub struct Toll(Region);

impl Toll {
    /// The toll in a region of [`TOLL_BYTES`]; `None` if it is smaller.
    pub fn new(region: Region) -> Option<Toll> {
        (region.len() >= TOLL_BYTES).then_some(Toll(region))
    }

    /// The toll of the domain in a place, of a ledger.
    pub fn of(ledger: &Region, slot: u8) -> Option<Toll> {
        Toll::new(ledger.slice(Sizes::toll(slot) * size_of::<u64>(), TOLL_BYTES)?)
    }

    /// What the domain may send. The supervisor may be storing it: each word is an old or a new
    /// one.
    pub fn limit(&self) -> Limit {
        let words = self.0.words();
        Limit::from_words(core::array::from_fn(|at| words[at].load(Ordering::Relaxed)))
    }

    /// Charges it for what was done. The supervisor may begin the account of the next domain
    /// meanwhile.
    pub fn charge(&self, carried: Carried) {
        let counters = self.0.words()[Limit::WORDS..].iter();
        for (counter, more) in counters.zip(carried.to_words()).filter(|(_, more)| *more > 0) {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }
}
