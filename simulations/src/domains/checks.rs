//! What must hold after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::Instant;
use nile_domain::{DomainId, Holding, Ledger, Lifecycle, Party, Phase, RequestId, Thing};

use super::guest::Guest;
use super::hardware::{SimHardware, SimWords};
use super::machine::DEADLINES;

/// How long a core may be about to leave: it is asked, perhaps for two things one after the other,
/// and then forced.
const LEAVING: Duration = Duration::from_millis(
    (2 * DEADLINES.ask.as_millis() + 2 * DEADLINES.force.as_millis()) as u64 + 1,
);

/// How long a request may take: each of its steps as long as it may.
const REQUEST: Duration = Duration::from_millis(300);

/// What was seen in earlier steps.
pub struct Checks {
    /// The last domain of each place.
    rows: BTreeMap<u8, DomainId>,
    /// Since when cores have been about to leave.
    leaving: BTreeMap<u16, Instant>,
    /// Requests that have not ended, and since when.
    open: BTreeMap<RequestId, Instant>,
    /// When the present supervisor began.
    since: Instant,
}

/// What no new supervisor may change: what domains have of their own.
pub type Own = Vec<(DomainId, Vec<Thing>)>;

impl Checks {
    pub fn new(now: Instant) -> Checks {
        Checks {
            rows: BTreeMap::new(),
            leaving: BTreeMap::new(),
            open: BTreeMap::new(),
            since: now,
        }
    }

    /// A supervisor begins: whoever waits for an earlier one's answer knows that there is none.
    pub fn begins(&mut self, now: Instant) {
        self.since = now;
        self.open.clear();
        self.leaving.clear();
    }

    pub fn asked(&mut self, now: Instant, request: RequestId) -> Result<(), String> {
        match self.open.insert(request, now) {
            None => Ok(()),
            Some(_) => Err(format!("I6: {request:?} is another's number")),
        }
    }

    pub fn told(&mut self, request: RequestId) -> Result<(), String> {
        let ended = self.open.remove(&request);
        ended.map(drop).ok_or(format!("I6: {request:?} ends twice"))
    }

    /// Whether nobody waits for anything.
    pub fn all_told(&self) -> bool {
        self.open.is_empty()
    }

    /// Checks all that can be seen now. `lives` says whether there is a supervisor.
    pub fn check(
        &mut self,
        now: Instant,
        ledger: &Ledger<SimWords>,
        hardware: &SimHardware,
        guests: &BTreeMap<DomainId, Guest>,
        lives: bool,
    ) -> Result<(), String> {
        let holdings: Vec<(Thing, Holding)> =
            ledger.things().map(|thing| (thing, ledger.holding(thing))).collect();
        self.rows(ledger)?;
        memory(ledger, &holdings, hardware, guests)?;
        for (core, space) in hardware.cores.iter().enumerate() {
            let holding = ledger.holding(Thing::Core(core as u16));
            let is_its = |id: &DomainId| is_of(&holding, *id) && holding.phase != Phase::Dirty;
            if let Some(id) = space.filter(|id| !is_its(id)) {
                return Err(format!("I3: core {core} is in the space of {id}, and {holding:?}"));
            }
        }
        limits(ledger, &holdings)?;
        left_behind(ledger, &holdings, hardware)?;
        self.leaves(now, ledger, lives)?;
        let late = self.open.iter().find(|(_, since)| now.since(**since) > REQUEST);
        match late {
            Some((request, since)) if lives => {
                Err(format!("I6: {request:?} of {since} has not ended at {now}"))
            }
            _ => Ok(()),
        }
    }

