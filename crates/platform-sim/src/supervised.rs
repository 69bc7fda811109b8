//! A machine that a supervisor shares out, in one virtual time: the supervisor's node, and a node
//! for each domain, which begins when the supervisor has it put together and is gone when its last
//! core is parked. Each node has a board, memory and tables of its own; what they share are
//! [seats](nile_platform::Seat), the ledger, and the hardware ([`crate::hardware`]).
//!
//! What must hold is looked at after every step. No hardware core is in a domain to which the
//! ledger does not give it (I3), no translation ends in memory that the ledger does not give
//! ([`crate::memory`], I2), nobody reaches memory that is cleared for the next one (I5), and a
//! domain's generation is later than that of its predecessor (I4).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, RoleSet};
use nile_domain::DomainId;
use nile_platform::{Entry, Grant, Loop, SeatPhase};

use crate::hardware::{Build, Domain, Hardware, Order, Place, Text};
use crate::machine::SimMachine;
use crate::memory::SimMemory;
use crate::network::Wire;
use crate::options::{Faults, Options};
use crate::parts::DiskParts;
use crate::simulation::{Finished, Scheduler, Stuck};
use crate::state::{Event, State};
use crate::units::Own;

/// Steps after which a run has got lost, however little time has passed in it.
const MOST_STEPS: u64 = 50_000_000;

/// What the seeds of domains are apart.
const LIFE: u64 = 0x9e37_79b9_7f4a_7c15;

/// How long it takes to put a domain together, at least and at most this more, and to park a core.
const BUILD: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(900));
const PARK: (Duration, Duration) = (Duration::from_micros(1), Duration::from_micros(200));

/// A run of a machine that is shared out.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// The supervisor's node: what it keeps.
    pub supervisor: Options,
    /// Cores that there are to give.
    pub cores: u16,
    /// Bytes of memory that there are to give; rounded down to whole 2 MiB.
    pub memory: u64,
    /// How many parts of the supervisor's last disk there are to give, and bytes of each.
    pub parts: (u16, u64),
    /// Whether all memory is zero that a domain is put together on: always, but where that is what
    /// is tested.
    pub zeroes: bool,
}

/// What a domain's node is made as.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What each core is for.
    pub roles: Vec<RoleSet>,
    /// Bytes of its pool of buffers, whole 2 MiB.
    pub pool: u64,
}

/// What the nodes of a machine run.
pub trait Image {
    /// What a domain is made as that has at most so many cores, and so much memory; or why it
    /// cannot do what it is for.
    fn plan(&self, text: &Text, cores: usize, memory: u64) -> Result<Plan, String>;

    /// The loop of a core: of a domain that is told this, or of the supervisor's node.
    fn begin(&self, machine: SimMachine, text: Option<&Text>) -> Box<dyn Loop>;
}

struct Machine<'a> {
    options: &'a MachineOptions,
    image: &'a dyn Image,
    hardware: Rc<Hardware>,
    supervisor: Scheduler<'a>,
    domains: BTreeMap<u8, (DomainId, Scheduler<'a>)>,
    /// The last generation of each place.
    generations: BTreeMap<u8, Generation>,
    clock: Instant,
}

/// Runs a machine until its supervisor's node has ended, and with it the machine.
pub fn simulate_machine(options: &MachineOptions, image: &dyn Image) -> Result<Finished, Stuck> {
    let MachineOptions { supervisor: node, cores, memory, parts, .. } = options;
    let parts = DiskParts::new(parts.0, parts.1);
    let hardware = Rc::new(Hardware::new(*cores, node.memory_bytes, *memory, parts));
    let begin = Box::new(|machine| image.begin(machine, None));
    let supervisor = Scheduler::new(node, Instant::START, begin);
    let address = MacAddress::local(NodeId(1), 0);
    supervisor.state.borrow_mut().wires = vec![Wire::new(address)];
    supervisor.state.borrow_mut().supervises = Some(hardware.clone());
    let (domains, generations, clock) = (BTreeMap::new(), BTreeMap::new(), Instant::START);
    let mut machine = Machine { options, image, hardware, supervisor, domains, generations, clock };
    let limit = Instant::START + node.limit;
    for _ in 0..MOST_STEPS {
        let went = machine.step();
        if machine.supervisor.has_ended() && !machine.supervisor.is_broken() {
            return Ok(machine.finish());
        }
        if !went || machine.supervisor.is_broken() || machine.clock > limit {
            break;
        }
    }
    Err(machine.give_up())
}

