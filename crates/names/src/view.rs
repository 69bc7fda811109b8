//! Which stores count as the keepers: a *seat* for each of them, in the order of the configuration.

use alloc::vec::Vec;

use nile_stl_macros::Record;

/// The most keepers that a message can name.
pub(crate) const MOST_KEEPERS: usize = 16;

/// One keeper, as its store's identity says.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Seat {
    /// A number that was drawn when the store was made; no other ever has it.
    pub identity: u64,
    /// Whether it was there from the first. One that is no founder has taken a lost one's place.
    pub is_founder: bool,
}

/// The keepers that one believes in. Empty: one believes in none yet.
#[derive(Record, Clone, PartialEq, Eq, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct View {
    /// One for each keeper.
    #[range(0..=MOST_KEEPERS)]
    pub seats: Vec<Seat>,
}

/// What a keeper knows of itself for good.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Charter {
    /// Its store's identity.
    pub identity: u64,
    /// The keepers that it believes in, once it is *in*: it keeps names.
    pub view: Option<View>,
    /// The last life of which another keeper has heard, as far as this one knows.
    pub before: u64,
    /// This life of its own, or the last.
    pub life: u64,
    /// Of each keeper the last life that it has heard of; zero is none.
    #[range(0..=MOST_KEEPERS)]
    pub lives: Vec<u64>,
}

impl View {
    /// The first view.
    pub(crate) fn founded(identities: impl Iterator<Item = u64>) -> View {
        View { seats: identities.map(|identity| Seat { identity, is_founder: true }).collect() }
    }

    /// The same with a new store in place of a lost one. None if there is no such seat.
    pub(crate) fn with(&self, seat: usize, identity: u64) -> Option<View> {
        let mut view = self.clone();
        *view.seats.get_mut(seat)? = Seat { identity, is_founder: false };
        Some(view)
    }

    /// Whether the store has the seat.
    pub(crate) fn names(&self, seat: usize, identity: u64) -> bool {
        self.seats.get(seat).is_some_and(|it| it.identity == identity)
    }
}

/// How many of so many keepers are a majority.
pub(crate) fn majority(keepers: usize) -> usize {
    keepers / 2 + 1
}
