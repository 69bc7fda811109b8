//! Who owns what.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::Instant;

use crate::domain::{Domain, DomainId, Lifecycle, Row};
use crate::extent::Extent;
use crate::name::Name;
use crate::refused::Thing;
use crate::share;
use crate::words::{DOMAINS, Holding, Look, Party, Phase, Sizes, Words};

/// Who owns which core, unit of memory and device of a machine. Each has one owner at any moment.
#[derive(Clone, Debug)]
pub struct Ledger<W> {
    words: W,
    sizes: Sizes,
}

/// Whether a domain has something, shares it, or has yet to give it back, as the ledger in these
/// words says, which somebody else changes meanwhile: what a domain's guard asks.
pub fn has(words: &impl Look, domain: DomainId, thing: Thing) -> bool {
    let Some(sizes) = Sizes::read(words).filter(|it| it.are(thing)) else { return false };
    let Some(holding) = Holding::from_word(words.load(sizes.place(thing))) else { return false };
    if let Thing::Unit(unit) = thing
        && holding.owner == Party::Supervisor
    {
        return holding.phase == Phase::Held && share::shows(words, sizes, domain.slot, unit);
    }
    let is_out = matches!(holding.phase, Phase::Free | Phase::Dirty);
    holding.is_of(domain.slot) && holding.generation == domain.generation && !is_out
}

/// The place of the domain that has a device or has yet to give it back, as the ledger in these
/// words says, which somebody else changes meanwhile: what whoever drives the device asks.
pub fn user_of(words: &impl Look, device: u16) -> Option<u8> {
    let thing = Thing::Device(device);
    let sizes = Sizes::read(words).filter(|it| it.are(thing))?;
    let holding = Holding::from_word(words.load(sizes.place(thing)))?;
    match holding.owner {
        Party::Domain(slot) if !matches!(holding.phase, Phase::Free | Phase::Dirty) => Some(slot),
        _ => None,
    }
}

/// A word of the ledger says what none of its words says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// Its place.
    pub at: usize,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "word {} of the ledger is damaged", self.at)
    }
}

impl<W: Words> Ledger<W> {
    /// A new ledger in these words, which are zero and enough: the supervisor has the `cores` and
    /// the first `units`, and all else is free.
    pub fn found(mut words: W, sizes: Sizes, cores: &[u16], units: u32) -> Ledger<W> {
        let own = Holding { phase: Phase::Held, owner: Party::Supervisor, ..Holding::FREE };
        for core in cores {
            words.store(sizes.core(*core), own.to_word());
        }
        for unit in 0..units.min(sizes.units) {
            words.store(sizes.unit(unit), own.to_word());
        }
        sizes.write(&mut words);
        Ledger { words, sizes }
    }

    /// The ledger that stands in these words, if one does. Reads all of them.
    pub fn open(words: W) -> Result<Ledger<W>, Damaged> {
        let sizes = Sizes::read(&words).ok_or(Damaged { at: 0 })?;
        let ledger = Ledger { words, sizes };
        let mut generations = [None; DOMAINS + 1];
        for slot in 1..=DOMAINS as u8 {
            let at = Sizes::row(slot);
            let row = Row::read(&ledger.words, slot).ok_or(Damaged { at })?;
            generations[usize::from(slot)] = row.domain.map(|it| it.id.generation);
        }
        for thing in ledger.things() {
            let at = ledger.place(thing);
            let holding = Holding::from_word(ledger.words.load(at)).ok_or(Damaged { at })?;
            if let Party::Domain(slot) = holding.owner
                && generations.get(usize::from(slot)).copied().flatten() != Some(holding.generation)
            {
                return Err(Damaged { at });
            }
        }
        ledger.damaged_share().map_or(Ok(ledger), |at| Err(Damaged { at }))
    }

    /// What the machine has.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The words, for whoever looks at them.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// Gives the words back.
    pub fn into_words(self) -> W {
        self.words
    }

    /// Everything that has an owner.
    pub fn things(&self) -> impl Iterator<Item = Thing> + use<W> {
        let Sizes { cores, units, devices } = self.sizes;
        let cores = (0..cores).map(Thing::Core);
        cores.chain((0..units).map(Thing::Unit)).chain((0..devices).map(Thing::Device))
    }

    /// Whose something is. What cannot be read is given to nobody.
    pub fn holding(&self, thing: Thing) -> Holding {
        let unreadable = Holding { phase: Phase::Held, owner: Party::Supervisor, ..Holding::FREE };
        Holding::from_word(self.words.load(self.place(thing))).unwrap_or(unreadable)
    }

    /// Every core with its owner.
    pub fn cores(&self) -> impl Iterator<Item = (u16, Holding)> {
        (0..self.sizes.cores).map(|core| (core, self.holding(Thing::Core(core))))
    }

    /// Every device with its owner.
    pub fn devices(&self) -> impl Iterator<Item = (u16, Holding)> {
        (0..self.sizes.devices).map(|device| (device, self.holding(Thing::Device(device))))
    }

    /// The cores of which this holds.
    pub fn cores_with(&self, holds: impl Fn(&Holding) -> bool) -> Vec<u16> {
        self.cores().filter(|(_, it)| holds(it)).map(|(core, _)| core).collect()
    }