impl<'a> Machine<'a> {
    /// One thing that happens, in whichever node it happens first; `false` if nothing can, or a
    /// domain broke a rule.
    fn step(&mut self) -> bool {
        let own = self.supervisor.next_moment().map(|moment| (moment, 0));
        let domains = self.domains.iter();
        let others = domains.filter_map(|(slot, (_, node))| Some((node.next_moment()?, *slot)));
        let Some((moment, slot)) = own.into_iter().chain(others).min() else { return false };
        self.clock = self.clock.max(moment);
        match self.domains.get_mut(&slot) {
            Some((_, node)) => drop(node.step()),
            None => drop(self.supervisor.step()),
        }
        match slot {
            0 => self.obey(),
            _ => self.follow(slot),
        }
        self.hardware.take_woken().into_iter().for_each(|name| self.wake(name));
        if let Some((core, id)) = self.hardware.stray_core() {
            self.broken(format!("I3: hardware core {core} is in {id}, which has not got it"));
        }
        true
    }

    /// Notes what must never be.
    fn broken(&self, why: String) {
        self.supervisor.state.borrow_mut().violation.get_or_insert(why);
    }

    fn draw(&self, (least, more): (Duration, Duration)) -> Instant {
        self.clock + self.supervisor.state.borrow_mut().draw_span(least, more)
    }

    /// Interrupts a core that waits for frames, whosever it is now.
    fn wake(&self, name: u32) {
        let own = self.options.supervisor.roles.len() as u32;
        let (node, core) = match name.checked_sub(own) {
            None => (&self.supervisor, CoreId(name as u16)),
            Some(hardware) => {
                let Some(Place::In(id, core)) = self.hardware.place(hardware as u16) else {
                    return;
                };
                let Some((_, node)) = self.domains.get(&id.slot) else { return };
                (node, core)
            }
        };
        let mut state = node.state.borrow_mut();
        let at = self.clock.max(state.clock);
        state.schedule(at, Event::Frames { core });
    }

    /// Carries out what the supervisor wants. No cable is plugged into its interface.
    fn obey(&mut self) {
        let mut state = self.supervisor.state.borrow_mut();
        state.wires.iter_mut().for_each(|wire| wire.sent.clear());
        drop(state);
        while let Some(order) = self.hardware.take_order() {
            match order {
                Order::Build(build) => self.build(build),
                Order::Admit(entry) => self.admit(&entry),
                Order::Park(cores) => self.park(&cores),
            }
        }
    }

    fn build(&mut self, build: Build) {
        let id = build.id;
        let Some(seat) = self.hardware.seat(id.slot) else { return };
        let before = self.generations.insert(id.slot, id.generation);
        if before.is_some_and(|before| before >= id.generation)
            || self.domains.contains_key(&id.slot)
        {
            return self.broken(format!("I4: {id} comes after {before:?}"));
        }
        let holds = |it: &&Grant| !self.hardware.units.are_zero(**it);
        if let Some(piece) = build.memory.iter().find(holds).filter(|_| self.options.zeroes) {
            return self.broken(format!("I5: {id} gets {piece:?}, which holds something"));
        }
        match self.put_together(&build) {
            Ok(node) => {
                for (core, hardware) in (0u16..).zip(&build.cores) {
                    self.hardware.put(*hardware, Place::In(id, CoreId(core)));
                    seat.set_hardware(core, Some(*hardware));
                    let name = self.name(*hardware);
                    node.state.borrow().board.record(CoreId(core)).set_hardware_id(name);
                }
                self.hardware.begins(id, &node.state);
                self.domains.insert(id.slot, (id, node));
                seat.set_phase(SeatPhase::Started);
            }
            Err(why) => {
                seat.say(format_args!("{why}"));
                seat.set_phase(SeatPhase::NotBuilt);
            }
        }
    }

    /// What a hardware core is called in its machine: the supervisor's own come first.
    fn name(&self, hardware: u16) -> u64 {
        self.options.supervisor.roles.len() as u64 + u64::from(hardware)
    }

