//! The supervisor's end: commands go in, and messages, deadlines and force carry them out
//! (RainForest 5.2 and 5.3). Whatever it must not forget stands in the ledger: a supervisor that
//! begins anew on the same words goes on, or undoes what was half done, and disturbs no domain.
//!
//! * `begin`: a command's stores and first messages.
//! * `steps`: what follows, as domains and hardware answer, and how it is undone.
//! * `reclaim`: what a domain leaves behind.
//! * `sharing`: memory that domains share.
//! * `recover`: a supervisor on the words of an earlier one.

mod begin;
mod reclaim;
mod recover;
mod sharing;
mod steps;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

use crate::command::Command;
use crate::domain::{Domain, DomainId, Lifecycle};
use crate::extent::Extent;
use crate::ledger::Ledger;
use crate::message::Message;
use crate::name::Name;
use crate::plan::{Plan, plan};
use crate::refused::{Refused, Thing};
use crate::toll::{Limit, LimitChange, Way};
use crate::words::{Holding, Party, Phase, Words};
use nile_order::SortedMap;

/// A command that was taken on. Each ends once, with an [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// How a command ended. Its effect holds, or nothing of it stays.
pub type Outcome = Result<(), Refused>;

/// How long everybody may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadlines {
    /// A domain, for each thing that it is asked.
    pub ask: Duration,
    /// The hardware, to take a core by force. It is told again after that.
    pub force: Duration,
    /// The machine, to put a domain together.
    pub build: Duration,
    /// A domain, until it runs.
    pub start: Duration,
    /// A domain, to end by itself.
    pub stop: Duration,
}

/// What whoever runs the supervisor is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put a domain together on what the ledger offers it; then say [`Happened::Built`] or
    /// [`Happened::NotBuilt`].
    Build(DomainId),
    /// Let its cores in; it may have been done already.
    Start(DomainId),
    /// Tell a domain something.
    Send(DomainId, Message),
    /// Park a core at once, whatever it does, and say [`Happened::Parked`], as of one that is
    /// parked already.
    Force(u16),
    /// Write zeros into what of this is dirty then; some of it may be somebody's again. Then say
    /// [`Happened::Scrubbed`].
    Scrub(Extent),
    /// Reset a device, so that it reaches no memory, and have nothing stay in it; then say
    /// [`Happened::Reset`].
    Reset(u16),
    /// A domain is gone, and nothing mentions it: it goes from the directory.
    Forget(DomainId),
    /// A command has ended.
    Tell(RequestId, Outcome),
}

/// What the hardware has done. All of it is looked at when it is said: what was true earlier may
/// not be so any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A domain is put together.
    Built(DomainId),
    /// It cannot be.
    NotBuilt(DomainId),
    /// A core is parked.
    Parked(u16),
    /// Memory is zero.
    Scrubbed(Extent),
    /// A device is as after a reset.
    Reset(u16),
    /// A domain has ended by itself, or has died.
    Ended(DomainId),
}

/// What is being done with a domain because of a command.
#[derive(Clone, Debug)]
struct Work {
    /// The command; none if an earlier supervisor had it.
    request: Option<RequestId>,
    deadline: Option<Instant>,
    task: Task,
}

#[derive(Clone, Debug)]
enum Task {
    /// Whether the machine puts the domain together already.
    Create {
        asked: bool,
    },
    Resize(Resizing),
    Lend {
        to: DomainId,
        cores: Vec<u16>,
    },
    Recall,
    Destroy,
}

/// A resize takes first, adds cores then, and memory last, which it could not take back.
#[derive(Clone, Debug)]
struct Resizing {
    step: Step,
    /// Cores that it adds.
    cores: Vec<u16>,
    /// Memory that it adds.
    extents: Vec<Extent>,
    /// Units that the domain has still to give.
    missing: u32,
    /// Whether a core is not asked by itself but comes from another domain, or is forced.
    forces: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Taking,
    Adding,
    Filling,
}

