//! The supervisor's loop: what the ledger's engine decides is done to the machine, and what the
//! machine and the domains do is told to the engine.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use nile_abi::{CoreId, Instant, PhysAddr, Status};
use nile_domain::{
    Action, Command, Deadlines, DomainId, Extent, Happened, Ledger, Lifecycle, Message, Name,
    Party, Phase, Refused, RequestId, Sizes, Supervisor, Thing, UNIT,
};
use nile_order::{SortedMap, SortedSet};
use nile_stl::node::domains::{Entry, LedgerWords, SEAT_CELLS, Seat, SeatLink, SeatPhase, Wanted};
use nile_stl::node::{Domains, Grant};

const DEADLINES: Deadlines = Deadlines {
    // A busy host has its virtual machines wait for seconds.
    ask: Duration::from_secs(5),
    force: Duration::from_millis(100),
    build: Duration::from_secs(10),
    start: Duration::from_secs(10),
    stop: Duration::from_secs(5),
};

/// Units of memory that are zeroed before others of this core go on.
const AT_ONCE: usize = 1;

/// Accesses of disks to memory of others that are counted at one look.
const MOST_STRAYS: usize = 16;

/// Ended commands that are remembered for who asks.
const MOST_ENDED: usize = 64;

/// How soon the machine is to be looked at again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// There is more to do.
    AtOnce,
    /// Something is under way.
    Soon,
    /// Domains run.
    Seldom,
    /// There are none.
    Never,
}

/// What a domain's node is started for, and its configuration.
struct Text {
    program: String,
    config: String,
}

/// A supervisor on the managing core of a node that supervises its machine.
pub struct Running {
    /// The ledger's engine.
    pub supervisor: Supervisor<LedgerWords>,
    first: PhysAddr,
    links: SortedMap<u8, SeatLink>,
    texts: SortedMap<Name, Text>,
    /// Cores that are being taken.
    forced: SortedSet<u16>,
    /// Memory that is to be zeroed, and of which so many units are.
    dirty: VecDeque<(Extent, usize)>,
    /// Disks that are being made as new.
    renewed: SortedSet<u16>,
    /// Commands that have not ended, and those that have.
    waiting: SortedSet<RequestId>,
    ended: VecDeque<(RequestId, Result<(), String>)>,
    /// What domains have said last, by place.
    last_words: SortedMap<u8, String>,
    /// What domains said that is not domcon's.
    pub others: VecDeque<Vec<u8>>,
    /// When a core was last seen to be parked that was to leave.
    pub parked: Instant,
    /// Disks that the machine can keep to the memory of their domains, and those that are parts.
    confined: Vec<u16>,
    parts: Vec<u16>,
    /// Whether disks are kept to the memory of their domains, where the machine can: always, but
    /// in controls.
    pub confines_disks: bool,
    /// From how many accesses to memory that is not its own the disk of each domain was kept, by
    /// place, and what is still to be told of that.
    kept_off: SortedMap<u8, u64>,
    news: Vec<String>,
}

impl Running {
    /// A supervisor that goes on with the machine's ledger, or begins one. `None` where there is no
    /// memory for one, or what is there is none.
    pub fn begin(domains: &dyn Domains, now: Instant) -> Option<Running> {
        let memory = domains.memory();
        let units = (memory.bytes / UNIT) as u32;
        let sizes = Sizes { cores: domains.cores(), units, devices: domains.disks() };
        let region = domains.ledger();
        if region.words().len() < sizes.words() {
            return None;
        }
        let is_new = region.words()[0].load(Ordering::Acquire) == 0;
        let words = LedgerWords(region);
        let supervisor = match is_new {
            true => Supervisor::new(Ledger::found(words, sizes, &[], 0), DEADLINES),
            false => Supervisor::recover(Ledger::open(words).ok()?, DEADLINES, 0, now),
        };
        let mut running = Running {
            supervisor,
            first: memory.start,
            links: SortedMap::new(),
            texts: SortedMap::new(),
            forced: SortedSet::new(),
            dirty: VecDeque::new(),
            renewed: SortedSet::new(),
            waiting: SortedSet::new(),
            ended: VecDeque::new(),
            last_words: SortedMap::new(),
            others: VecDeque::new(),
            parked: now,
            confined: (0..sizes.devices).filter(|disk| domains.confines(*disk)).collect(),
            parts: (0..sizes.devices).filter(|disk| domains.is_part(*disk)).collect(),
            confines_disks: true,
            kept_off: SortedMap::new(),
            news: Vec::new(),
        };
        let known: Vec<DomainId> = running.supervisor.ledger().domains().map(|it| it.id).collect();
        for id in known {
            // A seat that is missing is that of no domain.
            let _ = running.connect(domains, id);
        }
        Some(running)
    }

