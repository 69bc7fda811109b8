//! The words that the ledger's truth stands in, and what each says.

use alloc::vec::Vec;

use nile_abi::Generation;

use crate::refused::Thing;
use crate::toll::{TOLL, Way};

/// The most domains of a machine at a time.
pub const DOMAINS: usize = 62;

/// Words that can be read.
pub trait Look {
    /// How many there are.
    fn count(&self) -> usize;
    /// Reads one.
    fn load(&self, at: usize) -> u64;
}

/// Where the ledger stands: words that outlive the supervisor's code. A store is whole or has not
/// happened, and stores happen in their order.
pub trait Words: Look {
    /// Writes one.
    fn store(&mut self, at: usize, word: u64);
}

impl Look for Vec<u64> {
    fn count(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize) -> u64 {
        self[at]
    }
}

impl Words for Vec<u64> {
    fn store(&mut self, at: usize, word: u64) {
        self[at] = word;
    }
}

/// What a machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Hardware cores.
    pub cores: u16,
    /// Units of memory.
    pub units: u32,
    /// Devices.
    pub devices: u16,
}

/// "NileDom" and the version of what follows.
const MAGIC: u64 = 0x4e69_6c65_446f_6d05;

/// Words before the tolls, which begin with a cache line: the magic number, and the sizes.
const HEAD: usize = TOLL;

impl Sizes {
    /// How many words a ledger of this machine takes.
    pub fn words(&self) -> usize {
        self.share(crate::share::SHARES)
    }

    pub(crate) fn write(&self, words: &mut impl Words) {
        let Sizes { cores, units, devices } = *self;
        let sizes = u64::from(units) << 32 | u64::from(devices) << 16 | u64::from(cores);
        words.store(1, sizes);
        // A ledger is one from here on.
        words.store(0, MAGIC);
    }

    /// The sizes that a ledger in these words has, if one is there and whole.
    pub(crate) fn read(words: &impl Look) -> Option<Sizes> {
        if words.count() < HEAD || words.load(0) != MAGIC {
            return None;
        }
        let sizes = words.load(1);
        let sizes = Sizes {
            cores: sizes as u16,
            units: (sizes >> 32) as u32,
            devices: (sizes >> 16) as u16,
        };
        (words.count() >= sizes.words()).then_some(sizes)
    }

    /// Whether there is such a thing.
    pub(crate) fn are(&self, thing: Thing) -> bool {
        match thing {
            Thing::Core(core) => core < self.cores,
            Thing::Unit(unit) => unit < self.units,
            Thing::Device(device) => device < self.devices,
        }
    }

    /// Where the word of a thing is.
    pub fn place(&self, thing: Thing) -> usize {
        match thing {
            Thing::Core(core) => self.core(core),
            Thing::Unit(unit) => self.unit(unit),
            Thing::Device(device) => self.device(device),
        }
    }

    /// Where a [toll](crate::Limit) of a domain begins, by its place.
    pub fn toll(way: Way, slot: u8) -> usize {
        HEAD + (way as usize * DOMAINS + usize::from(slot) - 1) * TOLL
    }

    /// Where the row of a domain begins, by its place. Its first word has generation and state.
    pub fn row(slot: u8) -> usize {
        Sizes::toll(Way::Disk, DOMAINS as u8 + 1) + (usize::from(slot) - 1) * crate::domain::ROW
    }

    pub(crate) fn core(&self, core: u16) -> usize {
        Sizes::row(DOMAINS as u8 + 1) + usize::from(core)
    }

    /// When a lent core is due: nanoseconds.
    pub(crate) fn due(&self, core: u16) -> usize {
        self.core(self.cores) + usize::from(core)
    }

    pub(crate) fn unit(&self, unit: u32) -> usize {
        self.due(self.cores) + unit as usize
    }

    pub(crate) fn device(&self, device: u16) -> usize {
        self.unit(self.units) + usize::from(device)
    }

    /// Where the row of a share begins.
    pub(crate) fn share(&self, row: usize) -> usize {
        self.device(self.devices) + row * crate::share::ROW
    }
}

/// Whose something is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    /// Nobody's: whoever asks may have it.
    Pool,
    /// The supervisor's own.
    Supervisor,
    /// A domain's, by its place in the ledger, from 1 to [`DOMAINS`].
    Domain(u8),
}

impl Party {
    const SUPERVISOR: u8 = 255;

    fn to_byte(self) -> u8 {
        match self {
            Party::Pool => 0,
            Party::Supervisor => Party::SUPERVISOR,
            Party::Domain(slot) => slot,
        }
    }

    fn from_byte(byte: u8) -> Option<Party> {
        match byte {
            0 => Some(Party::Pool),
            Party::SUPERVISOR => Some(Party::Supervisor),
            slot if usize::from(slot) <= DOMAINS => Some(Party::Domain(slot)),
            _ => None,
        }
    }
}

/// How far something is with its owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Nobody has it. Memory that is free is zero.
    Free,
    /// Its owner may have it and has not said that it does.
    Offered,
    /// Its owner has it.
    Held,
    /// Its owner is to give it back, or is dead.
    Leaving,
    /// Nobody uses it, and it holds what its last owner left there: memory is to be zeroed, a
    /// device to be reset.
    Dirty,
}

/// What the ledger says of one core, unit of memory or device: one word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// How far it is.
    pub phase: Phase,
    /// Whose it is.
    pub owner: Party,
    /// The owner's generation: a successor has nothing of its predecessor's.
    pub generation: Generation,
    /// Who has lent it to its owner; the pool if nobody has.
    pub lender: Party,
    /// Who gets it when it has left its owner.
    pub next: Party,
}

impl Holding {
    /// Nobody's.
    pub const FREE: Holding = Holding {
        phase: Phase::Free,
        owner: Party::Pool,
        generation: Generation(0),
        lender: Party::Pool,
        next: Party::Pool,
    };

    pub(crate) fn to_word(self) -> u64 {
        let phase = self.phase as u64;
        let [owner, lender, next] =
            [self.owner, self.lender, self.next].map(|it| u64::from(it.to_byte()));
        u64::from(self.generation.0) << 32 | next << 24 | lender << 16 | owner << 8 | phase
    }

    /// What a word says; `None` if it says nothing that a ledger writes.
    pub(crate) fn from_word(word: u64) -> Option<Holding> {
        let phase = match word as u8 {
            0 => Phase::Free,
            1 => Phase::Offered,
            2 => Phase::Held,
            3 => Phase::Leaving,
            4 => Phase::Dirty,
            _ => return None,
        };
        let party = |at: u32| Party::from_byte((word >> at) as u8);
        let it = Holding {
            phase,
            owner: party(8)?,
            generation: Generation((word >> 32) as u32),
            lender: party(16)?,
            next: party(24)?,
        };
        // What is free is wholly so, and nothing else is nobody's.
        ((it.owner == Party::Pool) == (it == Holding::FREE)).then_some(it)
    }
}
