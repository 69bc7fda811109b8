//! Grace periods by message: when has everybody let go of what was unlinked? (FENCE, section 4;
//! read-copy update.)
//!
//! A reader marks nothing. What it reads it reads within one turn of its core's loop, and between
//! two turns the core looks at one word, the round, which nobody writes unless somebody waits. If
//! it has changed, the core answers in a line of its own: what it read before is past, and what it
//! reads from then on it reads after the unlinking. Only the answer proves that: a count of turns
//! would not, since its stores may wait in the core's store buffer while loads of later turns have
//! been made (the model `control_a_count_of_turns` shows it).
//!
//! ```text
//! line 0          word 0   the round
//! a line a seat   word 0   the last round that it has answered, or AWAY
//! ```
//!
//! A core that sleeps is *away*, and nobody waits for it; neither for one that is gone.

use nile_ring::{LINE_BYTES, Region, Word};

use crate::seat::{Seat, Seats};
use crate::words::{add, fence, load, store};

/// What a core that reads nothing has answered. (Zeroed memory is nobody's, so it is no answer.)
const AWAY: u64 = u64::MAX;

/// What a reclaimer waits for: everybody's answer to this round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Round(u64);

/// The rounds and answers. Clones name the same.
#[derive(Clone, Debug)]
pub struct Quiet {
    region: Region,
    seats: Seats,
}

impl Quiet {
    /// Bytes of the region for this many seats.
    pub const fn region_len(seats: usize) -> usize {
        (1 + seats) * LINE_BYTES
    }

    /// The rounds in `region`, which is zeroed memory or holds rounds; `None` if it is too small
    /// for the seats.
    pub fn attach(region: Region, seats: Seats) -> Option<Quiet> {
        (region.lines().len() > seats.len()).then_some(Quiet { region, seats })
    }

    fn round(&self) -> &Word {
        &self.region.lines()[0][0]
    }

    fn answer(&self, number: u16) -> &Word {
        &self.region.lines()[1 + usize::from(number)][0]
    }

    /// Between two turns: says that nothing is read that was read before, if anybody waits.
    #[inline]
    pub fn pass(&self, me: Seat) {
        let round = load(self.round());
        if load(self.answer(me.number)) != round {
            store(self.answer(me.number), round);
        }
    }

    /// The core reads nothing until it [comes back](Quiet::come): it goes to sleep, say.
    pub fn leave(&self, me: Seat) {
        store(self.answer(me.number), AWAY);
    }

    /// The core reads again.
    pub fn come(&self, me: Seat) {
        store(self.answer(me.number), load(self.round()));
        // Who has not seen that it is back has its unlinking seen by it.
        fence();
    }

    /// After something was unlinked: begins a round, at whose end nobody reads it.
    pub fn begin(&self) -> Round {
        let round = add(self.round(), 1) + 1;
        fence();
        Round(round)
    }

    /// Whether everybody has answered. Never blocks.
    pub fn is_over(&self, round: Round) -> bool {
        (0..self.seats.len() as u16)
            .all(|number| self.seats.is_vacant(number) || load(self.answer(number)) >= round.0)
    }
}
