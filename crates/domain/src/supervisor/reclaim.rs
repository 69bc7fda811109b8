//! What a domain leaves behind when it ends: nothing.

use alloc::vec::Vec;

use nile_abi::Instant;

use super::{Action, Supervisor, Task, Work};
use crate::domain::{Domain, Lifecycle};
use crate::refused::{Refused, Thing};
use crate::words::{Holding, Party, Phase, Words};

impl<W: Words> Supervisor<W> {
    /// A domain is dead: its cores are taken, what was on its way to it goes elsewhere, and what it
    /// has lent comes back. May be repeated.
    pub(super) fn die(&mut self, now: Instant, domain: &Domain) {
        let slot = domain.id.slot;
        self.set_state(domain, Lifecycle::Dead);
        if !matches!(self.works.get(&slot), Some(Work { task: Task::Destroy, .. }) | None) {
            self.finish(slot, Err(Refused::Died));
        }
        for (core, holding) in self.ledger.cores().collect::<Vec<_>>() {
            self.part(now, slot, core, holding);
        }
        // What it had given back could have gone back to it until now. It is taken with the rest.
        let given = |it: &Holding| it.is_of(slot) && it.phase == Phase::Dirty;
        for unit in self.ledger.extents_with(given).iter().flat_map(|it| it.units()) {
            let holding = self.ledger.holding(Thing::Unit(unit));
            self.ledger.set(Thing::Unit(unit), Holding { phase: Phase::Leaving, ..holding });
        }
        let lends = |work: &Work| matches!(&work.task, Task::Lend { to, .. } if to.slot == slot);
        let lenders = self.works.iter().filter(|(_, work)| lends(work));
        for lender in lenders.map(|(slot, _)| *slot).collect::<Vec<_>>() {
            self.fail(now, lender, Refused::Died);
        }
    }

    /// A core has no more to do with a dead domain.
    fn part(&mut self, now: Instant, slot: u8, core: u16, holding: Holding) {
        let dead = Party::Domain(slot);
        let thing = Thing::Core(core);
        let lender = if holding.lender == dead { Party::Pool } else { holding.lender };
        let other = |party: Party| if party == dead { lender } else { party };
        if holding.owner == dead {
            let next = match holding.phase {
                // It was lent here, or is on its way to somebody.
                Phase::Offered | Phase::Held => lender,
                _ => other(holding.next),
            };
            self.ledger.set(thing, Holding { phase: Phase::Leaving, next, lender, ..holding });
            self.force(now, core);
        } else if holding.lender == dead && holding.is_had() {
            self.ledger.set(thing, Holding { lender, ..holding });
            self.recall(now, core, Party::Pool);
        } else if holding.lender == dead || holding.next == dead {
            self.ledger.set(thing, Holding { next: other(holding.next), lender, ..holding });
        }
    }

    /// Takes the rest of a dead domain when no core of it runs, and makes room for the next when
    /// nothing mentions it.
    pub(super) fn reclaim(&mut self, domain: &Domain) {
        let slot = domain.id.slot;
        if self.ledger.cores().any(|(_, it)| it.is_of(slot)) {
            return;
        }
        let is_used = |it: &Holding| it.is_of(slot) && it.phase != Phase::Dirty;
        for (device, holding) in self.ledger.devices().collect::<Vec<_>>() {
            if is_used(&holding) {
                self.ledger.set(Thing::Device(device), Holding { phase: Phase::Dirty, ..holding });
                self.actions.push_back(Action::Reset(device));
            }
        }
        // A device writes into the domain's memory until it is reset.
        if self.ledger.devices().any(|(_, it)| it.is_of(slot)) {
            return;
        }
        self.scrub(self.ledger.extents_with(is_used));
        self.leave_shares(slot);
        if !self.ledger.mentions(slot) {
            self.ledger.clear(domain.id);
            self.actions.push_back(Action::Forget(domain.id));
            self.finish(slot, Ok(()));
        }
    }

    /// Memory is zero, or a device is reset: anybody may have it.
    pub(super) fn cleaned(&mut self, thing: Thing) {
        let holding = self.ledger.holding(thing);
        let can_go_back = match holding.owner {
            Party::Domain(owner) => {
                matches!(self.works.get(&owner), Some(Work { task: Task::Resize(_), .. }))
            }
            Party::Pool | Party::Supervisor => false,
        };
        if holding.phase == Phase::Dirty && !can_go_back {
            self.ledger.hand(thing, None, Party::Pool);
        }
    }
}