/// The supervisor of a machine.
pub struct Supervisor<W> {
    ledger: Ledger<W>,
    deadlines: Deadlines,
    /// What is done with each domain, by its place.
    works: SortedMap<u8, Work>,
    /// Cores that are to leave and are taken by force, and when.
    timers: SortedMap<u16, Instant>,
    requests: u64,
    actions: VecDeque<Action>,
}

impl<W: Words> Supervisor<W> {
    /// A supervisor with nothing to do, on a new ledger.
    pub fn new(ledger: Ledger<W>, deadlines: Deadlines) -> Supervisor<W> {
        Supervisor {
            ledger,
            deadlines,
            works: SortedMap::new(),
            timers: SortedMap::new(),
            requests: 0,
            actions: VecDeque::new(),
        }
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger<W> {
        &self.ledger
    }

    /// Ends this supervisor; the ledger stays.
    pub fn into_ledger(self) -> Ledger<W> {
        self.ledger
    }

    /// How many requests there have been: the number of the last.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// What is to be done next, if anything is.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What a command would do. Does nothing.
    pub fn plan(&self, command: &Command) -> Result<Plan, Refused> {
        plan(&self.ledger, command)
    }

    /// Takes a command on, or refuses it at once. Its end is told by [`Action::Tell`].
    pub fn command(&mut self, now: Instant, command: &Command) -> Result<RequestId, Refused> {
        let plan = plan(&self.ledger, command)?;
        self.ledger.charge(now);
        self.requests += 1;
        let request = RequestId(self.requests);
        self.begin(now, request, command, plan);
        self.advance(now);
        Ok(request)
    }

    /// A domain says something. What one says that is gone is nobody's.
    pub fn heard(&mut self, now: Instant, from: DomainId, message: Message) {
        if let Some(domain) = self.ledger.domain(from) {
            self.ledger.charge(now);
            self.answer(now, &domain, message);
            self.advance(now);
        }
    }

    /// The hardware has done something.
    pub fn happened(&mut self, now: Instant, what: Happened) {
        self.ledger.charge(now);
        match what {
            Happened::Built(id) => self.built(now, id),
            Happened::NotBuilt(id) => {
                if self.ledger.domain(id).is_some_and(|it| it.state == Lifecycle::Building) {
                    self.fail(now, id.slot, Refused::NotBuilt);
                }
            }
            Happened::Parked(core) => self.parked(core),
            Happened::Scrubbed(extent) => {
                extent.units().for_each(|unit| self.cleaned(Thing::Unit(unit)));
            }
            Happened::Reset(device) => self.cleaned(Thing::Device(device)),
            Happened::Ended(id) => {
                if let Some(domain) = self.ledger.domain(id) {
                    self.die(now, &domain);
                }
            }
        }
        self.advance(now);
    }

    /// When the supervisor is to look at the clock next, if it has to.
    pub fn due(&self) -> Option<Instant> {
        let works = self.works.values().filter_map(|work| work.deadline);
        let lent = self.ledger.cores().filter(|(_, it)| it.is_had() && it.lender != Party::Pool);
        let lent = lent.map(|(core, _)| self.ledger.due(core));
        works.chain(self.timers.values().copied()).chain(lent).min()
    }

    /// Whether something is under way: else nothing can become late but what is lent.
    pub fn is_at_work(&self) -> bool {
        !self.works.is_empty() || !self.timers.is_empty()
    }

    /// Time passes: who is late is taken by force, or what it was for is undone.
    pub fn tick(&mut self, now: Instant) {
        let is_due = |at: &Instant| *at <= now;
        let late = |it: &Work| it.deadline.as_ref().is_some_and(is_due);
        let slots: Vec<u8> =
            self.works.iter().filter(|(_, it)| late(it)).map(|(slot, _)| *slot).collect();
        if !slots.is_empty() {
            self.ledger.charge(now);
        }
        for slot in slots {
            self.late(now, slot);
        }
        let cores: Vec<u16> =
            self.timers.iter().filter(|(_, at)| is_due(at)).map(|(core, _)| *core).collect();
        for core in cores {
            self.force(now, core);
        }
        let lent = self.ledger.cores().filter(|(core, it)| {
            it.is_had() && it.lender != Party::Pool && self.ledger.due(*core) <= now
        });
        for (core, holding) in lent.collect::<Vec<_>>() {
            self.recall(now, core, holding.lender);
        }
        self.advance(now);
    }

    /// Changes what a domain may send by a way, from now on; what that is then.
    pub fn limit(&mut self, name: Name, way: Way, change: LimitChange) -> Result<Limit, Refused> {
        let there = || self.ledger.domains().map(|it| it.name).collect();
        let unknown = || Refused::Unknown { name, there: there() };
        let domain = self.ledger.named(name).ok_or_else(unknown)?;
        let limit = self.ledger.limit(way, domain.id.slot).with(way, change)?;
        self.ledger.set_limit(&domain, way, limit);
        Ok(limit)
    }

    fn send(&mut self, to: DomainId, message: Message) {
        self.actions.push_back(Action::Send(to, message));
    }

    fn tell(&mut self, work: &Work, outcome: Outcome) {
        if let Some(request) = work.request {
            self.actions.push_back(Action::Tell(request, outcome));
        }
    }

    fn set_state(&mut self, domain: &Domain, state: Lifecycle) {
        self.ledger.set_state(domain, state);
    }

    /// Something changes hands with a domain that runs.
    fn resizes(&mut self, slot: u8) {
        if let Some(domain) = self.ledger.in_slot(slot)
            && domain.state == Lifecycle::Running
        {
            self.set_state(&domain, Lifecycle::Resizing);
        }
    }

    /// A core is to leave its owner for `next`. The owner is asked; after a while it is not.
    fn recall(&mut self, now: Instant, core: u16, next: Party) {
        let lender = self.ledger.holding(Thing::Core(core)).lender;
        self.ask_back(core, next, lender);
        self.timers.insert(core, now + self.deadlines.ask);
    }

    /// A core is to leave its owner for `next`, if it likes.
    fn ask_back(&mut self, core: u16, next: Party, lender: Party) {
        let holding = self.ledger.holding(Thing::Core(core));
        if let Party::Domain(slot) = holding.owner {
            self.resizes(slot);
            let leaving = Holding { phase: Phase::Leaving, next, lender, ..holding };
            self.ledger.set(Thing::Core(core), leaving);
            let to = DomainId { slot, generation: holding.generation };
            self.send(to, Message::TakeCore(core));
        }
    }

    /// A core is parked now, whatever it does.
    fn force(&mut self, now: Instant, core: u16) {
        self.actions.push_back(Action::Force(core));
        self.timers.insert(core, now + self.deadlines.force);
    }

    /// A domain has something back that was to leave it, or gets what comes from elsewhere.
    fn offer_core(&mut self, core: u16, to: DomainId, lender: Party) {
        self.timers.remove(&core);
        self.ledger.hand(Thing::Core(core), Some(to), lender);
        self.send(to, Message::OfferCore(core));
    }

    fn offer_memory(&mut self, to: DomainId, extents: &[Extent]) {
        for extent in extents {
            for unit in extent.units() {
                self.ledger.hand(Thing::Unit(unit), Some(to), Party::Pool);
            }
            self.send(to, Message::OfferMemory(*extent));
        }
    }

    /// Memory that nobody uses is zeroed for the next.
    fn scrub(&mut self, extents: Vec<Extent>) {
        for extent in extents {
            for thing in extent.units().map(Thing::Unit) {
                let holding = self.ledger.holding(thing);
                self.ledger.set(thing, Holding { phase: Phase::Dirty, ..holding });
            }
            self.actions.push_back(Action::Scrub(extent));
        }
    }
}