    /// What the node of a domain of this name is started for from now on.
    pub fn set_text(&mut self, name: Name, program: &str, config: &str) {
        let (program, config) = (program.into(), config.into());
        self.texts.insert(name, Text { program, config });
    }

    /// Takes a command on, or refuses it.
    pub fn command(&mut self, now: Instant, command: &Command) -> Result<RequestId, Refused> {
        let request = self.supervisor.command(now, command)?;
        self.waiting.insert(request);
        Ok(request)
    }

    /// How a command has ended, once.
    pub fn take_outcome(&mut self, request: RequestId) -> Option<Result<(), String>> {
        let place = self.ended.iter().position(|(ended, _)| *ended == request)?;
        self.ended.remove(place).map(|(_, outcome)| outcome)
    }

    /// What the domain in a place has said last when it failed.
    pub fn last_words(&self, slot: u8) -> &str {
        self.last_words.get(&slot).map_or("", |it| it)
    }

    /// Whether the domain of a name has a part of the supervisor's disk.
    pub fn has_part(&self, name: Name) -> bool {
        let domain = self.supervisor.ledger().named(name);
        let disk = domain.and_then(|it| self.disk_of(it.id.slot));
        disk.is_some_and(|disk| self.parts.contains(&disk))
    }

    /// Whether a domain with this disk, or without one, has none that reaches other memory than its
    /// own.
    pub fn isolates(&self, disk: Option<u16>) -> bool {
        disk.is_none_or(|disk| self.confines_disks && self.confined.contains(&disk))
    }

    /// From how many accesses to memory that is not its domain's the disk of the one in a place was
    /// kept.
    pub fn kept_off(&self, slot: u8) -> u64 {
        self.kept_off.get(&slot).copied().unwrap_or_default()
    }

    /// What is to be told of such accesses, a line each, since this was asked.
    pub fn take_news(&mut self) -> Vec<String> {
        core::mem::take(&mut self.news)
    }

    /// Says something to a domain; whether there was room.
    pub fn say(&mut self, slot: u8, cell: &[u8]) -> bool {
        self.links.get_mut(&slot).is_some_and(|link| link.send(cell))
    }

    /// Tells a domain that there is something to hear, on the core where it says that its managing
    /// core is, if it has that.
    fn knock(&self, domains: &dyn Domains, slot: u8) {
        let Some(seat) = domains.seat(slot) else { return };
        seat.knock();
        let core = seat.hardware(CoreId::BOOT.0).filter(|core| {
            let holding = (*core < domains.cores())
                .then(|| self.supervisor.ledger().holding(Thing::Core(*core)));
            holding.is_some_and(|it| it.is_of(slot))
        });
        core.into_iter().for_each(|core| domains.interrupt(core));
    }

    /// One look at everything.
    pub fn turn(&mut self, domains: &dyn Domains, now: Instant) -> Pace {
        self.act(domains, now);
        self.listen(now);
        self.look(domains, now);
        self.count_strays(domains);
        self.scrub(domains, now);
        self.renew(domains, now);
        self.supervisor.tick(now);
        self.act(domains, now);
        if !self.dirty.is_empty() {
            return Pace::AtOnce;
        }
        let is_busy = !self.waiting.is_empty() || !self.renewed.is_empty();
        // What is lent may be due later than in a while: it is looked for as what domains say.
        if is_busy || self.supervisor.is_at_work() {
            return Pace::Soon;
        }
        match self.supervisor.ledger().domains().next() {
            Some(_) => Pace::Seldom,
            None => Pace::Never,
        }
    }

    fn act(&mut self, domains: &dyn Domains, now: Instant) {
        let (mut park, mut headless) = (Vec::new(), Vec::new());
        while let Some(action) = self.supervisor.take_action() {
            match action {
                Action::Build(id) => {
                    if let Err(why) = self.build(domains, id) {
                        self.last_words.insert(id.slot, why);
                        self.supervisor.happened(now, Happened::NotBuilt(id));
                    }
                }
                // Its cores enter when it is put together.
                Action::Start(_) => {}
                Action::Reset(disk) => {
                    self.renewed.insert(disk);
                }
                Action::Send(id, message) => {
                    if let Message::OfferMemory(extent) = message {
                        self.extend(domains, id.slot, extent);
                    }
                    self.say(id.slot, &message.encode(id));
                    self.knock(domains, id.slot);
                }
                Action::Force(core) => {
                    headless.extend(self.managed_on(domains, core));
                    park.push(core);
                }
                Action::Scrub(extent) => self.dirty.push_back((extent, 0)),
                Action::Forget(id) => {
                    self.links.remove(&id.slot);
                    domains.seat(id.slot).into_iter().for_each(|seat| seat.clear());
                }
                Action::Tell(request, outcome) => self.end(request, outcome),
            }
        }
        // One that has left by itself need not be taken.
        park.retain(|core| !domains.is_parked(*core) && !self.forced.contains(core));
        if !park.is_empty() {
            domains.park(&park);
        }
        self.forced.extend(park);
        // Without its managing core a domain is none.
        for id in headless {
            self.supervisor.happened(now, Happened::Ended(id));
        }
    }

