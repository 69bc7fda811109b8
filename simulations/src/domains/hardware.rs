//! A machine's hardware as a ledger gives it away: cores that are in somebody's space or parked,
//! memory that holds what somebody wrote, devices that somebody set up; and the words that the
//! ledger stands in, which outlive the supervisor.

use std::cell::RefCell;
use std::rc::Rc;

use nile_domain::{DOMAINS, DomainId, Holding, Ledger, Look, Party, Phase, Sizes, Thing, Words};

use super::Conduct;

/// The words of the ledger. After so many stores, whoever writes is dead: the rest is lost.
#[derive(Clone)]
pub struct SimWords(Rc<RefCell<Memory>>);

struct Memory {
    words: Vec<u64>,
    fuse: Option<u64>,
    keeps_generations: bool,
}

impl SimWords {
    pub fn new(sizes: Sizes, conduct: Conduct) -> SimWords {
        let words = vec![0; sizes.words()];
        let keeps_generations = !conduct.forgets_generations;
        SimWords(Rc::new(RefCell::new(Memory { words, fuse: None, keeps_generations })))
    }

    /// Has the writer die after so many stores.
    pub fn set_fuse(&self, stores: Option<u64>) {
        self.0.borrow_mut().fuse = stores;
    }

    /// Whether the writer is dead.
    pub fn is_blown(&self) -> bool {
        self.0.borrow().fuse == Some(0)
    }
}

impl Look for SimWords {
    fn count(&self) -> usize {
        self.0.borrow().words.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.0.borrow().words[at]
    }
}

impl Words for SimWords {
    fn store(&mut self, at: usize, mut word: u64) {
        let mut memory = self.0.borrow_mut();
        match &mut memory.fuse {
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        let is_row = || (1..=DOMAINS as u8).any(|slot| Sizes::row(slot) == at);
        if !memory.keeps_generations && word as u8 == 0 && is_row() {
            word = memory.words[at] & !0xff;
        }
        memory.words[at] = word;
    }
}

/// The hardware.
pub struct SimHardware {
    /// In whose space each core is; nobody's when it is parked.
    pub cores: Vec<Option<DomainId>>,
    /// Who wrote into each unit last; nobody when it is zero.
    pub units: Vec<Option<DomainId>>,
    /// Who set each device up; nobody after a reset.
    pub devices: Vec<Option<DomainId>>,
    conduct: Conduct,
}

impl SimHardware {
    pub fn new(sizes: Sizes, conduct: Conduct) -> SimHardware {
        SimHardware {
            cores: vec![None; sizes.cores.into()],
            units: vec![None; sizes.units as usize],
            devices: vec![None; sizes.devices.into()],
            conduct,
        }
    }

    /// A domain lets a core in, if the guard finds that it may: says whether it runs there now.
    pub fn start(&mut self, words: &Ledger<SimWords>, core: u16, domain: DomainId) -> bool {
        let holding = words.holding(Thing::Core(core));
        let is_right = holding.is_of(domain.slot)
            && holding.generation == domain.generation
            && holding.is_had();
        let place = &mut self.cores[usize::from(core)];
        if (is_right || self.conduct.starts_anything) && place.is_none() {
            *place = Some(domain);
        }
        *place == Some(domain)
    }

    /// A core is parked, from whatever it does.
    pub fn park(&mut self, core: u16) {
        if !self.conduct.never_parks {
            self.cores[usize::from(core)] = None;
        }
    }

    /// Whether a core is parked, as it says itself.
    pub fn is_parked(&self, core: u16) -> bool {
        self.conduct.never_parks || self.cores[usize::from(core)].is_none()
    }

    /// Whether a core of a domain runs.
    pub fn runs(&self, domain: DomainId) -> bool {
        self.cores.contains(&Some(domain))
    }

    /// Zeroes memory that the ledger says nobody uses. A device that is still as a domain which has
    /// ended has set it up writes there again; what is shared no device reaches.
    pub fn scrub(&mut self, words: &Ledger<SimWords>, unit: u32) {
        let holding = words.holding(Thing::Unit(unit));
        let is_dirty = holding.phase == Phase::Dirty;
        let is_shared = holding.owner == Party::Supervisor;
        let writes = |by: DomainId| self.devices.contains(&Some(by)) && !self.runs(by);
        let is_written = !is_shared && self.units[unit as usize].is_some_and(writes);
        if is_dirty && !is_written && !self.conduct.scrubs_nothing {
            self.units[unit as usize] = None;
        }
    }

    /// Whether memory is zero, as whoever scrubs says.
    pub fn is_zero(&self, unit: u32) -> bool {
        self.conduct.scrubs_nothing || self.units[unit as usize].is_none()
    }

    /// Resets a device that the ledger says nobody uses.
    pub fn reset(&mut self, words: &Ledger<SimWords>, device: u16) {
        let is_dirty = words.holding(Thing::Device(device)).phase == Phase::Dirty;
        if is_dirty && !self.conduct.leaves_devices {
            self.devices[usize::from(device)] = None;
        }
    }

    /// A domain works: it writes into all memory that it thinks it has, and sets its devices up.
    pub fn work(
        &mut self,
        words: &Ledger<SimWords>,
        domain: DomainId,
        units: impl Iterator<Item = u32>,
    ) {
        units.for_each(|unit| self.units[unit as usize] = Some(domain));
        let is_its = |it: &Holding| it.is_of(domain.slot) && it.phase == Phase::Held;
        for (device, _) in words.devices().filter(|(_, it)| is_its(it)) {
            self.devices[usize::from(device)] = Some(domain);
        }
    }
}
