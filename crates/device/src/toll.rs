//! The ledger as cores of the machine see it: who has which device, and a domain's toll, a cache
//! line of it.

use core::sync::atomic::Ordering;

use nile_domain::{Carried, Limit, Look, Sizes, TOLL, Way, Words, user_of};
use nile_ring::Region;

/// The words of a ledger in memory that outlives every incarnation.
#[derive(Clone, Debug)]
pub struct LedgerWords(pub Region);

// A guard asks these for each entry of a page table.
impl Look for LedgerWords {
    #[inline]
    fn count(&self) -> usize {
        self.0.words().len()
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.0.words()[at].load(Ordering::Acquire)
    }
}

impl Words for LedgerWords {
    fn store(&mut self, at: usize, word: u64) {
        self.0.words()[at].store(word, Ordering::Release);
    }
}

impl LedgerWords {
    /// The toll of the domain in a place.
    pub fn toll(&self, way: Way, slot: u8) -> Option<Toll> {
        Toll::new(self.0.slice(Sizes::toll(way, slot) * size_of::<u64>(), TOLL_BYTES)?)
    }

    /// The toll of the domain that has a part of a disk, by the device that this is.
    pub fn toll_of_disk(&self, device: u16) -> Option<Toll> {
        self.toll(Way::Disk, user_of(self, device)?)
    }
}

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
