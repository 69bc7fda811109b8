//! A machine that a supervisor shares out: hardware cores, each parked or in a domain; memory by
//! units; a seat for each place of a domain; the ledger. What the supervisor wants of it is an
//! [`Order`], which is carried out when its core's pass has ended ([`crate::supervised`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

use nile_abi::{CoreId, Instant, PhysAddr, Status};
use nile_domain::{DOMAINS, DomainId, Sizes, Thing, UNIT, has};
use nile_platform::domains::{LedgerWords, PartState, Renewal, SEAT_BYTES};
use nile_platform::{Domains, Entry, Grant, Seat, SeatPhase, Seated, Wanted};
use nile_ring::Region;

use crate::machine::SimManager;
use crate::memory::{BASE, SimMemory};
use crate::parts::DiskParts;
use crate::state::State;
use crate::units::Units;

/// Where a hardware core is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Parked, from then on.
    Parked(Instant),
    /// In a domain, as this core of it.
    In(DomainId, CoreId),
}

/// What the supervisor wants.
pub enum Order {
    /// Puts a domain together.
    Build(Build),
    /// Lets a core in.
    Admit(Entry),
    /// Takes these cores from whatever they do.
    Park(Vec<u16>),
}

/// A domain that is to be put together.
pub struct Build {
    /// The domain.
    pub id: DomainId,
    /// Its hardware, and how many cores its node can have.
    pub cores: Vec<u16>,
    pub most: usize,
    /// Its memory.
    pub memory: Vec<Grant>,
    /// Its part of a disk.
    pub part: Option<u16>,
    /// What it runs.
    pub text: Text,
}

/// What a domain's node is told: its program and its configuration.
#[derive(Clone, Debug)]
pub struct Text {
    /// What it is started for.
    pub program: String,
    /// Its configuration file.
    pub config: String,
}

/// The machine, as its supervisor's node and its domains share it.
pub struct Hardware {
    pub units: Rc<Units>,
    pub ledger: LedgerWords,
    pub parts: DiskParts,
    seats: Vec<Region>,
    cores: RefCell<Vec<Place>>,
    orders: RefCell<VecDeque<Order>>,
    /// The nodes of domains, by place.
    nodes: RefCell<BTreeMap<u8, Weak<RefCell<State>>>>,
    /// Cores that frames have come for, by their names in the machine.
    woken: RefCell<Vec<u32>>,
}

/// What a domain's node knows of its machine.
pub struct Domain {
    pub hardware: Rc<Hardware>,
    pub id: DomainId,
    /// Its part of a disk.
    pub part: Option<u16>,
}

impl Hardware {
    /// A machine with so many parked cores, so many bytes to give, behind its supervisor's, and
    /// these parts of a disk.
    pub fn new(cores: u16, supervisors: u64, bytes: u64, parts: DiskParts) -> Hardware {
        let start = PhysAddr((BASE.0 + supervisors).next_multiple_of(UNIT) + UNIT);
        let given = Grant { start, bytes: bytes - bytes % UNIT };
        let sizes = Sizes { cores, units: (given.bytes / UNIT) as u32, devices: parts.count() };
        let places = usize::from(cores).min(DOMAINS);
        Hardware {
            units: Rc::new(Units::new(given)),
            ledger: LedgerWords(Region::owned(sizes.words() * size_of::<u64>())),
            parts,
            seats: (0..places).map(|_| Region::owned(SEAT_BYTES)).collect(),
            cores: RefCell::new(vec![Place::Parked(Instant::START); cores.into()]),
            orders: RefCell::default(),
            nodes: RefCell::default(),
            woken: RefCell::default(),
        }
    }

    /// Where a hardware core is; `None` if there is no such.
    pub fn place(&self, core: u16) -> Option<Place> {
        self.cores.borrow().get(usize::from(core)).copied()
    }

    /// A hardware core is somewhere else from now on.
    pub fn put(&self, core: u16, place: Place) {
        if let Some(known) = self.cores.borrow_mut().get_mut(usize::from(core)) {
            *known = place;
        }
    }

    /// The hardware on which a domain's core runs.
    pub fn of(&self, id: DomainId, core: CoreId) -> Option<u16> {
        let cores = self.cores.borrow();
        let place = cores.iter().position(|it| *it == Place::In(id, core))?;
        Some(place as u16)
    }