    fn put_together(&self, build: &Build) -> Result<Scheduler<'a>, String> {
        const TOO_LITTLE: &str =
            "too little memory for so many cores; give it more, or a smaller pool";
        let Build { id, most, text, .. } = build;
        let bytes = build.memory.iter().map(|it| it.bytes).sum();
        let plan = self.image.plan(text, *most, bytes)?;
        let given = self.hardware.units.given();
        let sizes = [SimMemory::table_bytes(*most, given, plan.pool), plan.pool];
        let Hardware { units, ledger, .. } = &*self.hardware;
        let own = Own::cut(units, ledger, *id, &build.memory, sizes).ok_or(TOO_LITTLE)?;
        let node = &self.options.supervisor;
        let place = u64::from(id.slot) << 32 | u64::from(id.generation.0);
        let options = Options {
            seed: node.seed.wrapping_add(place.wrapping_mul(LIFE)),
            roles: plan.roles,
            memory_bytes: bytes,
            pool_bytes: plan.pool,
            disks: Vec::new(),
            files: Vec::new(),
            faults: Faults { signal_delay: node.faults.signal_delay, ..Faults::default() },
            ..node.clone()
        };
        let pool = own.open_pool();
        let memory = SimMemory::of_domain(*most, given, own);
        let state = State::new(&options, memory, pool);
        let (image, text) = (self.image, text.clone());
        let begin = Box::new(move |machine| image.begin(machine, Some(&text)));
        let mut node = Scheduler::begin(&options, state, self.draw(BUILD), begin);
        let domain = Domain { hardware: self.hardware.clone(), id: *id, part: build.part };
        node.state.borrow_mut().domain = Some(domain);
        (build.cores.len()..*most).for_each(|core| node.begin_away(CoreId(core as u16)));
        Ok(node)
    }

    /// A parked core enters a space.
    fn admit(&mut self, entry: &Entry) {
        let core = CoreId(entry.core);
        let is_root = |state: &State| {
            core.index() < state.board.cores() && state.memory.root(core) == entry.root
        };
        let mut domains = self.domains.values();
        let domain = domains.find(|(_, node)| is_root(&node.state.borrow()));
        let Some((id, node)) = domain.filter(|(_, node)| node.is_away(core)) else {
            return self.broken(format!("I3: {entry:?} leads to no core that is away"));
        };
        self.hardware.put(entry.hardware, Place::In(*id, core));
        let mut state = node.state.borrow_mut();
        state.board.record(core).set_hardware_id(self.name(entry.hardware));
        let at = self.clock.max(state.clock);
        state.schedule(at, Event::CallBack { core });
    }

    /// Takes cores by force.
    fn park(&mut self, cores: &[u16]) {
        for hardware in cores {
            let Some(Place::In(id, core)) = self.hardware.place(*hardware) else { continue };
            if let Some((_, node)) = self.domains.get_mut(&id.slot) {
                node.lose_hardware(core);
            }
            self.hardware.put(*hardware, Place::Parked(self.draw(PARK)));
            self.end_if_alone(id);
        }
    }

    /// What has come of a step of a domain.
    fn follow(&mut self, slot: u8) {
        let Some((id, node)) = self.domains.get(&slot) else { return };
        let id = *id;
        let mut state = node.state.borrow_mut();
        let left: Vec<CoreId> = state.left.drain(..).collect();
        let log: Vec<String> = state.log.drain(..).collect();
        let violation = state.violation().cloned();
        drop(state);
        for core in left {
            if let Some(hardware) = self.hardware.of(id, core) {
                self.hardware.put(hardware, Place::Parked(self.draw(PARK)));
            }
        }
        self.supervisor.state.borrow_mut().log.extend(log);
        if let Some(why) = violation {
            self.broken(format!("{id}: {why}"));
        }
        self.end_if_alone(id);
    }

    /// A domain without hardware is no more. What its pool held stays where that was.
    fn end_if_alone(&mut self, id: DomainId) {
        if self.hardware.is_in_use(id) {
            return;
        }
        let Some((_, node)) = self.domains.remove(&id.slot) else { return };
        let ended = node.close();
        let mut state = self.supervisor.state.borrow_mut();
        state.trace.note_bytes(&ended.trace_hash.to_le_bytes());
        state.log.extend(ended.log);
    }

    /// The machine goes off.
    fn finish(mut self) -> Finished {
        for (_, (_, node)) in std::mem::take(&mut self.domains) {
            let ended = node.close();
            self.supervisor.state.borrow_mut().trace.note_bytes(&ended.trace_hash.to_le_bytes());
        }
        self.supervisor.finish()
    }

    fn give_up(self) -> Stuck {
        let seed = self.options.supervisor.seed;
        let domains = self.domains.into_values().map(|(id, node)| (id, node.give_up(seed)));
        let domains: Vec<(DomainId, Stuck)> = domains.collect();
        let mut stuck = self.supervisor.give_up(seed);
        for (id, one) in domains {
            stuck.cores.extend(one.cores.iter().map(|core| format!("{id}.{core}")));
            stuck.log.extend(one.log);
        }
        stuck
    }
}