    fn rows(&mut self, ledger: &Ledger<SimWords>) -> Result<(), String> {
        for domain in ledger.domains() {
            let DomainId { slot, generation } = domain.id;
            match self.rows.insert(slot, domain.id) {
                Some(before) if before.generation > generation => {
                    return Err(format!("I4: {} comes after {before}", domain.id));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A domain is gone: its successor is another.
    pub fn gone(&mut self, ledger: &Ledger<SimWords>, id: DomainId) -> Result<(), String> {
        let next = ledger.empty_slot().filter(|next| next.slot == id.slot);
        match next {
            Some(next) if next.generation <= id.generation => {
                Err(format!("I4: the successor of {id} is {next}"))
            }
            _ if ledger.mentions(id.slot) => Err(format!("I14: something is still of {id}")),
            _ => Ok(()),
        }
    }

    fn leaves(
        &mut self,
        now: Instant,
        ledger: &Ledger<SimWords>,
        lives: bool,
    ) -> Result<(), String> {
        let is_leaving = |it: &Holding| it.phase == Phase::Leaving;
        let leaving: BTreeSet<u16> = ledger.cores_with(is_leaving).into_iter().collect();
        self.leaving.retain(|core, _| leaving.contains(core));
        for core in leaving {
            let since = *self.leaving.entry(core).or_insert(now);
            if lives && now.since(since) > LEAVING {
                return Err(format!("I12: core {core} is to leave since {since}, now {now}"));
            }
        }
        for (core, holding) in ledger.cores().filter(|(_, it)| it.is_had()) {
            let due = ledger.due(core).max(self.since);
            if lives && holding.lender != Party::Pool && now.since(due) > LEAVING {
                return Err(format!("I11: core {core} was due at {due}, now {now}"));
            }
        }
        Ok(())
    }
}

fn is_of(holding: &Holding, id: DomainId) -> bool {
    holding.is_of(id.slot) && holding.generation == id.generation
}

/// I2 and I5.
fn memory(
    ledger: &Ledger<SimWords>,
    holdings: &[(Thing, Holding)],
    hardware: &SimHardware,
    guests: &BTreeMap<DomainId, Guest>,
) -> Result<(), String> {
    let mut users: BTreeMap<u32, DomainId> = BTreeMap::new();
    for guest in guests.values().filter(|guest| hardware.runs(guest.id)) {
        for unit in &guest.units {
            if let Some(other) = users.insert(*unit, guest.id) {
                return Err(format!("I1: unit {unit} is used by {other} and {}", guest.id));
            }
        }
    }
    for (thing, holding) in holdings {
        let Thing::Unit(unit) = thing else { continue };
        let shares = sharers(guests, hardware, *unit);
        if let Some(id) = shares.iter().find(|id| !nile_domain::has(ledger.words(), **id, *thing)) {
            return Err(format!("I2: unit {unit} is shared by {id}, and {holding:?}"));
        }
        let user = users.get(unit);
        if let Some(user) = user.filter(|it| !is_of(holding, **it) || !holding.is_had()) {
            return Err(format!("I2: unit {unit} is used by {user}, and {holding:?}"));
        }
        let Some(writer) = hardware.units[*unit as usize] else { continue };
        let is_shared = holding.owner == Party::Supervisor;
        let may_read = holding.phase == Phase::Free || !is_shared && !is_of(holding, writer);
        if may_read {
            return Err(format!("I5: unit {unit} has what {writer} wrote, and {holding:?}"));
        }
    }
    Ok(())
}

/// Who uses a unit that is shared.
fn sharers(guests: &BTreeMap<DomainId, Guest>, hardware: &SimHardware, unit: u32) -> Vec<DomainId> {
    let uses = |it: &&Guest| it.shared.contains(&unit) && hardware.runs(it.id);
    guests.values().filter(uses).map(|it| it.id).collect()
}

/// I7.
fn limits(ledger: &Ledger<SimWords>, holdings: &[(Thing, Holding)]) -> Result<(), String> {
    for domain in ledger.domains().filter(|it| it.state.is_running()) {
        let slot = domain.id.slot;
        let count = |holds: &dyn Fn(&Holding) -> bool, is_core: bool| {
            let kind = |thing: &Thing| match thing {
                Thing::Core(_) => is_core,
                Thing::Unit(_) => !is_core,
                Thing::Device(_) => false,
            };
            holdings.iter().filter(|(thing, it)| kind(thing) && holds(it)).count() as u32
        };
        let cores = domain.limits.cores;
        let cores = (u32::from(cores.0), u32::from(cores.1));
        for (is_core, (least, most)) in [(true, cores), (false, domain.limits.units)] {
            let own = count(&|it| it.is_own(slot), is_core);
            let all = count(&|it| it.counts(slot) && it.phase != Phase::Dirty, is_core);
            if own < least || all > most {
                return Err(format!(
                    "I7: {} has {own} of its own, {all} in all, and must have {least} to {most}",
                    domain.name
                ));
            }
        }
    }
    Ok(())
}

/// I14.
fn left_behind(
    ledger: &Ledger<SimWords>,
    holdings: &[(Thing, Holding)],
    hardware: &SimHardware,
) -> Result<(), String> {
    let there: BTreeSet<u8> = ledger.domains().map(|it| it.id.slot).collect();
    for (thing, holding) in holdings {
        for party in [holding.owner, holding.lender, holding.next] {
            if let Party::Domain(slot) = party
                && !there.contains(&slot)
            {
                return Err(format!("I14: {thing:?} is still of d{slot}, which is gone"));
            }
        }
        if let Thing::Device(device) = thing
            && let Some(user) = hardware.devices[usize::from(*device)]
            && !is_of(holding, user)
        {
            return Err(format!("I14: device {device} is as {user} left it, and {holding:?}"));
        }
    }
    Ok(())
}

/// What of their own the domains have that run.
pub fn own(ledger: &Ledger<SimWords>) -> Own {
    let running = ledger.domains().filter(|it| it.state == Lifecycle::Running);
    running.map(|domain| (domain.id, own_of(ledger, domain.id))).collect()
}

fn own_of(ledger: &Ledger<SimWords>, id: DomainId) -> Vec<Thing> {
    let held = |it: &Holding| is_of(it, id) && it.phase == Phase::Held && it.lender == Party::Pool;
    ledger.things().filter(|thing| held(&ledger.holding(*thing))).collect()
}

/// I8: all that domains had of their own they have, and they run.
pub fn undisturbed(before: &Own, ledger: &Ledger<SimWords>) -> Result<(), String> {
    for (id, own) in before {
        let runs = ledger.domain(*id).is_some_and(|it| it.state.is_running());
        let now = own_of(ledger, *id);
        if !runs || now != *own {
            return Err(format!("I8: {id} had {own:?} before the supervisor began, now {now:?}"));
        }
    }
    Ok(())
}
