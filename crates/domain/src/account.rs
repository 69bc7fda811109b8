//! What a domain is charged for: the cores and the memory that it had, for as long as it had them,
//! used or not. Whoever has a lent core is charged for it, not the lender.
//!
//! The account stands in the ledger, behind the domain's row. Nothing changes hands between two
//! events of the supervisor, so each event first charges what was until then. The moment up to
//! which is charged is stored first: a supervisor that ends in between loses a span, and charges
//! none twice.

use core::time::Duration;

use nile_abi::Instant;

use crate::domain::Row;
use crate::ledger::Ledger;
use crate::refused::Thing;
use crate::words::{DOMAINS, Party, Sizes, Words};

/// Words of an account: when it began, up to when is charged, cores, memory.
pub(crate) const WORDS: usize = 4;

const BEGUN: usize = 0;
const UNTIL: usize = 1;
const CORES: usize = 2;
const UNITS: usize = 3;

/// What a domain had since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Account {
    /// How long it has been there.
    pub age: Duration,
    /// Core-microseconds: a core for a second is a million.
    pub core_micros: u64,
    /// Unit-microseconds, alike.
    pub unit_micros: u64,
}

/// How many cores and units the domain of each place has.
struct Had([(u64, u64); DOMAINS]);

impl<W: Words> Ledger<W> {
    /// The account of the domain in a place up to `now`.
    pub fn account(&self, slot: u8, now: Instant) -> Account {
        let at = account(slot);
        let word = |which| self.words().load(at + which);
        let had = self.had().0[usize::from(slot) - 1];
        let micros = micros(word(UNTIL), now);
        Account {
            age: now.since(Instant::from_nanos(word(BEGUN))),
            core_micros: word(CORES).saturating_add(had.0.saturating_mul(micros)),
            unit_micros: word(UNITS).saturating_add(had.1.saturating_mul(micros)),
        }
    }

    /// Opens the account of the next domain of a place.
    pub(crate) fn open_account(&mut self, slot: u8, now: Instant) {
        let at = account(slot);
        for (which, word) in [now.as_nanos(), now.as_nanos(), 0, 0].into_iter().enumerate() {
            self.store(at + which, word);
        }
    }

    /// Charges all domains for what they have had up to `now`.
    pub(crate) fn charge(&mut self, now: Instant) {
        let had = self.had();
        for (slot, (cores, units)) in (1..).zip(had.0) {
            let at = account(slot);
            let until = self.words().load(at + UNTIL);
            let micros = micros(until, now);
            if micros == 0 || self.in_slot(slot).is_none() {
                continue;
            }
            self.store(at + UNTIL, until + micros * 1000);
            for (which, count) in [(CORES, cores), (UNITS, units)] {
                let charged = self.words().load(at + which);
                self.store(at + which, charged.saturating_add(count.saturating_mul(micros)));
            }
        }
    }

    fn had(&self) -> Had {
        let mut had = Had([(0, 0); DOMAINS]);
        for thing in self.things() {
            let Party::Domain(slot) = self.holding(thing).owner else { continue };
            let (cores, units) = &mut had.0[usize::from(slot) - 1];
            match thing {
                Thing::Core(_) => *cores += 1,
                Thing::Unit(_) => *units += 1,
                Thing::Device(_) => {}
            }
        }
        had
    }
}

fn account(slot: u8) -> usize {
    Sizes::row(slot) + Row::WORDS
}

/// Whole microseconds since a moment; none if the clock was set back.
fn micros(since: u64, now: Instant) -> u64 {
    now.as_nanos().saturating_sub(since) / 1000
}
