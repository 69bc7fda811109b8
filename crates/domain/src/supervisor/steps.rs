//! What follows a command's first steps, as domains and hardware answer; and how it is undone.

use alloc::vec::Vec;

use nile_abi::Instant;

use super::{Action, Outcome, Resizing, Step, Supervisor, Task, Work};
use crate::domain::{Domain, DomainId, Lifecycle};
use crate::extent::Extent;
use crate::message::Message;
use crate::refused::{Refused, Thing};
use crate::words::{Holding, Party, Phase, Words};

impl<W: Words> Supervisor<W> {
    /// A domain that is there says something.
    pub(super) fn answer(&mut self, now: Instant, domain: &Domain, message: Message) {
        match message {
            Message::Hello => self.hello(now, domain),
            Message::CoreTaken(core) => self.taken(domain, Thing::Core(core)),
            Message::MemoryTaken(extent) => {
                self.known(extent).for_each(|unit| self.taken(domain, Thing::Unit(unit)));
            }
            Message::CoreRefused(core) => self.refused(now, domain, core),
            Message::MemoryGiven(extent) => self.given(domain, extent),
            Message::MemoryRefused(missing) => {
                if self.resizing(domain.id.slot).is_some_and(|it| it.missing > 0) {
                    self.fail(now, domain.id.slot, Refused::Kept(Thing::Unit(missing)));
                }
            }
            // What domains are told, none says.
            Message::Back
            | Message::OfferCore(_)
            | Message::TakeCore(_)
            | Message::CoreParked(_)
            | Message::OfferMemory(_)
            | Message::WantMemory(_)
            | Message::MemoryAccepted(_)
            | Message::Stop => {}
        }
    }

    /// The units of an extent that there are.
    fn known(&self, extent: Extent) -> core::ops::Range<u32> {
        let end = self.ledger.sizes().units;
        extent.start.min(end)..extent.units().end.min(end)
    }

    fn resizing(&mut self, slot: u8) -> Option<&mut Resizing> {
        match self.works.get_mut(&slot) {
            Some(Work { task: Task::Resize(resizing), .. }) => Some(resizing),
            _ => None,
        }
    }

    pub(super) fn built(&mut self, now: Instant, id: DomainId) {
        if let Some(domain) = self.ledger.domain(id)
            && domain.state == Lifecycle::Building
        {
            self.set_state(&domain, Lifecycle::Starting);
            self.actions.push_back(Action::Start(id));
            if let Some(work) = self.works.get_mut(&id.slot) {
                work.deadline = Some(now + self.deadlines.start);
            }
        }
    }

    /// A domain runs that was starting: it has all that it was offered.
    fn hello(&mut self, now: Instant, domain: &Domain) {
        // Whoever runs has been put together, though the machine may not have said so yet.
        self.built(now, domain.id);
        let Some(domain) = &self.ledger.domain(domain.id) else { return };
        if domain.state != Lifecycle::Starting {
            return;
        }
        for thing in self.ledger.things() {
            self.taken(domain, thing);
        }
        self.set_state(domain, Lifecycle::Running);
        self.finish(domain.id.slot, Ok(()));
    }

    /// A domain has what it was offered.
    fn taken(&mut self, domain: &Domain, thing: Thing) {
        if let Thing::Core(core) = thing
            && core >= self.ledger.sizes().cores
        {
            return;
        }
        let holding = self.ledger.holding(thing);
        if holding.is_of(domain.id.slot) && holding.phase == Phase::Offered {
            self.ledger.set(thing, Holding { phase: Phase::Held, ..holding });
        }
    }

    /// A domain does not take a core, or does not let it go.
    fn refused(&mut self, now: Instant, domain: &Domain, core: u16) {
        let slot = domain.id.slot;
        if core >= self.ledger.sizes().cores {
            return;
        }
        let holding = self.ledger.holding(Thing::Core(core));
        if !holding.is_of(slot) {
            return;
        }
        if holding.phase == Phase::Leaving && self.timers.contains_key(&core) {
            return self.force(now, core);
        }
        // Whose command it fails: the domain's own, or that of who lends to it.
        let lends = |work: &Work| match &work.task {
            Task::Lend { cores, .. } => cores.contains(&core),
            Task::Resize(resizing) => {
                holding.phase == Phase::Leaving || resizing.cores.contains(&core)
            }
            _ => false,
        };
        let Party::Domain(whose) =
            (if holding.lender == Party::Pool { holding.owner } else { holding.lender })
        else {
            return;
        };
        if self.works.get(&whose).is_some_and(lends) {
            self.fail(now, whose, Refused::Kept(Thing::Core(core)));
        }
    }