    /// The memory of which this holds, in as few extents as there can be, in rising order.
    pub fn extents_with(&self, holds: impl Fn(&Holding) -> bool) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for unit in (0..self.sizes.units).filter(|it| holds(&self.holding(Thing::Unit(*it)))) {
            match extents.last_mut() {
                Some(last) if last.units().end == unit => last.count += 1,
                _ => extents.push(Extent { start: unit, count: 1 }),
            }
        }
        extents
    }

    /// So many units of which this holds.
    pub fn units_with(&self, holds: impl Fn(&Holding) -> bool) -> u32 {
        self.extents_with(holds).iter().map(|extent| extent.count).sum()
    }

    /// So many free units, in few extents: the smallest that has them all, else the largest ones.
    /// `None` if fewer are free.
    pub fn choose(&self, units: u32) -> Option<Vec<Extent>> {
        if units == 0 {
            return Some(Vec::new());
        }
        let mut free = self.extents_with(|it| it.phase == Phase::Free);
        let fits = free.iter().filter(|it| it.count >= units).min_by_key(|it| it.count);
        if let Some(extent) = fits {
            return Some(alloc::vec![Extent { count: units, ..*extent }]);
        }
        nile_order::sort_by_key(&mut free, |it| (core::cmp::Reverse(it.count), it.start));
        let (mut chosen, mut left) = (Vec::new(), units);
        for extent in free {
            let count = extent.count.min(left);
            left -= count;
            chosen.push(Extent { count, ..extent });
            if left == 0 {
                return Some(chosen);
            }
        }
        None
    }

    /// All domains, in the order of their places.
    pub fn domains(&self) -> impl Iterator<Item = Domain> {
        (1..=DOMAINS as u8).filter_map(|slot| self.in_slot(slot))
    }

    /// The domain in a place.
    pub fn in_slot(&self, slot: u8) -> Option<Domain> {
        Row::read(&self.words, slot)?.domain
    }

    /// This very domain, if it is still there.
    pub fn domain(&self, id: DomainId) -> Option<Domain> {
        (1..=DOMAINS as u8).contains(&id.slot).then_some(())?;
        self.in_slot(id.slot).filter(|it| it.id == id)
    }

    /// The domain of this name.
    pub fn named(&self, name: Name) -> Option<Domain> {
        self.domains().find(|it| it.name == name)
    }

    /// A place without a domain, as the next one there will be called.
    pub fn empty_slot(&self) -> Option<DomainId> {
        (1..=DOMAINS as u8).find_map(|slot| {
            let row = Row::read(&self.words, slot)?;
            // The first domain of a place has the first generation.
            let generation = row.generation.max(nile_abi::Generation::FIRST);
            row.domain.is_none().then_some(DomainId { slot, generation })
        })
    }

    /// Whether a domain is mentioned by anything: as owner, lender or next.
    pub fn mentions(&self, slot: u8) -> bool {
        let party = Party::Domain(slot);
        self.things().any(|thing| {
            let Holding { owner, lender, next, .. } = self.holding(thing);
            [owner, lender, next].contains(&party)
        })
    }

    /// When a lent core is due.
    pub fn due(&self, core: u16) -> Instant {
        Instant::from_nanos(self.words.load(self.sizes.due(core)))
    }

    pub(crate) fn set_due(&mut self, core: u16, due: Instant) {
        self.words.store(self.sizes.due(core), due.as_nanos());
    }

    pub(crate) fn store(&mut self, at: usize, word: u64) {
        self.words.store(at, word);
    }

    /// Puts a domain into its empty place.
    pub(crate) fn enter(&mut self, now: Instant, domain: &Domain) {
        self.open_account(domain.id.slot, now);
        self.open_tolls(domain.id.slot);
        Row::write(&mut self.words, domain);
    }

    pub(crate) fn set_state(&mut self, domain: &Domain, state: Lifecycle) {
        if domain.state != state {
            Row::set_state(&mut self.words, domain, state);
        }
    }

    /// Makes room for the next domain of a place.
    pub(crate) fn clear(&mut self, id: DomainId) {
        Row::clear(&mut self.words, id);
    }

    /// Hands something over: one store.
    pub(crate) fn set(&mut self, thing: Thing, holding: Holding) {
        let at = self.place(thing);
        self.words.store(at, holding.to_word());
    }

    /// Somebody is offered something, or the pool gets it.
    pub(crate) fn hand(&mut self, thing: Thing, to: Option<DomainId>, lender: Party) {
        self.set(thing, to.map_or(Holding::FREE, |to| Holding::offered(to, lender)));
    }

    fn place(&self, thing: Thing) -> usize {
        self.sizes.place(thing)
    }
}

impl Holding {
    fn offered(to: DomainId, lender: Party) -> Holding {
        Holding {
            phase: Phase::Offered,
            owner: Party::Domain(to.slot),
            generation: to.generation,
            lender,
            next: Party::Pool,
        }
    }

    /// Whether it is a domain's.
    pub fn is_of(&self, slot: u8) -> bool {
        self.owner == Party::Domain(slot)
    }

    /// Whether a domain has it, or may take it at once.
    pub fn is_had(&self) -> bool {
        matches!(self.phase, Phase::Offered | Phase::Held)
    }

    /// Whether a domain has it, not from another one, and keeps it.
    pub fn is_own(&self, slot: u8) -> bool {
        self.is_of(slot) && self.is_had() && self.lender == Party::Pool
    }

    /// Who has lent it, and to whom: their places.
    pub fn loan(&self) -> Option<(u8, u8)> {
        match (self.lender, self.owner) {
            (Party::Domain(lender), Party::Domain(owner)) if lender != owner => {
                Some((lender, owner))
            }
            _ => None,
        }
    }

    /// Whether it counts towards what a domain may have at most: it has it, gets it, or has lent
    /// it.
    pub fn counts(&self, slot: u8) -> bool {
        [self.owner, self.lender, self.next].contains(&Party::Domain(slot))
    }
}
