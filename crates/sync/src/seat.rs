//! Seats: who takes part in what several cores share, in one of its lives.
//!
//! A core has a seat, and so has each package that shares memory with other cores. What holds a
//! lock, a range or a piece of work is a seat; when its core has died, its [`Seat`] is *gone*, and
//! whoever meets what it held finishes or undoes it. Only when a core is known to do nothing any
//! more may its seat be cleared, or entered again.
//!
//! ```text
//! a line a seat   word 0   generation: odd in a life, even between two
//! ```

use nile_ring::{LINE_BYTES, Region, Word};

use crate::words::{exchange, load};

/// A place and the number of its life: what is written into shared words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    /// Which place.
    pub number: u16,
    /// Which of its lives, odd. It comes again after 32,768 of them.
    pub generation: u16,
}

impl Seat {
    /// As half a word, which is never zero.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.number) << 16 | u64::from(self.generation)
    }

    /// What [`Seat::bits`] gave, in the low half of a word; `None` for nobody.
    #[inline]
    pub(crate) fn of(word: u64) -> Option<Seat> {
        let seat = Seat { number: (word >> 16) as u16, generation: word as u16 };
        (seat.generation % 2 == 1).then_some(seat)
    }
}

/// The seats of all who share something. Clones name the same.
#[derive(Clone, Debug)]
pub struct Seats {
    region: Region,
}

impl Seats {
    /// Bytes of the region of this many seats.
    pub const fn region_len(seats: usize) -> usize {
        seats * LINE_BYTES
    }

    /// The seats in `region`, which is zeroed memory or holds seats: one for each line.
    pub fn attach(region: Region) -> Seats {
        Seats { region }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.region.lines().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    fn word(&self, number: u16) -> Option<&Word> {
        self.region.lines().get(usize::from(number)).map(|line| &line[0])
    }

    /// Begins a life at this place; the one before is gone. `None` if there is no such place.
    pub fn enter(&self, number: u16) -> Option<Seat> {
        let word = self.word(number)?;
        let mut old = load(word);
        loop {
            let generation = (old as u16 | 1).wrapping_add(if old % 2 == 1 { 2 } else { 0 });
            match exchange(word, old, generation.into()) {
                Ok(_) => return Some(Seat { number, generation }),
                Err(now) => old = now,
            }
        }
    }

    /// Ends a life: its core does nothing any more, and nobody is in its place.
    pub fn clear(&self, seat: Seat) {
        if let Some(word) = self.word(seat.number) {
            // Else somebody has ended it already.
            let _ = exchange(word, seat.generation.into(), seat.generation.wrapping_add(1).into());
        }
    }

    /// Whether this life has ended.
    #[inline]
    pub fn is_gone(&self, seat: Seat) -> bool {
        self.word(seat.number).is_none_or(|word| load(word) != seat.generation.into())
    }

    /// The lives that have begun and not ended, as far as anybody has said so.
    pub fn sitting(&self) -> impl Iterator<Item = Seat> {
        (0..self.len() as u16).filter_map(|number| {
            let generation = load(self.word(number)?) as u16;
            (generation % 2 == 1).then_some(Seat { number, generation })
        })
    }

    /// Whether nobody is in a place.
    #[inline]
    pub fn is_vacant(&self, number: u16) -> bool {
        self.word(number).is_none_or(|word| load(word).is_multiple_of(2))
    }
}
