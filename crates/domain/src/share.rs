//! Memory that domains share (RainForest 5.4: `rf_map`). It is the supervisor's, who knows which
//! domains have it, and it is free when the last of these has let go of it, or has ended: nobody
//! has memory that its owner's end would take away.
//!
//! A row is there once its second word is stored. While it names no domain it is being made, or
//! given back; a supervisor that begins anew gives back what nobody has.

use alloc::vec::Vec;

use crate::extent::Extent;
use crate::ledger::Ledger;
use crate::name::{MOST_NAME, Name};
use crate::refused::Thing;
use crate::words::{DOMAINS, Holding, Look, Party, Phase, Sizes, Words};

/// The most shares of a machine at a time.
pub const SHARES: usize = 16;

/// The most units of a share: what a region has at most.
pub const MOST_SHARED: u32 = 128;

/// Words of a row: the domains that have it, its extent, its name.
pub(crate) const ROW: usize = 2 + MOST_NAME / 8;

/// Memory that domains share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// What it is called.
    pub name: Name,
    /// Which memory it is.
    pub extent: Extent,
    /// The places of those that have it, a bit each.
    users: u64,
}

impl Share {
    /// The places of the domains that have it.
    pub fn users(&self) -> impl Iterator<Item = u8> + use<> {
        let users = self.users;
        (1..=DOMAINS as u8).filter(move |slot| users >> slot & 1 == 1)
    }

    /// Whether the domain in a place has it.
    pub fn is_had_by(&self, slot: u8) -> bool {
        u32::from(slot) < u64::BITS && self.users >> slot & 1 == 1
    }
}

/// The share in a row of the ledger in these words; `None` if it is empty.
fn read(words: &impl Look, sizes: Sizes, row: usize) -> Option<Share> {
    let at = sizes.share(row);
    let extent = words.load(at + 1);
    let extent = Extent { start: extent as u32, count: (extent >> 32) as u32 };
    let mut name = [0; MOST_NAME];
    for (index, bytes) in name.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&words.load(at + 2 + index).to_le_bytes());
    }
    let share = Share { name: Name::new(&name)?, extent, users: words.load(at) };
    (extent.count > 0).then_some(share)
}

/// Whether a domain has a unit of memory because it is shared with it.
pub(crate) fn shows(words: &impl Look, sizes: Sizes, slot: u8, unit: u32) -> bool {
    let mut shares = (0..SHARES).filter_map(|row| read(words, sizes, row));
    shares.any(|it| it.is_had_by(slot) && it.extent.units().contains(&unit))
}

impl<W: Words> Ledger<W> {
    /// All shares.
    pub fn shares(&self) -> impl Iterator<Item = Share> {
        self.share_rows().map(|(_, share)| share)
    }

    /// The share of this name.
    pub fn share_named(&self, name: Name) -> Option<Share> {
        self.shares().find(|it| it.name == name)
    }

    /// Whether every row says what a ledger writes; the first word of one that does not.
    pub(crate) fn damaged_share(&self) -> Option<usize> {
        let sizes = self.sizes();
        let is_damaged = |row: &usize| {
            let at = sizes.share(*row);
            let [users, extent] = [self.words().load(at), self.words().load(at + 1)];
            match read(self.words(), sizes, *row) {
                Some(share) => {
                    let end = share.extent.start.checked_add(share.extent.count);
                    end.is_none_or(|end| end > sizes.units)
                }
                None => users != 0 || extent != 0,
            }
        };
        (0..SHARES).find(is_damaged).map(|row| sizes.share(row))
    }

    fn share_rows(&self) -> impl Iterator<Item = (usize, Share)> {
        (0..SHARES).filter_map(|row| Some((row, read(self.words(), self.sizes(), row)?)))
    }

    /// Makes one that nobody has yet, of free memory; `None` if there are as many as there can be.
    pub(crate) fn make_share(&mut self, name: Name, extent: Extent) -> Option<()> {
        let row = (0..SHARES).find(|row| read(self.words(), self.sizes(), *row).is_none())?;
        let at = self.sizes().share(row);
        self.store(at, 0);
        for (index, bytes) in name.padded().as_chunks().0.iter().enumerate() {
            self.store(at + 2 + index, u64::from_le_bytes(*bytes));
        }
        self.store(at + 1, u64::from(extent.count) << 32 | u64::from(extent.start));
        let own = Holding { phase: Phase::Held, owner: Party::Supervisor, ..Holding::FREE };
        extent.units().for_each(|unit| self.set(Thing::Unit(unit), own));
        Some(())
    }

    /// Says who has one.
    pub(crate) fn set_users(&mut self, name: Name, change: impl FnOnce(u64) -> u64) {
        let found = self.share_rows().find(|(_, it)| it.name == name);
        if let Some((row, share)) = found {
            self.store(self.sizes().share(row), change(share.users));
        }
    }

    /// Those that nobody has.
    pub(crate) fn unused_shares(&self) -> Vec<Share> {
        self.shares().filter(|it| it.users == 0).collect()
    }

    /// Forgets one that nobody has, and whose memory is not its any more.
    pub(crate) fn forget_share(&mut self, name: Name) {
        let found = self.share_rows().find(|(_, it)| it.name == name);
        if let Some((row, _)) = found {
            self.store(self.sizes().share(row) + 1, 0);
        }
    }
}
