//! The user halves of the cores' tables: what packages have mapped.
//!
//! A grant enters a core's user half when it leaves the kernel half of the same core, so that what
//! a package may execute is nowhere writable. After a restart of the managing core the cores say
//! what they have in their user halves; what none of them spoke of belonged to packages that are
//! gone, and is swept out.
//!
//! What one package of a core may write another one of the core may have, too, in its own slot: the
//! ring of a channel between them. Each place is given back by itself.

use alloc::vec::Vec;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, PageSize, PhysAddr, Status, VirtAddr};
use nile_memory::paging::{
    AddressSpace, EntryKind, Level, MapError, Mapping, Permissions, TableIndex, TableMemory,
};
use nile_order::SortedSet;
use nile_platform::user::Access;
use nile_platform::{Grant, Tables};

use super::{Half, Memory, take_out};

/// What the hardware is told about memory with this access.
pub(super) fn permissions(access: Access) -> Permissions {
    match access {
        Access::Read => Permissions::READ.for_user(),
        Access::Write => Permissions::READ_WRITE.for_user(),
        Access::Execute => Permissions::READ_EXECUTE.for_user(),
    }
}

/// Whether `bytes` bytes from `at` on are pages that a package may have.
fn is_user_range(at: VirtAddr, bytes: u64) -> bool {
    at.is_aligned(PageSize::Small) && UserSlot::of(at, bytes).is_some()
}

impl Half {
    /// Whether it has this place with this access.
    pub(super) fn is_at(self, place: VirtAddr, how: Access) -> bool {
        matches!(self, Half::User { at, access, twin }
            if access == how && (at == place || twin == Some(place)))
    }

    /// Its second place, as if it were the only one.
    pub(super) fn twin(self) -> Option<Half> {
        let Half::User { access, twin: Some(at), .. } = self else { return None };
        Some(Half::User { at, access, twin: None })
    }

    /// Its only place, if what is there may have a second one at `place`.
    pub(super) fn place_beside(self, place: VirtAddr, how: Access) -> Option<VirtAddr> {
        let Half::User { at, access: Access::Write, twin: None } = self else { return None };
        let is_beside = UserSlot::of(at, 1) != UserSlot::of(place, 1);
        (how == Access::Write && is_beside).then_some(at)
    }
}

impl<T: TableMemory> Memory<T> {
    /// Moves a grant that `core` has from the kernel half of its tables to the user half. The core
    /// then says [`Memory::acknowledge`] for the kernel half. What is in one slot already, to be
    /// written, gets a second place in another one; then there is nothing to acknowledge. Fails
    /// with `NotFound` (not the core's), `Invalid` (no place for a package's memory), `Exists` (not
    /// free), `NoTables`, `Denied` (to be executed, but shared), `Busy`. When it fails, the grant
    /// is where it was, and the core forgets every translation and says so.
    pub fn map_user(
        &mut self,
        grant: Grant,
        core: CoreId,
        at: VirtAddr,
        access: Access,
    ) -> Result<(), Status> {
        let holding = self.given.get(&grant.start).ok_or(Status::NotFound)?;
        let half = *holding.holders.get(&core).ok_or(Status::NotFound)?;
        if half.is_at(at, access) {
            return Ok(());
        }
        let first = half.place_beside(at, access);
        if half != Half::Kernel && first.is_none() {
            return Err(Status::Exists);
        }
        if holding.leaving.contains_key(&core) {
            return Err(Status::Busy);
        }
        if grant.bytes != holding.bytes {
            return Err(Status::Invalid);
        }
        self.enter_user(grant, core, Half::User { at, access, twin: first })?;
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        if first.is_some() {
            return Ok(());
        }
        let kernel = self.places.mappings(grant, holding.origin, Half::Kernel);
        let retired = take_out(&mut self.tables, core, kernel);
        holding.leaving.insert(core, retired);
        Ok(())
    }

    /// Notes a grant that an earlier incarnation of this core entered in the user half of `core`.
    pub fn adopt_user(
        &mut self,
        grant: Grant,
        core: CoreId,
        at: VirtAddr,
        access: Access,
    ) -> Result<(), Status> {
        self.know(grant)?;
        let holding = self.given.get(&grant.start).ok_or(Status::NotFound)?;
        let had = holding.holders.get(&core);
        let first = had.and_then(|half| half.place_beside(at, access));
        let other = !holding.adopted || (had.is_some() && first.is_none());
        if grant.bytes != holding.bytes || other {
            return Err(Status::Invalid);
        }
        self.enter_user(grant, core, Half::User { at, access, twin: first })
    }

    /// Takes a grant out of a core's user half at `at`; the core then says
    /// [`Memory::acknowledge`]. Whether that was its only place there.
    pub fn unmap_user(&mut self, grant: Grant, core: CoreId, at: VirtAddr) -> Result<bool, Status> {
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        let half = *holding.holders.get(&core).ok_or(Status::NotFound)?;
        let Half::User { at: one, access, twin: Some(other) } = half else {
            return self.unshare(grant, core).map(|_| true);
        };
        let stays = match at {
            at if at == one => other,
            at if at == other => one,
            _ => return Err(Status::NotFound),
        };
        holding.holders.insert(core, Half::User { at: stays, access, twin: None });
        let whole = Grant { start: grant.start, bytes: holding.bytes };
        let leaves = Half::User { at, access, twin: None };
        let leaves = self.places.mappings(whole, holding.origin, leaves);
        let retired = take_out(&mut self.tables, core, leaves);
        holding.leaving.entry(core).or_default().extend(retired);
        Ok(false)
    }