    /// A domain gives memory back. What it was not asked for, it gets again.
    fn given(&mut self, domain: &Domain, extent: Extent) {
        let slot = domain.id.slot;
        let mut missing = self.resizing(slot).map_or(0, |it| it.missing);
        let mut again: Vec<Extent> = Vec::new();
        for unit in self.known(extent) {
            let holding = self.ledger.holding(Thing::Unit(unit));
            // One that is offered is said to be given by a message older than the offer.
            if !holding.is_of(slot) || holding.phase != Phase::Held {
                continue;
            }
            if missing > 0 {
                missing -= 1;
                self.ledger.set(Thing::Unit(unit), Holding { phase: Phase::Dirty, ..holding });
            } else {
                again.push(Extent { start: unit, count: 1 });
            }
        }
        if let Some(resizing) = self.resizing(slot) {
            resizing.missing = missing;
        }
        self.send(domain.id, Message::MemoryAccepted(extent));
        // As an offer, so that this message counts for no later command when it comes once more.
        self.offer_memory(domain.id, &again);
    }

    /// A core is parked.
    pub(super) fn parked(&mut self, core: u16) {
        let holding = self.ledger.holding(Thing::Core(core));
        if holding.phase != Phase::Leaving {
            return;
        }
        self.timers.remove(&core);
        let Party::Domain(owner) = holding.owner else { return };
        if let Some(domain) = self.ledger.in_slot(owner).filter(|it| it.state.is_running()) {
            self.send(domain.id, Message::CoreParked(core));
        }
        let is_free = (holding.next, holding.lender) == (Party::Pool, Party::Pool);
        if is_free && self.resizing(owner).is_some() {
            // Until all has left that is to leave, it can go back.
            self.ledger.set(Thing::Core(core), Holding { phase: Phase::Dirty, ..holding });
            return;
        }
        match self.heir(owner, &holding) {
            Some((to, lender)) if to.state == Lifecycle::Building => {
                self.ledger.hand(Thing::Core(core), Some(to.id), lender);
            }
            Some((to, lender)) => self.offer_core(core, to.id, lender),
            None => self.ledger.hand(Thing::Core(core), None, Party::Pool),
        }
    }

    /// Who gets a core that its owner has left, and who has lent it then: whom it was meant for, or
    /// its lender; nobody if neither is there.
    fn heir(&self, owner: u8, holding: &Holding) -> Option<(Domain, Party)> {
        let lives = |party: Party| match party {
            Party::Domain(slot) if slot != owner => self.ledger.in_slot(slot),
            _ => None,
        };
        let next = lives(holding.next)
            .filter(|it| it.state == Lifecycle::Building || it.state.is_running());
        let lender = || lives(holding.lender).filter(|it| it.state.is_running());
        match next {
            Some(next) if holding.lender == holding.next => Some((next, Party::Pool)),
            Some(next) => Some((next, holding.lender)),
            None => lender().map(|it| (it, Party::Pool)),
        }
    }

    /// Does what can be done without anybody's answer.
    pub(super) fn advance(&mut self, now: Instant) {
        for domain in self.ledger.domains().collect::<Vec<_>>() {
            match domain.state {
                Lifecycle::Building => self.build(&domain),
                Lifecycle::Resizing => self.change(now, &domain),
                Lifecycle::Dead => self.reclaim(&domain),
                _ => {}
            }
        }
    }

    /// A domain is put together when all that it is to have has come.
    fn build(&mut self, domain: &Domain) {
        let slot = domain.id.slot;
        let comes = self.ledger.cores().any(|(_, it)| it.next == Party::Domain(slot));
        if let Some(Work { task: Task::Create { asked }, .. }) = self.works.get_mut(&slot)
            && !*asked
            && !comes
        {
            *asked = true;
            self.actions.push_back(Action::Build(domain.id));
        }
    }

    fn change(&mut self, now: Instant, domain: &Domain) {
        let slot = domain.id.slot;
        let is_done = match self.works.get(&slot).map(|work| &work.task) {
            Some(Task::Resize(_)) => self.resize(now, domain),
            Some(Task::Lend { to, cores }) => cores.iter().all(|core| {
                let holding = self.ledger.holding(Thing::Core(*core));
                holding.is_of(to.slot) && holding.phase == Phase::Held
            }),
            Some(Task::Recall) => !self.ledger.cores().any(|(_, it)| {
                it.is_of(slot) && it.phase == Phase::Leaving && it.lender != Party::Pool
            }),
            _ => false,
        };
        if is_done {
            self.finish(slot, Ok(()));
        }
        let changes = |it: &Holding| {
            it.next == Party::Domain(slot) || it.is_of(slot) && it.phase == Phase::Leaving
        };
        if !self.works.contains_key(&slot) && !self.ledger.cores().any(|(_, it)| changes(&it)) {
            self.set_state(domain, Lifecycle::Running);
        }
    }

