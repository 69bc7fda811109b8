//! Memory that stays when no core has it: see `manager::keeps`.

use alloc::vec::Vec;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, PageSize, PhysAddr, Status, VirtAddr};
use nile_memory::paging::TableMemory;
use nile_platform::Grant;
use nile_platform::user::Access;

use super::{Half, Memory, Origin};

impl<T: TableMemory> Memory<T> {
    /// Keeps a grant from now on; an earlier incarnation of this core may have given it out.
    pub fn keep(&mut self, grant: Grant) -> Result<(), Status> {
        self.know(grant)?;
        self.kept.insert(grant.start);
        Ok(())
    }

    /// Keeps 2 MiB that are not the node's: it shares them with other domains. `Invalid` if they
    /// are its own, or are not aligned.
    pub fn keep_share(&mut self, start: PhysAddr) -> Result<(), Status> {
        let bytes = PageSize::Large.bytes();
        if !start.is_aligned(PageSize::Large) || self.physical.has_any(start, bytes) {
            return Err(Status::Invalid);
        }
        // An earlier incarnation of this core may have entered it in user halves.
        let adopted = !self.unheard.is_empty();
        if !self.given.contains_key(&start) {
            self.enter(start, bytes, Origin::Frame(PageSize::Large));
        }
        if let Some(holding) = self.given.get_mut(&start) {
            holding.adopted |= adopted;
        }
        self.kept.insert(start);
        Ok(())
    }

    /// A core that has it.
    pub fn holder(&self, grant: Grant) -> Option<CoreId> {
        self.given.get(&grant.start)?.holders.keys().next().copied()
    }

    /// Whether a core has yet to say that it has forgotten it, or may have it.
    pub fn is_unsettled(&self, grant: Grant) -> bool {
        let is_leaving = |start| self.given.get(&start).is_some_and(|it| !it.leaving.is_empty());
        !self.unheard.is_empty() || is_leaving(grant.start)
    }

    /// The packages that have it: cores and slots.
    pub fn user_holders(&self, grant: Grant) -> Vec<(CoreId, UserSlot)> {
        let Some(holding) = self.given.get(&grant.start) else { return Vec::new() };
        let slots = |(core, half): (&CoreId, &Half)| {
            let Half::User { at, twin, .. } = *half else { return [None, None] };
            let slot = |at| Some((*core, UserSlot::of(at, 1)?));
            [slot(at), twin.and_then(slot)]
        };
        holding.holders.iter().flat_map(slots).flatten().collect()
    }

    /// Enters one in a core's user half, to be written. `Exists` if it is elsewhere, `Busy` while
    /// it [is unsettled](Memory::is_unsettled). What is shared may be in others', and in two slots
    /// of each core.
    pub fn enter_kept(
        &mut self,
        grant: Grant,
        core: CoreId,
        at: VirtAddr,
        is_shared: bool,
    ) -> Result<(), Status> {
        let holding = self.given.get(&grant.start).ok_or(Status::NotFound)?;
        let user = Half::User { at, access: Access::Write, twin: None };
        if is_shared {
            let twin = match holding.holders.get(&core) {
                Some(half) if half.is_at(at, Access::Write) => return Ok(()),
                Some(half) => Some(half.place_beside(at, Access::Write).ok_or(Status::Exists)?),
                None => None,
            };
            if holding.leaving.contains_key(&core) || self.unheard.contains(&core) {
                return Err(Status::Busy);
            }
            return self.enter_user(grant, core, Half::User { at, access: Access::Write, twin });
        }
        match holding.holders.iter().next() {
            Some((holder, half)) if *holder == core && *half == user => return Ok(()),
            Some(_) => return Err(Status::Exists),
            None if self.is_unsettled(grant) => return Err(Status::Busy),
            None => {}
        }
        self.enter_user(grant, core, user)
    }

    /// Frees one as soon as nobody has it. What domains share, nobody has any more, and it is
    /// forgotten.
    pub fn drop_kept(&mut self, grant: Grant) -> Result<(), Status> {
        self.kept.remove(&grant.start);
        let is_large = grant.bytes == PageSize::Large.bytes();
        if is_large && !self.physical.has_any(grant.start, grant.bytes) {
            self.given.remove(&grant.start);
            return Ok(());
        }
        self.free_if_unused(grant)
    }
}
