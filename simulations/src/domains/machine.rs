//! The machine in virtual time: supervisor, domains, hardware and the lines between them.

mod sharing;

use std::collections::BTreeMap;
use std::time::Duration;

use nile_abi::Instant;
use nile_domain::{
    Act, Action, Command, Deadlines, DomainId, Extent, Happened, Ledger, Lifecycle, Look, Message,
    Phase, Sizes, Source, Supervisor, Thing,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::checks::{Checks, own, undisturbed};
use super::guest::{Guest, Manner};
use super::hardware::{SimHardware, SimWords};
use super::{Conduct, Seen, users};
use crate::draw::{below, span};
use crate::trace::Trace;

/// How long everybody may take.
pub const DEADLINES: Deadlines = Deadlines {
    ask: Duration::from_millis(10),
    force: Duration::from_millis(2),
    build: Duration::from_millis(50),
    start: Duration::from_millis(50),
    stop: Duration::from_millis(20),
};

/// Until when users and faults are at work; then all is destroyed.
const END: Instant = Instant::from_nanos(1_000_000_000);

/// How long that may take.
const REST: Duration = Duration::from_millis(500);

/// Units of memory and devices of the machine. The supervisor keeps a core and four units.
const UNITS: u32 = 48;
const OWN_UNITS: u32 = 4;
const DEVICES: u16 = 2;

enum Event {
    ToDomain(DomainId, Message),
    ToSupervisor(DomainId, Message),
    Hardware(Happened),
    /// A core of a domain tries to enter its space.
    Enters(u16, DomainId),
    /// A core of a domain does what it was asked: it goes.
    Goes(u16, DomainId),
    Scrubbed(Extent),
    /// A device is reset.
    Reset(u16),
    User,
    Blow,
    SupervisorBegins,
}

struct Machine<'t> {
    random: ChaCha8Rng,
    conduct: Conduct,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    words: SimWords,
    supervisor: Option<Supervisor<SimWords>>,
    hardware: SimHardware,
    guests: BTreeMap<DomainId, Guest>,
    /// When what is on the way to and from each domain arrives at the earliest: lines keep order.
    lines: BTreeMap<(DomainId, bool), Instant>,
    /// What nobody is there to hear.
    unheard: Vec<(DomainId, Message)>,
    requests: u64,
    checks: Checks,
    trace: &'t mut Trace,
    seen: &'t mut Seen,
}

/// Runs a machine; the first invariant that is broken, if one is.
pub fn run(
    seed: u64,
    cores: u16,
    conduct: Conduct,
    trace: &mut Trace,
    seen: &mut Seen,
) -> Result<(), String> {
    let sizes = Sizes { cores, units: UNITS, devices: DEVICES };
    let words = SimWords::new(sizes, conduct);
    let ledger = Ledger::found(words.clone(), sizes, &[0], OWN_UNITS);
    seen.supervisors = 1;
    let mut machine = Machine {
        random: ChaCha8Rng::seed_from_u64(seed),
        conduct,
        now: Instant::START,
        events: BTreeMap::new(),
        count: 0,
        words,
        supervisor: Some(Supervisor::new(ledger, DEADLINES)),
        hardware: SimHardware::new(sizes, conduct),
        guests: BTreeMap::new(),
        lines: BTreeMap::new(),
        unheard: Vec::new(),
        requests: 0,
        checks: Checks::new(Instant::START),
        trace,
        seen,
    };
    machine.at(Duration::ZERO, Event::User);
    machine.at(Duration::from_millis(5), Event::Blow);
    machine.live()?;
    machine.rest()
}