    /// Goes as far with a resize as the domain's answers allow; says whether it is done.
    fn resize(&mut self, now: Instant, domain: &Domain) -> bool {
        let slot = domain.id.slot;
        let Some(resizing) = self.resizing(slot).cloned() else { return false };
        let leaves = |it: &Holding| {
            it.is_of(slot)
                && it.phase == Phase::Leaving
                && (it.next, it.lender) == (Party::Pool, Party::Pool)
        };
        let phase = |core: &u16| {
            let holding = self.ledger.holding(Thing::Core(*core));
            holding.is_of(slot).then_some(holding.phase)
        };
        let next = match resizing.step {
            Step::Taking
                if resizing.missing == 0 && !self.ledger.cores().any(|(_, it)| leaves(&it)) =>
            {
                let offered = resizing.cores.iter().filter(|it| phase(it) == Some(Phase::Offered));
                for core in offered.copied().collect::<Vec<_>>() {
                    self.send(domain.id, Message::OfferCore(core));
                }
                Step::Adding
            }
            Step::Adding if resizing.cores.iter().all(|it| phase(it) == Some(Phase::Held)) => {
                for extent in &resizing.extents {
                    self.send(domain.id, Message::OfferMemory(*extent));
                }
                Step::Filling
            }
            Step::Filling => {
                let mut units = resizing.extents.iter().flat_map(|extent| extent.units());
                let is_offered = |unit| {
                    let holding = self.ledger.holding(Thing::Unit(unit));
                    holding.is_of(slot) && holding.phase == Phase::Offered
                };
                let is_done = !units.any(is_offered);
                if is_done {
                    self.commit(slot);
                }
                return is_done;
            }
            _ => return false,
        };
        let deadline = self.step_ends(now, &resizing);
        if let Some(work) = self.works.get_mut(&slot) {
            work.deadline = Some(deadline);
        }
        if let Some(resizing) = self.resizing(slot) {
            resizing.step = next;
        }
        self.resize(now, domain)
    }

    /// When a step of a resize has taken too long.
    pub(super) fn step_ends(&self, now: Instant, resizing: &Resizing) -> Instant {
        let ask = now + self.deadlines.ask;
        let forced = || ask + self.deadlines.force + self.deadlines.ask;
        if resizing.forces { forced() } else { ask }
    }

    /// What has left a domain for good is the pool's.
    fn commit(&mut self, slot: u8) {
        let is_left = |it: &Holding| it.is_of(slot) && it.phase == Phase::Dirty;
        for core in self.ledger.cores_with(is_left) {
            self.ledger.hand(Thing::Core(core), None, Party::Pool);
        }
        self.scrub(self.ledger.extents_with(is_left));
    }

    /// A command has ended.
    pub(super) fn finish(&mut self, slot: u8, outcome: Outcome) {
        if let Some(work) = self.works.remove(&slot) {
            self.tell(&work, outcome);
        }
    }

    /// A command's time is over.
    pub(super) fn late(&mut self, now: Instant, slot: u8) {
        let Some(work) = self.works.get_mut(&slot) else { return };
        match &work.task {
            Task::Destroy => {
                work.deadline = None;
                if let Some(domain) = self.ledger.in_slot(slot) {
                    self.die(now, &domain);
                }
            }
            // Memory that was offered may be used any moment.
            Task::Resize(Resizing { step: Step::Filling, .. }) => {
                self.commit(slot);
                self.finish(slot, Err(Refused::TimedOut));
            }
            _ => self.fail(now, slot, Refused::TimedOut),
        }
    }

    /// A command is undone.
    pub(super) fn fail(&mut self, now: Instant, slot: u8, why: Refused) {
        let Some(work) = self.works.remove(&slot) else { return };
        self.tell(&work, Err(why));
        let Some(domain) = self.ledger.in_slot(slot) else { return };
        match work.task {
            Task::Create { .. } => self.die(now, &domain),
            Task::Resize(resizing) => self.undo_resize(now, &domain, &resizing),
            Task::Lend { to, cores } => self.undo_lend(now, &domain, to, &cores),
            Task::Recall | Task::Destroy => {}
        }
    }

    fn undo_resize(&mut self, now: Instant, domain: &Domain, resizing: &Resizing) {
        let id = domain.id;
        let left = |it: &Holding| {
            it.is_of(id.slot)
                && matches!(it.phase, Phase::Leaving | Phase::Dirty)
                && (it.next, it.lender) == (Party::Pool, Party::Pool)
        };
        for core in self.ledger.cores_with(left) {
            self.offer_core(core, id, Party::Pool);
        }
        let given = self.ledger.extents_with(left);
        self.offer_memory(id, &given);
        for core in &resizing.cores {
            let holding = self.ledger.holding(Thing::Core(*core));
            match holding.phase {
                Phase::Offered | Phase::Held if holding.is_of(id.slot) => {
                    self.recall(now, *core, Party::Pool);
                    if holding.phase == Phase::Offered {
                        self.force(now, *core);
                    }
                }
                // It is still on its way here.
                Phase::Leaving if holding.next == Party::Domain(id.slot) => {
                    let free = Holding { next: Party::Pool, ..holding };
                    self.ledger.set(Thing::Core(*core), free);
                }
                _ => {}
            }
        }
        self.scrub(resizing.extents.clone());
    }

    fn undo_lend(&mut self, now: Instant, domain: &Domain, to: DomainId, cores: &[u16]) {
        for core in cores {
            let holding = self.ledger.holding(Thing::Core(*core));
            if holding.is_of(domain.id.slot) && holding.phase == Phase::Leaving {
                self.offer_core(*core, domain.id, Party::Pool);
            } else if holding.is_of(to.slot) && holding.is_had() {
                self.recall(now, *core, holding.lender);
            }
        }
    }
}
