//! Memory that domains of the simulated machine share: users have it made, given to more domains,
//! and taken back. A domain lets go of it before the supervisor is told so.

use nile_domain::Name;

use super::Machine;
use crate::domains::users;
use crate::draw::below;

impl Machine<'_> {
    /// A user has domains share memory, or let go of it.
    pub(super) fn share(&mut self) -> Result<(), String> {
        let ledger = self.ledger();
        let name = users::share(&mut self.random);
        let there: Vec<Name> = ledger.domains().map(|it| it.name).collect();
        let mut some = || -> Vec<Name> {
            there.iter().copied().filter(|_| below(&mut self.random, 2) == 0).collect()
        };
        let domains = some();
        match below(&mut self.random, 3) {
            0 => self.unshare(name, &domains),
            _ => {
                let units = 1 + below(&mut self.random, 4) as u32;
                let mut shared = None;
                self.supervise(|it| shared = it.share(name, units, &domains).ok())?;
                // It may have died of it: then nobody is told.
                let Some(share) = shared.filter(|_| self.supervisor.is_some()) else {
                    return Ok(());
                };
                self.seen.shared += 1;
                let uses = |slot| share.is_had_by(slot);
                let guests = self.guests.values_mut().filter(|it| it.lives && uses(it.id.slot));
                guests.for_each(|it| it.shared.extend(share.extent.units()));
                Ok(())
            }
        }
    }

    fn unshare(&mut self, name: Name, from: &[Name]) -> Result<(), String> {
        let ledger = self.ledger();
        let Some(share) = ledger.share_named(name) else { return Ok(()) };
        let slots: Vec<u8> =
            from.iter().filter_map(|it| ledger.named(*it)).map(|it| it.id.slot).collect();
        let leaves = |slot: u8| from.is_empty() || slots.contains(&slot);
        // Who does nothing lets go of nothing, and then the user gives up.
        let mut stubborn = self
            .guests
            .values()
            .filter(|it| leaves(it.id.slot) && share.is_had_by(it.id.slot) && !it.lives);
        if stubborn.next().is_some() {
            return Ok(());
        }
        if !self.conduct.keeps_shared_memory {
            let guests = self.guests.values_mut().filter(|it| leaves(it.id.slot));
            guests.for_each(|it| it.shared.retain(|unit| !share.extent.units().contains(unit)));
        }
        // The supervisor may be dead by now, and know nothing.
        self.supervise(|it| drop(it.unshare(name, from)))
    }
}
