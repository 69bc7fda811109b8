//! A supervisor on the words of an earlier one, which may have ended between any two stores.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::Instant;

use super::{Action, Deadlines, Supervisor, Task, Work};
use crate::domain::{Domain, Lifecycle};
use crate::ledger::Ledger;
use crate::message::Message;
use crate::refused::Thing;
use crate::words::{Holding, Party, Phase, Words};
use nile_order::SortedMap;

impl<W: Words> Supervisor<W> {
    /// A supervisor that goes on where an earlier one ended. Requests go on from `requests`, so
    /// that none has the number of an earlier one. No domain that runs is disturbed.
    pub fn recover(
        ledger: Ledger<W>,
        deadlines: Deadlines,
        requests: u64,
        now: Instant,
    ) -> Supervisor<W> {
        let mut it = Supervisor {
            ledger,
            deadlines,
            works: SortedMap::new(),
            timers: SortedMap::new(),
            requests,
            actions: VecDeque::new(),
        };
        it.ledger.charge(now);
        let domains: Vec<Domain> = it.ledger.domains().collect();
        for domain in &domains {
            match domain.state {
                // Nobody knows how far the machine has come with it.
                Lifecycle::Building | Lifecycle::Dead => it.die(now, domain),
                _ => {}
            }
        }
        for domain in &domains {
            match domain.state {
                Lifecycle::Starting => {
                    let deadline = Some(now + deadlines.start);
                    let task = Task::Create { asked: true };
                    it.works.insert(domain.id.slot, Work { request: None, deadline, task });
                    it.actions.push_back(Action::Start(domain.id));
                    it.send(domain.id, Message::Back);
                }
                Lifecycle::Running | Lifecycle::Resizing => it.go_on(now, domain),
                Lifecycle::Draining => {
                    let deadline = Some(now + deadlines.stop);
                    let work = Work { request: None, deadline, task: Task::Destroy };
                    it.works.insert(domain.id.slot, work);
                    it.send(domain.id, Message::Stop);
                }
                _ => {}
            }
        }
        let dirty = it.ledger.extents_with(|it| it.phase == Phase::Dirty);
        it.scrub(dirty);
        it.give_shares_back();
        for (device, holding) in it.ledger.devices().collect::<Vec<_>>() {
            if holding.phase == Phase::Dirty {
                it.actions.push_back(Action::Reset(device));
            }
        }
        it.advance(now);
        it
    }

    /// What was changing hands with a domain that runs: what is its own, or was lent by it and has
    /// not left, stays; what others have a right to, goes.
    fn go_on(&mut self, now: Instant, domain: &Domain) {
        let id = domain.id;
        self.send(id, Message::Back);
        for (core, holding) in
            self.ledger.cores().filter(|(_, it)| it.is_of(id.slot)).collect::<Vec<_>>()
        {
            let own = Party::Domain(id.slot);
            match holding.phase {
                Phase::Offered => self.offer_core(core, id, holding.lender),
                Phase::Leaving if holding.lender == own || holding.next == Party::Pool => {
                    self.offer_core(core, id, Party::Pool);
                }
                Phase::Leaving => self.recall(now, core, holding.next),
                // It has left before the earlier supervisor ended.
                Phase::Dirty => self.ledger.hand(Thing::Core(core), None, Party::Pool),
                Phase::Free | Phase::Held => {}
            }
        }
        let offered = |it: &Holding| it.is_of(id.slot) && it.phase == Phase::Offered;
        let extents = self.ledger.extents_with(offered);
        self.offer_memory(id, &extents);
    }
}