impl Machine<'_> {
    fn at(&mut self, after: Duration, event: Event) {
        self.count += 1;
        self.events.insert((self.now + after, self.count), event);
    }

    /// Something in a while that is short mostly, and sometimes longer than anybody waits.
    fn soon(&mut self, event: Event) {
        let after = self.draw_delay();
        self.at(after, event);
    }

    fn draw_delay(&mut self) -> Duration {
        let is_late = below(&mut self.random, 30) == 0;
        span(&mut self.random, Duration::from_micros(if is_late { 15_000 } else { 800 }))
    }

    /// A message on its line.
    fn say(&mut self, id: DomainId, to_domain: bool, message: Message) {
        let arrives = self.now + self.draw_delay();
        let earliest = self.lines.entry((id, to_domain)).or_insert(arrives);
        *earliest = arrives.max(*earliest);
        let after = earliest.since(self.now);
        self.at(
            after,
            match to_domain {
                true => Event::ToDomain(id, message),
                false => Event::ToSupervisor(id, message),
            },
        );
    }

    fn ledger(&self) -> Ledger<SimWords> {
        Ledger::open(self.words.clone()).expect("it was checked")
    }

    /// Until the end of its time.
    fn live(&mut self) -> Result<(), String> {
        while self.now < END {
            self.step()?;
        }
        Ok(())
    }

    /// Nothing more befalls it: everything is destroyed, and then it is as it was.
    fn rest(&mut self) -> Result<(), String> {
        self.words.set_fuse(None);
        self.events.retain(|_, event| !matches!(event, Event::User | Event::Blow));
        let end = self.now + REST;
        while self.now < end {
            for domain in self.ledger().domains() {
                let ends = matches!(domain.state, Lifecycle::Draining | Lifecycle::Dead);
                if !ends && self.supervisor.is_some() {
                    self.command(&Command::Destroy { name: domain.name, force: false })?;
                }
            }
            self.step()?;
        }
        let ledger = self.ledger();
        let own = ledger.cores_with(|it| it.phase != Phase::Free).len();
        let units = ledger.units_with(|it| it.phase != Phase::Free);
        let used = self.hardware.units.iter().flatten().count();
        match (own, units, used) == (1, OWN_UNITS, 0) && self.checks.all_told() {
            true => Ok(()),
            false => Err(format!("I14: {own} cores, {units} units are left, {used} used")),
        }
    }

    /// The next thing that happens.
    fn step(&mut self) -> Result<(), String> {
        let tick = self.supervisor.as_ref().and_then(Supervisor::due);
        let tick = tick.filter(|_| !self.conduct.has_no_clock);
        let next = self.events.keys().next().map(|(at, _)| *at);
        if let Some(tick) = tick
            && next.is_none_or(|next| tick <= next)
        {
            self.now = self.now.max(tick);
            let now = self.now;
            self.supervise(|it| it.tick(now))?;
        } else if let Some((key, event)) = self.events.pop_first() {
            self.now = self.now.max(key.0);
            self.happen(event)?;
        } else {
            self.now = self.now + Duration::from_millis(1);
        }
        self.work();
        self.seen.steps += 1;
        self.trace.note(self.now, self.seen.steps, 0, self.hardware_hash());
        let lives = self.supervisor.is_some();
        let Machine { checks, hardware, guests, now, .. } = self;
        let ledger = Ledger::open(self.words.clone()).map_err(|it| format!("I1: {it}"))?;
        checks.check(*now, &ledger, hardware, guests, lives)
    }

    /// Who is where, for the trace.
    fn hardware_hash(&self) -> u64 {
        let space = |id: &Option<DomainId>| id.map_or(0, |id| u64::from(id.slot));
        self.hardware.cores.iter().fold(0, |sum, it| sum.wrapping_mul(67).wrapping_add(space(it)))
    }

    /// Domains work.
    fn work(&mut self) {
        let ledger = self.ledger();
        for guest in self.guests.values() {
            if self.hardware.runs(guest.id) {
                let units = guest.units.union(&guest.shared).copied();
                self.hardware.work(&ledger, guest.id, units);
            }
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        let now = self.now;
        match event {
            Event::ToDomain(id, message) => self.domain_hears(id, message),
            Event::ToSupervisor(id, message) => match self.supervisor {
                None => self.unheard.push((id, message)),
                Some(_) => return self.supervise(|it| it.heard(now, id, message)),
            },
            Event::Hardware(what) => {
                // It is looked at when it is said.
                let is_so = match what {
                    Happened::Parked(core) => self.hardware.is_parked(core),
                    Happened::Scrubbed(extent) => {
                        extent.units().all(|unit| self.hardware.is_zero(unit))
                    }
                    _ => true,
                };
                if is_so {
                    return self.supervise(|it| it.happened(now, what));
                }
                // Some of it may be somebody's again, who works with it.
                if let Happened::Scrubbed(extent) = what
                    && extent.count > 1
                {
                    for start in extent.units() {
                        let one = Happened::Scrubbed(Extent { start, count: 1 });
                        self.happen(Event::Hardware(one))?;
                    }
                }
            }
            Event::Enters(core, id) => self.enters(core, id),
            Event::Goes(core, id) => self.goes(core, id),
            Event::Scrubbed(extent) => {
                let ledger = self.ledger();
                extent.units().for_each(|unit| self.hardware.scrub(&ledger, unit));
                self.soon(Event::Hardware(Happened::Scrubbed(extent)));
            }
            Event::Reset(device) => {
                let ledger = self.ledger();
                self.hardware.reset(&ledger, device);
                self.soon(Event::Hardware(Happened::Reset(device)));
            }
            Event::User => {
                let sizes = self.ledger().sizes();
                let command = users::draw(&mut self.random, sizes.cores, sizes.units);
                let after = span(&mut self.random, Duration::from_millis(12));
                self.at(after, Event::User);
                if below(&mut self.random, 8) == 0 {
                    return self.share();
                }
                return self.command(&command);
            }
            Event::Blow => return self.befall(),
            Event::SupervisorBegins => return self.begin(),
        }
        Ok(())
    }

    /// Somebody commands something. The command travels as a message.
    fn command(&mut self, command: &Command) -> Result<(), String> {
        let decoded = Command::decode(&command.encode());
        if decoded != Ok(*command) {
            return Err(format!("{command:?} becomes {decoded:?}"));
        }
        let now = self.now;
        let mut answer = None;
        self.supervise(|it| {
            let plan = it.plan(command);
            let request = it.command(now, command);
            answer = Some((plan, request));
        })?;
        match answer {
            // It died before it answered, or there is none.
            _ if self.supervisor.is_none() => Ok(()),
            Some((Ok(plan), Ok(request))) => {
                let taken = plan.cores.iter().filter(|(_, it)| *it != Source::Pool).count();
                self.seen.taken += taken as u64;
                if plan.to.is_some() {
                    self.seen.lent += plan.leave.len() as u64;
                }
                self.requests = self.requests.max(request.0);
                self.checks.asked(now, request)?;
                self.act()
            }
            Some((Err(said), Err(why))) if said == why => {
                self.seen.refused += 1;
                Ok(())
            }
            Some((plan, request)) => Err(format!("I6: {plan:?} was planned, and {request:?}")),
            None => Ok(()),
        }
    }

    /// Has the supervisor do something, if there is one, and does what it says then; unless it dies
    /// of it.
    fn supervise(&mut self, work: impl FnOnce(&mut Supervisor<SimWords>)) -> Result<(), String> {
        let Some(supervisor) = &mut self.supervisor else { return Ok(()) };
        work(supervisor);
        if self.words.is_blown() {
            self.supervisor_dies();
            return Ok(());
        }
        // A command's answer is known before it can end.
        if self.requests < supervisor.requests() {
            return Ok(());
        }
        self.act()
    }

    /// Does what the supervisor says.
    fn act(&mut self) -> Result<(), String> {
        while let Some(action) = self.supervisor.as_mut().and_then(Supervisor::take_action) {
            match action {
                Action::Build(id) => {
                    let fails = below(&mut self.random, 20) == 0;
                    let what = if fails { Happened::NotBuilt(id) } else { Happened::Built(id) };
                    self.soon(Event::Hardware(what));
                }
                Action::Start(id) => self.start(id),
                Action::Send(id, message) => self.say(id, true, message),
                Action::Force(core) => {
                    self.seen.forced += 1;
                    let space = self.hardware.cores[usize::from(core)];
                    self.hardware.park(core);
                    if let Some(guest) = space.and_then(|id| self.guests.get_mut(&id)) {
                        guest.end.left(core);
                        guest.leaving.remove(&core);
                    }
                    let after = span(&mut self.random, DEADLINES.force / 2);
                    self.at(after, Event::Hardware(Happened::Parked(core)));
                }
                Action::Scrub(extent) => self.soon(Event::Scrubbed(extent)),
                Action::Reset(device) => self.soon(Event::Reset(device)),
                Action::Forget(id) => {
                    self.checks.gone(&self.ledger(), id)?;
                    if self.hardware.runs(id) {
                        return Err(format!("I14: a core still runs for {id}"));
                    }
                    self.guests.remove(&id);
                }
                Action::Tell(request, outcome) => {
                    match outcome {
                        Ok(()) => self.seen.done += 1,
                        Err(_) => self.seen.refused += 1,
                    }
                    if !self.conduct.tells_nobody {
                        self.checks.told(request)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The cores of a domain are let in.
    fn start(&mut self, id: DomainId) {
        let ledger = self.ledger();
        let is_its = |it: &nile_domain::Holding| it.is_of(id.slot) && it.is_had();
        if self.guests.contains_key(&id) || ledger.domain(id).is_none() {
            return;
        }
        let (cores, units) = (ledger.cores_with(is_its), ledger.extents_with(is_its));
        let manner = Manner::draw(&mut self.random);
        self.guests.insert(id, Guest::new(id, manner, &cores, &units));
        for core in cores {
            self.soon(Event::Enters(core, id));
        }
    }

    fn enters(&mut self, core: u16, id: DomainId) {
        let ledger = self.ledger();
        let Some(guest) = self.guests.get_mut(&id).filter(|guest| guest.lives) else { return };
        let runs = self.hardware.start(&ledger, core, id);
        if guest.waits_for.remove(&core) {
            if runs && guest.waits_for.is_empty() && guest.manner != Manner::Hangs {
                guest.end.up();
                self.seen.created += 1;
            }
        } else if runs {
            guest.end.started(core);
        } else {
            guest.end.not_started(core);
        }
        self.domain_acts(id);
    }

    fn goes(&mut self, core: u16, id: DomainId) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if !guest.leaving.remove(&core) {
            return;
        }
        if self.hardware.cores[usize::from(core)] == Some(id) {
            self.hardware.park(core);
            guest.end.left(core);
            self.soon(Event::Hardware(Happened::Parked(core)));
        }
    }

    fn domain_hears(&mut self, id: DomainId, message: Message) {
        // A message travels as a cell.
        let Ok((id, message)) = Message::decode(&message.encode(id)) else { return };
        let Some(guest) = self.guests.get_mut(&id) else { return };
        if guest.lives && guest.manner != Manner::Hangs && self.hardware.runs(id) {
            guest.end.heard(message);
            self.domain_acts(id);
        }
    }

    /// Does what the domain's end says.
    fn domain_acts(&mut self, id: DomainId) {
        let conduct = self.conduct;
        loop {
            let Some(guest) = self.guests.get_mut(&id) else { return };
            let Some(act) = guest.end.take_act() else { return };
            match act {
                Act::Send(message) => self.say(id, false, message),
                Act::Start(core) => {
                    guest.leaving.remove(&core);
                    self.soon(Event::Enters(core, id));
                }
                Act::Leave(core) => match guest.manner {
                    Manner::Stays => {}
                    Manner::Refuses => guest.end.kept(core),
                    _ => {
                        guest.leaving.insert(core);
                        self.soon(Event::Goes(core, id));
                    }
                },
                // The hardware has seen to it.
                Act::Lost(core) => guest.leaving.retain(|it| *it != core),
                Act::Use(extent) => guest.units.extend(extent.units()),
                Act::Find(units) => {
                    let found = guest.find(units, conduct);
                    guest.end.found(found);
                }
                Act::Stop => self.domain_dies(id),
            }
        }
    }

    /// A domain ends; some of its cores may run wild until they are parked.
    fn domain_dies(&mut self, id: DomainId) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        guest.lives = false;
        let cores = 0..self.hardware.cores.len() as u16;
        let its = cores.filter(|core| self.hardware.cores[usize::from(*core)] == Some(id));
        for core in its.collect::<Vec<_>>() {
            if below(&mut self.random, 2) == 0 {
                self.hardware.park(core);
            }
        }
        self.soon(Event::Hardware(Happened::Ended(id)));
    }

    /// Something bad.
    fn befall(&mut self) -> Result<(), String> {
        let after = span(&mut self.random, Duration::from_millis(60));
        self.at(after, Event::Blow);
        let living: Vec<DomainId> =
            self.guests.values().filter(|guest| guest.lives).map(|guest| guest.id).collect();
        match below(&mut self.random, 5) {
            4 if !living.is_empty() => {
                // It tries to have a core that is perhaps another's.
                let which = below(&mut self.random, living.len() as u64) as usize;
                let core = below(&mut self.random, self.hardware.cores.len() as u64) as u16;
                let ledger = self.ledger();
                self.hardware.start(&ledger, core, living[which]);
            }
            0 if !living.is_empty() => {
                let which = below(&mut self.random, living.len() as u64) as usize;
                self.domain_dies(living[which]);
            }
            1 => {
                let stores = 1 + below(&mut self.random, 40);
                self.words.set_fuse(Some(stores));
            }
            2 if self.supervisor.is_some() => self.supervisor_dies(),
            _ if self.conduct.ignores_limits => self.give_too_much(),
            _ => {}
        }
        Ok(())
    }

    /// A domain gets all free cores, whatever its maximum is.
    fn give_too_much(&mut self) {
        use nile_domain::Words;
        let ledger = self.ledger();
        let Some(domain) = ledger.domains().find(|it| it.state == Lifecycle::Running) else {
            return;
        };
        let its = ledger.cores_with(|it| it.is_own(domain.id.slot));
        let place = |core| ledger.sizes().place(Thing::Core(core));
        let Some(one) = its.first() else { return };
        let word = self.words.load(place(*one));
        for core in ledger.cores_with(|it| it.phase == Phase::Free) {
            self.words.store(place(core), word);
        }
    }

    /// The supervisor dies, with what it was about to do, and perhaps with all that is on the
    /// lines.
    fn supervisor_dies(&mut self) {
        self.supervisor = None;
        self.words.set_fuse(None);
        if below(&mut self.random, 2) == 0 {
            self.unheard.clear();
            let is_message =
                |it: &Event| matches!(it, Event::ToDomain(..) | Event::ToSupervisor(..));
            self.events.retain(|_, event| !is_message(event));
        }
        let after = span(&mut self.random, Duration::from_millis(10));
        self.at(after, Event::SupervisorBegins);
    }

    /// A supervisor begins on the words of the last.
    fn begin(&mut self) -> Result<(), String> {
        self.seen.supervisors += 1;
        let before = own(&self.ledger());
        if self.conduct.loses_words {
            self.lose_a_word();
        }
        let ledger = Ledger::open(self.words.clone()).map_err(|it| format!("I8: {it}"))?;
        let supervisor = Supervisor::recover(ledger, DEADLINES, self.requests, self.now);
        undisturbed(&before, supervisor.ledger())?;
        self.supervisor = Some(supervisor);
        self.checks.begins(self.now);
        if self.words.is_blown() {
            self.supervisor_dies();
            return Ok(());
        }
        self.act()?;
        // It looks at the hardware: who is dead, which cores are parked.
        for domain in self.ledger().domains() {
            let guest = self.guests.get(&domain.id);
            let starts = matches!(domain.state, Lifecycle::Building | Lifecycle::Starting);
            if guest.is_none_or(|guest| !guest.lives) && !(starts && guest.is_none()) {
                self.soon(Event::Hardware(Happened::Ended(domain.id)));
            }
        }
        for core in 0..self.hardware.cores.len() as u16 {
            self.soon(Event::Hardware(Happened::Parked(core)));
        }
        let now = self.now;
        for (id, message) in std::mem::take(&mut self.unheard) {
            self.supervise(|it| it.heard(now, id, message))?;
        }
        Ok(())
    }

    /// A unit that a domain has is nobody's any more.
    fn lose_a_word(&mut self) {
        use nile_domain::Words;
        let ledger = self.ledger();
        let held = ledger.extents_with(|it| it.is_had());
        if let Some(extent) = held.last() {
            self.words.store(ledger.sizes().place(Thing::Unit(extent.start)), 0);
        }
    }
}