    /// The running domain whose managing core a hardware core is, as it says itself.
    fn managed_on(&self, domains: &dyn Domains, core: u16) -> Option<DomainId> {
        let ledger = self.supervisor.ledger();
        let mut running = ledger.domains().filter(|it| it.state.is_running());
        let domain = running.find(|it| ledger.holding(Thing::Core(core)).is_of(it.id.slot))?;
        let seat = domains.seat(domain.id.slot)?;
        (seat.hardware(CoreId::BOOT.0) == Some(core)).then_some(domain.id)
    }

    fn end(&mut self, request: RequestId, outcome: Result<(), Refused>) {
        self.waiting.remove(&request);
        let outcome = outcome.map_err(|why| why.to_string());
        // Whoever asks no more leaves what there is to say.
        self.ended.truncate(MOST_ENDED);
        self.ended.push_front((request, outcome));
    }

    fn build(&mut self, domains: &dyn Domains, id: DomainId) -> Result<(), String> {
        self.last_words.remove(&id.slot);
        self.kept_off.remove(&id.slot);
        let ledger = self.supervisor.ledger();
        let text = ledger.domain(id).and_then(|domain| self.texts.get(&domain.name));
        let Some(Text { program, config }) = text else {
            return Err("nobody has said what it is for".into());
        };
        let cores = ledger.cores_with(|it| it.is_own(id.slot));
        let memory = ledger.extents_with(|it| it.is_own(id.slot));
        let memory: Vec<Grant> = memory.iter().map(|it| self.grant(it.start, it.count)).collect();
        let limits = ledger.domain(id).map(|domain| domain.limits);
        let most = limits.map_or(0, |limits| limits.cores.1);
        let units = limits.map_or(0, |limits| limits.units.1.min(ledger.sizes().units));
        let (slot, generation) = (id.slot, id.generation);
        let disk = self.disk_of(id.slot);
        let wanted = Wanted {
            slot,
            generation,
            cores: &cores,
            most,
            memory: &memory,
            most_memory: u64::from(units) * UNIT,
            disk,
            confines_disk: self.confines_disks,
            program,
            config,
        };
        domains.build(&wanted).map_err(|status| format!("the machine refuses: {status}"))?;
        self.connect(domains, id).ok_or_else(|| "it has no seat".into())
    }

    fn connect(&mut self, domains: &dyn Domains, id: DomainId) -> Option<()> {
        let link = domains.seat(id.slot)?.supervisor_end(id.generation).ok()?;
        self.links.insert(id.slot, link);
        Some(())
    }

    fn grant(&self, start: u32, count: u32) -> Grant {
        let start = PhysAddr(self.first.0 + u64::from(start) * UNIT);
        Grant { start, bytes: u64::from(count) * UNIT }
    }

    fn disk_of(&self, slot: u8) -> Option<u16> {
        let mut devices = self.supervisor.ledger().devices();
        devices.find(|(_, it)| it.is_own(slot)).map(|(disk, _)| disk)
    }

    /// A domain's disk reaches memory before the domain is told that it has it.
    fn extend(&self, domains: &dyn Domains, slot: u8, extent: Extent) {
        if let Some(disk) = self.disk_of(slot) {
            domains.extend(disk, self.grant(extent.start, extent.count));
        }
    }

    /// Accesses to memory from which disks were kept.
    fn count_strays(&mut self, domains: &dyn Domains) {
        for stray in (0..MOST_STRAYS).map_while(|_| domains.stray()) {
            let ledger = self.supervisor.ledger();
            let holding = stray.disk.map(|disk| ledger.holding(Thing::Device(disk)));
            let domain = holding.and_then(|it| match it.owner {
                Party::Domain(slot) => ledger.in_slot(slot),
                _ => None,
            });
            let Some(domain) = domain else {
                self.news.push(format!("{stray}, and is kept from it"));
                continue;
            };
            let count = self.kept_off.entry(domain.id.slot).or_default();
            *count += 1;
            // One that goes on is told of ever more seldom.
            if count.is_power_of_two() {
                let line = format!("{}: {stray}, and is kept from it ({count})", domain.name);
                self.news.push(line);
            }
        }
        self.news.truncate(MOST_ENDED);
    }

