//! Memory that domains share: made, given to more of them, and taken back when nobody has it.

use alloc::vec::Vec;

use super::Supervisor;
use crate::domain::DomainId;
use crate::extent::Extent;
use crate::name::Name;
use crate::refused::{Refused, Thing};
use crate::share::{MOST_SHARED, Share};
use crate::words::{Holding, Party, Phase, Words};

impl<W: Words> Supervisor<W> {
    /// Has domains that run share so many units of memory under a name, besides those that do; it
    /// is zero when the first ones get it. It is the supervisor's, and counts towards no domain's
    /// limits. The domains are to be told, and may use it already.
    pub fn share(&mut self, name: Name, units: u32, with: &[Name]) -> Result<Share, Refused> {
        let users = with.iter().map(|it| self.running(*it)).collect::<Result<Vec<_>, _>>()?;
        if users.is_empty() {
            return Err(Refused::SharedByNobody);
        }
        if units == 0 || units > MOST_SHARED {
            return Err(Refused::ShareSize(units));
        }
        match self.ledger.share_named(name) {
            Some(there) if there.extent.count == units && there.users().next().is_some() => {}
            Some(there) => return Err(Refused::Shared { name, units: there.extent.count }),
            None => {
                let extent = self.row_of(units)?;
                self.ledger.make_share(name, extent).ok_or(Refused::Shares)?;
            }
        }
        let bits = users.iter().fold(0, |bits, id| bits | 1 << id.slot);
        self.ledger.set_users(name, |users| users | bits);
        self.ledger.share_named(name).ok_or(Refused::NoShare(name))
    }

    /// These domains have let go of a share and do not use it any more; without any, none does.
    /// When nobody has it, it is zeroed and free.
    pub fn unshare(&mut self, name: Name, from: &[Name]) -> Result<(), Refused> {
        self.ledger.share_named(name).ok_or(Refused::NoShare(name))?;
        let of = |name: &Name| self.ledger.named(*name).map(|it| it.id.slot);
        let left = from.iter().filter_map(of).fold(0, |bits, slot| bits | 1 << slot);
        let left = if from.is_empty() { u64::MAX } else { left };
        self.ledger.set_users(name, |users| users & !left);
        self.give_shares_back();
        Ok(())
    }

    /// A domain of which nothing runs any more shares nothing.
    pub(super) fn leave_shares(&mut self, slot: u8) {
        let had = self.ledger.shares().filter(|it| it.is_had_by(slot)).map(|it| it.name);
        for name in had.collect::<Vec<_>>() {
            self.ledger.set_users(name, |users| users & !(1 << slot));
        }
        self.give_shares_back();
    }

    /// Has what nobody shares any more zeroed, and forgets it.
    pub(super) fn give_shares_back(&mut self) {
        for share in self.ledger.unused_shares() {
            let is_had = |unit: &u32| {
                let Holding { phase, owner, .. } = self.ledger.holding(Thing::Unit(*unit));
                phase == Phase::Held && owner == Party::Supervisor
            };
            let units = share.extent.units().filter(is_had);
            let extents = units.map(|start| Extent { start, count: 1 }).collect();
            self.scrub(extents);
            // What is free before others of it is zero may be somebody else's then.
            self.ledger.forget_share(share.name);
        }
    }

    /// Free units that follow each other, of the smallest extent that has so many.
    fn row_of(&self, units: u32) -> Result<Extent, Refused> {
        let free = self.ledger.extents_with(|it| it.phase == Phase::Free);
        let fits = free.iter().filter(|it| it.count >= units).min_by_key(|it| it.count);
        let longest = free.iter().map(|it| it.count).max().unwrap_or_default();
        let none = Refused::Row { wanted: units, free: longest };
        fits.map(|it| Extent { count: units, ..*it }).ok_or(none)
    }

    fn running(&self, name: Name) -> Result<DomainId, Refused> {
        let there = || self.ledger.domains().map(|it| it.name).collect();
        let unknown = || Refused::Unknown { name, there: there() };
        let domain = self.ledger.named(name).ok_or_else(unknown)?;
        match domain.state.is_running() {
            true => Ok(domain.id),
            false => Err(Refused::Busy { name, state: domain.state }),
        }
    }
}