    /// Whether any hardware core is in a domain.
    pub fn is_in_use(&self, id: DomainId) -> bool {
        self.cores.borrow().iter().any(|it| matches!(it, Place::In(of, _) if *of == id))
    }

    /// A hardware core that is in a domain to which the ledger does not give it.
    pub fn stray_core(&self) -> Option<(u16, DomainId)> {
        let cores = self.cores.borrow();
        (0u16..).zip(cores.iter()).find_map(|(core, place)| match place {
            Place::In(id, _) if !has(&self.ledger, *id, Thing::Core(core)) => Some((core, *id)),
            _ => None,
        })
    }

    /// A domain has a node from now on.
    pub fn begins(&self, id: DomainId, node: &Rc<RefCell<State>>) {
        self.nodes.borrow_mut().insert(id.slot, Rc::downgrade(node));
    }

    /// The next order.
    pub fn take_order(&self) -> Option<Order> {
        self.orders.borrow_mut().pop_front()
    }

    fn order(&self, order: Order) {
        self.orders.borrow_mut().push_back(order);
    }

    /// The seat of a place, from 1.
    pub fn seat(&self, slot: u8) -> Option<Seat> {
        let region = self.seats.get(usize::from(slot).checked_sub(1)?)?;
        Seat::new(region.clone())
    }

    /// All seats, by place.
    pub fn seats(&self) -> impl Iterator<Item = Seat> + '_ {
        self.seats.iter().filter_map(|region| Seat::new(region.clone()))
    }

    /// Interrupts a core of the machine that waits for frames or a knock, by its name.
    pub fn wake(&self, name: u32) {
        self.woken.borrow_mut().push(name);
    }

    /// Which cores are to be interrupted.
    pub fn take_woken(&self) -> Vec<u32> {
        self.woken.take()
    }

    fn is_parked(&self, core: u16, now: Instant) -> bool {
        matches!(self.place(core), Some(Place::Parked(since)) if since <= now)
    }

    /// Why a domain cannot be put together so; nothing is done then.
    fn check(&self, wanted: &Wanted<'_>, now: Instant) -> Result<Seat, Status> {
        let seat = self.seat(wanted.slot).ok_or(Status::Invalid)?;
        let given = self.units.given();
        let inside = |it: &Grant| {
            let offset = it.start.0.checked_sub(given.start.0);
            let is_given = offset.is_some_and(|offset| offset + it.bytes <= given.bytes);
            is_given && it.bytes > 0 && (it.start.0 | it.bytes).is_multiple_of(UNIT)
        };
        let is_able = !wanted.memory.is_empty() && wanted.memory.iter().all(inside);
        let there = |core: &u16| self.place(*core).is_some();
        let is_there = |part| self.parts.state(part).is_some_and(|it| it.is_there());
        let is_able = is_able && wanted.disk.is_none_or(is_there);
        if !is_able || wanted.cores.is_empty() || !wanted.cores.iter().all(there) {
            return Err(Status::Invalid);
        }
        let is_building =
            |slot| self.seat(slot).is_some_and(|it| it.phase() == SeatPhase::Building);
        let are_parked = wanted.cores.iter().all(|core| self.is_parked(*core, now));
        if !are_parked || (1..=self.seats.len() as u8).any(is_building) {
            return Err(Status::Busy);
        }
        Ok(seat)
    }

    /// A node's core that still reaches this memory, which is to be cleared for somebody else.
    fn reached_by(&self, grant: Grant, supervisor: &SimMemory) -> Option<String> {
        if let Some(core) = supervisor.reached_by(grant) {
            return Some(format!("the supervisor's {core}"));
        }
        self.nodes.borrow().iter().find_map(|(slot, node)| {
            let node = node.upgrade()?;
            let state = node.borrow();
            let own = state.memory.own()?;
            let is_made_of = [own.tables, own.pool].into_iter().any(|it| overlap(it, grant));
            let core = state.memory.reached_by(grant);
            let core = core.or(is_made_of.then_some(CoreId::BOOT))?;
            Some(format!("{core} of the domain in place {slot}"))
        })
    }
}

fn overlap(one: Grant, other: Grant) -> bool {
    one.start.0 < other.start.0 + other.bytes && other.start.0 < one.start.0 + one.bytes
}