    /// What domains say.
    fn listen(&mut self, now: Instant) {
        let mut heard = Vec::new();
        for (slot, link) in &mut self.links {
            // No more than there is room for: some domain may send without end.
            for _ in 0..SEAT_CELLS {
                let Ok(Some(message)) = link.receive() else { break };
                heard.push((*slot, message));
            }
        }
        for (slot, message) in heard {
            match Message::decode(message.payload()) {
                Ok((id, said)) if id.slot == slot => self.supervisor.heard(now, id, said),
                // No domain speaks for another.
                Ok(_) => {}
                Err(_) => {
                    self.others.truncate(MOST_ENDED);
                    self.others.push_front(message.payload().to_vec());
                }
            }
        }
    }

    /// What cores and seats show.
    fn look(&mut self, domains: &dyn Domains, now: Instant) {
        let all: Vec<_> = self.supervisor.ledger().domains().collect();
        for domain in all {
            let Some(seat) = domains.seat(domain.id.slot) else { continue };
            let phase = seat.phase();
            let words = seat.last_words();
            if !words.is_empty() {
                self.last_words.insert(domain.id.slot, words);
            }
            match (domain.state, phase) {
                (Lifecycle::Building, SeatPhase::Started) => {
                    self.supervisor.happened(now, Happened::Built(domain.id));
                }
                (Lifecycle::Building, SeatPhase::NotBuilt) => {
                    self.supervisor.happened(now, Happened::NotBuilt(domain.id));
                }
                (Lifecycle::Dead, _) => {}
                _ if phase.is_over() => {
                    self.supervisor.happened(now, Happened::Ended(domain.id));
                }
                _ => self.admit(domains, domain.id.slot, &seat),
            }
        }
        let cores = self.supervisor.ledger().cores_with(|it| it.phase == Phase::Leaving);
        for core in cores.into_iter().filter(|core| domains.is_parked(*core)) {
            self.forced.remove(&core);
            self.parked = now;
            self.supervisor.happened(now, Happened::Parked(core));
        }
    }

    /// Lets a core in that a domain asks for and has been offered, once it is parked.
    fn admit(&self, domains: &dyn Domains, slot: u8, seat: &Seat) {
        let Some(entry) = seat.asked_in() else { return };
        // As soon as the core runs, the domain may ask for its next one, which is not answered.
        if !self.may_enter(slot, &entry) || domains.admit(&entry) != Err(Status::Busy) {
            seat.answer(&entry);
        }
    }

    /// Whether the domain has what it names: the core, and the root of the space that it enters.
    fn may_enter(&self, slot: u8, entry: &Entry) -> bool {
        let ledger = self.supervisor.ledger();
        let root = entry.root.0.checked_sub(self.first.0).map(|offset| offset / UNIT);
        let Some(root) = root.and_then(|it| u32::try_from(it).ok()) else { return false };
        if entry.hardware >= ledger.sizes().cores || root >= ledger.sizes().units {
            return false;
        }
        [Thing::Core(entry.hardware), Thing::Unit(root)].into_iter().all(|thing| {
            let holding = ledger.holding(thing);
            holding.is_of(slot) && holding.is_had()
        })
    }

    /// Goes on with disks that nobody has any more.
    fn renew(&mut self, domains: &dyn Domains, now: Instant) {
        let Running { renewed, supervisor, .. } = self;
        renewed.retain(|disk| {
            let is_done = domains.renew(*disk);
            if is_done {
                supervisor.happened(now, Happened::Reset(*disk));
            }
            !is_done
        });
    }

    /// Zeroes some of what nobody uses.
    fn scrub(&mut self, domains: &dyn Domains, now: Instant) {
        let Some((extent, done)) = self.dirty.pop_front() else { return };
        let units: Vec<u32> = extent.units().skip(done).take(AT_ONCE).collect();
        units.iter().for_each(|unit| domains.scrub(self.grant(*unit, 1)));
        let done = done + units.len();
        match done < extent.count as usize {
            true => self.dirty.push_front((extent, done)),
            false => self.supervisor.happened(now, Happened::Scrubbed(extent)),
        }
    }
}