    /// Enters a known grant in a core's user half and notes that; all of it or nothing. A twin is
    /// there already.
    pub(super) fn enter_user(
        &mut self,
        grant: Grant,
        core: CoreId,
        user: Half,
    ) -> Result<(), Status> {
        let Half::User { at, access, .. } = user else { return Err(Status::Invalid) };
        let enters = Half::User { at, access, twin: None };
        if !is_user_range(at, grant.bytes) {
            return Err(Status::Invalid);
        }
        let holding = self.given.get_mut(&grant.start).ok_or(Status::NotFound)?;
        let is_shared =
            holding.holders.keys().chain(holding.leaving.keys()).any(|other| *other != core);
        if access == Access::Execute && is_shared {
            return Err(Status::Denied);
        }
        let space = self.tables.spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        let mut entered = Vec::new();
        for mapping in self.places.mappings(grant, holding.origin, enters) {
            match space.map(&mut self.tables.memory, &mut self.tables.pool, mapping) {
                Ok(()) => entered.push(mapping),
                // An earlier incarnation of this core entered it.
                Err(MapError::AlreadyMapped)
                    if space.find(&self.tables.memory, mapping.virt) == Some(mapping) => {}
                Err(error) => {
                    let retired = take_out(&mut self.tables, core, entered.into_iter());
                    self.tables.retired.extend(retired);
                    // What is there may be what is swept out soon.
                    let soon = error == MapError::AlreadyMapped && !self.swept;
                    return Err(if soon { Status::Busy } else { error.into() });
                }
            }
        }
        holding.holders.insert(core, user);
        Ok(())
    }

    /// Every core has said what it has: takes out of the user halves what none spoke of. Gives
    /// the cores that are to forget something, and then to say so.
    pub fn sweep(&mut self) -> Vec<CoreId> {
        self.swept = true;
        let mut claimed = SortedSet::new();
        for (start, holding) in &self.given {
            let grant = Grant { start: *start, bytes: holding.bytes };
            for (core, half) in &holding.holders {
                if matches!(half, Half::User { .. }) {
                    for place in [Some(*half), half.twin()].into_iter().flatten() {
                        let mappings = self.places.mappings(grant, holding.origin, place);
                        claimed.extend(mappings.map(|it| (*core, it.virt, it.phys)));
                    }
                }
            }
        }
        let mut swept = Vec::new();
        for at in 0..self.tables.spaces.len() {
            let core = self.tables.spaces[at].core();
            let mut stray = mappings(&self.tables.memory, &self.tables.spaces[at]);
            stray.retain(|mapping| !claimed.contains(&(core, mapping.virt, mapping.phys)));
            if !stray.is_empty() {
                let retired = take_out(&mut self.tables, core, stray.into_iter());
                self.tables.retired.extend(retired);
                swept.push(core);
            }
        }
        swept
    }

    /// Whether a user half has a page of this memory that nobody may have spoken of yet.
    pub(super) fn is_in_user_half(&self, start: PhysAddr, bytes: u64) -> bool {
        !self.swept && shows(&self.user_mappings(), start, bytes)
    }

    /// Everything in the user halves of all cores.
    pub(super) fn user_mappings(&self) -> Vec<Mapping> {
        let Tables { memory, spaces, .. } = &self.tables;
        spaces.iter().flat_map(|space| mappings(memory, space)).collect()
    }
}

/// Whether one of `mappings` shows a part of this memory.
pub(super) fn shows(mappings: &[Mapping], start: PhysAddr, bytes: u64) -> bool {
    mappings.iter().any(|mapping| {
        mapping.phys.0 < start.0 + bytes && start.0 < mapping.phys.0 + mapping.size.bytes()
    })
}

/// Everything in the user half of a core's tables, but for the pool.
fn mappings<T: TableMemory>(memory: &T, space: &AddressSpace) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut tables = Vec::from([(space.root(), Level::Pml4, 0)]);
    while let Some((table, level, base)) = tables.pop() {
        for index in TableIndex::all() {
            let virt = base | (index.get() as u64) << level.shift();
            // What a slot has is a multiple of what an entry of the root covers.
            if UserSlot::of(VirtAddr(virt), 1).is_none() {
                continue;
            }
            let entry = memory.read(table, index);
            match (entry.kind(level), level.below(), level.leaf_size()) {
                (EntryKind::Link(linked), Some(below), _) => tables.push((linked, below, virt)),
                (EntryKind::Leaf(phys), _, Some(size)) => {
                    let permissions = entry.permissions();
                    found.push(Mapping { virt: VirtAddr(virt), phys, size, permissions });
                }
                _ => {}
            }
        }
    }
    found
}