impl Domain {
    /// What the domain shares with its supervisor.
    pub fn seated(&self) -> Option<Seated> {
        let DomainId { slot, generation } = self.id;
        let seat = self.hardware.seat(slot)?;
        Some(Seated { slot, seat, generation, memory: self.hardware.units.given() })
    }

    /// Asks the supervisor to let the hardware in that the domain has for this core, which is away.
    pub fn ask_in(&self, core: CoreId, root: PhysAddr) {
        let Some(Seated { seat, .. }) = self.seated() else { return };
        let Some(hardware) = seat.hardware(core.0) else { return };
        let (stack_top, node) = Default::default();
        seat.ask_in(&Entry { hardware, core: core.0, root, stack_top, node });
    }
}

impl SimManager {
    fn hardware(&self) -> Option<Rc<Hardware>> {
        self.state.borrow().supervises.clone()
    }

    fn clock(&self) -> Instant {
        self.state.borrow().time_of(CoreId::BOOT)
    }
}

impl Domains for SimManager {
    fn cores(&self) -> u16 {
        self.hardware().map_or(0, |it| it.cores.borrow().len() as u16)
    }

    fn memory(&self) -> Grant {
        let none = Grant { start: PhysAddr(0), bytes: 0 };
        self.hardware().map_or(none, |it| it.units.given())
    }

    fn most(&self) -> u8 {
        self.hardware().map_or(0, |it| it.seats.len() as u8)
    }

    fn seat(&self, slot: u8) -> Option<Seat> {
        self.hardware()?.seat(slot)
    }

    fn build(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        let hardware = self.hardware().ok_or(Status::NotFound)?;
        let seat = hardware.check(wanted, self.clock())?;
        seat.clear();
        seat.set_phase(SeatPhase::Building);
        hardware.order(Order::Build(Build {
            id: DomainId { slot: wanted.slot, generation: wanted.generation },
            cores: wanted.cores.to_vec(),
            most: wanted.cores.len().max(wanted.most.into()),
            memory: wanted.memory.to_vec(),
            part: wanted.disk,
            text: Text { program: wanted.program.into(), config: wanted.config.into() },
        }));
        Ok(())
    }

    fn admit(&self, entry: &Entry) -> Result<(), Status> {
        let hardware = self.hardware().ok_or(Status::NotFound)?;
        hardware.place(entry.hardware).ok_or(Status::Invalid)?;
        if !hardware.is_parked(entry.hardware, self.clock()) {
            return Err(Status::Busy);
        }
        hardware.order(Order::Admit(*entry));
        Ok(())
    }

    fn interrupt(&self, core: u16) {
        if let Some(hardware) = self.hardware() {
            let own = self.state.borrow().board.cores() as u32;
            hardware.wake(own + u32::from(core));
        }
    }

    fn is_parked(&self, core: u16) -> bool {
        self.hardware().is_some_and(|it| it.is_parked(core, self.clock()))
    }

    fn park(&self, cores: &[u16]) {
        if let Some(hardware) = self.hardware() {
            hardware.order(Order::Park(cores.to_vec()));
        }
    }

    /// Ends the run if any core of the machine still reaches the memory.
    fn scrub(&self, memory: Grant) {
        let Some(hardware) = self.hardware() else { return };
        let state = &mut *self.state.borrow_mut();
        if let Some(core) = hardware.reached_by(memory, &state.memory) {
            let why = format!("I5: {core} still reaches {memory:?}, which is cleared");
            state.violation.get_or_insert(why);
        }
        hardware.units.zero(memory);
    }

    /// All are parts.
    fn disks(&self) -> u16 {
        self.hardware().map_or(0, |it| it.parts.count())
    }

    fn is_part(&self, _: u16) -> bool {
        true
    }

    /// No device reaches the memory of a domain.
    fn confines(&self, _: u16) -> bool {
        true
    }

    fn renew(&self, disk: u16) -> bool {
        let Some(hardware) = self.hardware() else { return true };
        let renew = |part: PartState| part.renew(|name| hardware.wake(name)) == Renewal::Done;
        hardware.parts.state(disk).is_none_or(renew)
    }

    fn ledger(&self) -> Region {
        self.hardware().map_or_else(|| Region::owned(0), |it| it.ledger.0.clone())
    }
}
