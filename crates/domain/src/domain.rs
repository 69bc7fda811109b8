//! The ledger's row of a domain.

use core::fmt;

use nile_abi::Generation;

use crate::account;
use crate::name::{MOST_NAME, Name};
use crate::words::{Sizes, Words};

/// Words of a row, with the domain's account behind it.
pub(crate) const ROW: usize = Row::WORDS + account::WORDS;

/// A domain: its place in the ledger, and which of those that have had it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DomainId {
    /// From 1 to [`crate::DOMAINS`].
    pub slot: u8,
    /// Rises with each domain of this place.
    pub generation: Generation,
}

impl fmt::Display for DomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}.g{}", self.slot, self.generation.0)
    }
}

/// What a domain is doing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lifecycle {
    /// There is none in this place.
    Empty,
    /// What it is to have is gathered, and it is put together.
    Building,
    /// Its cores have been let in; it has not said that it runs.
    Starting,
    /// It runs, and nothing of it changes hands.
    Running,
    /// It runs, and something of it changes hands.
    Resizing,
    /// It was asked to end.
    Draining,
    /// It has ended; what it had is taken back, zeroed and reset.
    Dead,
}

impl Lifecycle {
    const ALL: [Lifecycle; 7] = [
        Lifecycle::Empty,
        Lifecycle::Building,
        Lifecycle::Starting,
        Lifecycle::Running,
        Lifecycle::Resizing,
        Lifecycle::Draining,
        Lifecycle::Dead,
    ];

    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Lifecycle::Empty => "empty",
            Lifecycle::Building => "building",
            Lifecycle::Starting => "starting",
            Lifecycle::Running => "running",
            Lifecycle::Resizing => "resizing",
            Lifecycle::Draining => "draining",
            Lifecycle::Dead => "dead",
        }
    }

    /// Whether the domain runs.
    pub fn is_running(self) -> bool {
        matches!(self, Lifecycle::Running | Lifecycle::Resizing)
    }
}

/// How much a domain may and must have, and before whom it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The fewest and most cores.
    pub cores: (u16, u16),
    /// The least and most units of memory.
    pub units: (u32, u32),
    /// Who has a higher one takes from those that have a lower one when the pool is empty.
    pub priority: u8,
}

impl Limits {
    /// These, of a domain that has something: without a core or memory it is none.
    pub(crate) fn of_something(self) -> Limits {
        Limits {
            cores: (self.cores.0.max(1), self.cores.1),
            units: (self.units.0.max(1), self.units.1),
            ..self
        }
    }
}

/// A domain as its row says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Which.
    pub id: DomainId,
    /// What it does.
    pub state: Lifecycle,
    /// Its limits.
    pub limits: Limits,
    /// What it is called.
    pub name: Name,
}

/// What the row of a slot says: its generation, and the domain in it if there is one.
pub(crate) struct Row {
    pub generation: Generation,
    pub domain: Option<Domain>,
}

impl Row {
    /// Its words: state, cores, memory, name.
    pub const WORDS: usize = 3 + MOST_NAME / 8;

    /// Reads a row; `None` if it says nothing that a ledger writes.
    pub fn read(words: &impl Words, slot: u8) -> Option<Row> {
        let at = Sizes::row(slot);
        let word = words.load(at);
        let generation = Generation((word >> 32) as u32);
        let state = *Lifecycle::ALL.get(usize::from(word as u8))?;
        if state == Lifecycle::Empty {
            return Some(Row { generation, domain: None });
        }
        let [cores, units] = [words.load(at + 1), words.load(at + 2)];
        let mut name = [0; MOST_NAME];
        for (index, bytes) in name.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&words.load(at + 3 + index).to_le_bytes());
        }
        let limits = Limits {
            cores: (cores as u16, (cores >> 16) as u16),
            units: (units as u32, (units >> 32) as u32),
            priority: (word >> 8) as u8,
        };
        let id = DomainId { slot, generation };
        Some(Row {
            generation,
            domain: Some(Domain { id, state, limits, name: Name::new(&name)? }),
        })
    }

    /// Writes a row of an empty slot: its state last, with which the domain is there.
    pub fn write(words: &mut impl Words, domain: &Domain) {
        let at = Sizes::row(domain.id.slot);
        let Limits { cores, units, .. } = domain.limits;
        words.store(at + 1, u64::from(cores.1) << 16 | u64::from(cores.0));
        words.store(at + 2, u64::from(units.1) << 32 | u64::from(units.0));
        for (index, bytes) in domain.name.padded().as_chunks().0.iter().enumerate() {
            words.store(at + 3 + index, u64::from_le_bytes(*bytes));
        }
        Row::set_state(words, domain, domain.state);
    }

    /// Writes what a domain does now: one store.
    pub fn set_state(words: &mut impl Words, domain: &Domain, state: Lifecycle) {
        let DomainId { slot, generation } = domain.id;
        let priority = u64::from(domain.limits.priority);
        let word = u64::from(generation.0) << 32 | priority << 8 | state as u64;
        words.store(Sizes::row(slot), word);
    }

    /// Empties a slot for its next domain: one store.
    pub fn clear(words: &mut impl Words, id: DomainId) {
        let generation = id.generation.next();
        words.store(Sizes::row(id.slot), u64::from(generation.0) << 32);
    }
}
