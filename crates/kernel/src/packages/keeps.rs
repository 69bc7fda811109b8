//! Keeps of a package: memory that it asks for by name and that stays when it ends. Its next
//! incarnation, on whichever core, finds there what it has left. And regions, which it has together
//! with other packages, of its core and of others.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::{KeepPlace, keep_wants};
use nile_abi::{KeepName, PageSize, PhysAddr, Status, VirtAddr};
use nile_platform::board::Keep;
use nile_platform::user::Access;
use nile_platform::{Machine, User};
use nile_stl::node::{RegionShare, RegionUse};

use super::Package;
use super::space::piece_places;
use crate::control::{Reply, Request};
use crate::core::Core;
use crate::regions;

/// How long who asks for a keep waits for another one of its core that does.
const TURN: Duration = Duration::from_micros(100);

impl<M: Machine> Core<M> {
    /// Makes a region of the node of so many bytes, whole pages. One of this name and size may be
    /// there. `Exists` if one of another size is, `Invalid` for a name or a size that none can
    /// have, `NoMemory` if the node has not so much, or too many.
    pub async fn make_region(&self, name: &str, bytes: u64) -> Result<(), Status> {
        let name = regions::name_of(name).filter(|_| bytes > 0).ok_or(Status::Invalid)?;
        let wanted = Keep { name, bytes, version: 0 };
        let asked = self.ask_for_keep(wanted, Request::Keep).await?;
        let Reply::Kept { number, .. } = asked else { return Err(Status::Invalid) };
        match self.machine.board().keep(number as usize) {
            Some(there) if there == wanted => Ok(()),
            _ => Err(Status::Exists),
        }
    }

    /// Makes a region of memory that the node shares with other domains, on its managing core. One
    /// of the same memory may be there. `Denied` on another core, or where nothing is shared.
    pub fn share_region(&self, name: &str, bytes: u64, share: RegionShare) -> Result<(), Status> {
        let RegionShare { unit, place } = share;
        let name = regions::name_of(name).ok_or(Status::Invalid)?;
        let version = u16::from(place);
        let wanted = Keep { name, bytes, version };
        let shared = self.machine.shared_memory().ok_or(Status::Denied)?;
        let manager = self.manager.as_ref().ok_or(Status::Denied)?;
        let offset = u64::from(unit) * PageSize::Large.bytes();
        let is_there = offset.checked_add(bytes).is_some_and(|end| end <= shared.bytes);
        if !is_there || bytes == 0 || place == 0 {
            return Err(Status::Invalid);
        }
        let start = PhysAddr(shared.start.0 + offset);
        manager.borrow_mut().make_share(&self.machine, wanted, start)
    }

    /// The regions of the node, with the packages that have them, as far as this core manages the
    /// node.
    pub fn regions(&self) -> Vec<RegionUse> {
        let regions = self.machine.board().keeps();
        let regions = regions.filter(|(_, keep)| keep.name.as_region().is_some());
        let users = |number| {
            let manager = self.manager.as_ref();
            manager.map(|it| it.borrow().region_users(&self.machine, number)).unwrap_or_default()
        };
        let region = |(number, keep): (usize, Keep)| RegionUse {
            name: keep.name,
            bytes: keep.bytes,
            is_shared: keep.is_shared(),
            packages: users(number),
        };
        regions.map(region).collect()
    }

    /// Forgets a keep of the node. `NotFound` if there is none of this name, `Exists` while a
    /// package has it, `Timeout` while a core lets go of it.
    pub async fn drop_keep(&self, name: KeepName) -> Result<(), Status> {
        let wanted = Keep { name, bytes: 0, version: 0 };
        self.ask_for_keep(wanted, Request::DropKeep).await.map(drop)
    }

    /// Asks the management core for something about a keep, which the record has meanwhile.
    async fn ask_for_keep(&self, wanted: Keep, request: Request) -> Result<Reply, Status> {
        while self.client.asks_for_keep.replace(true) {
            self.sleep(TURN).await;
        }
        self.machine.board().record(self.id()).want_keep(&wanted);
        let result = loop {
            match self.request(request).await {
                Err(Status::Dead) => {}
                result => break result,
            }
        };
        self.client.asks_for_keep.set(false);
        result
    }
}

impl<M: Machine> Package<M> {
    /// What the `keep` call gives: the keep of this name, of so many bytes and of this version.
    /// `Denied` for a package of a job, and if the manifest does not name it; `Invalid` for a name
    /// or a size that none can have, `NoMemory` if that is more than the package may have or the
    /// node has, `Timeout` if another core lets go of it for long, `Dead` when the package has
    /// ended.
    pub(super) async fn keep(&self, name: &[u8], word: u64) -> Result<KeepPlace, Status> {
        let name = str::from_utf8(name).map_err(|_| Status::Invalid)?;
        let (bytes, version) = keep_wants(word);
        let may_keep = match self.manifest() {
            Some(manifest) => manifest.may_keep(name, bytes),
            None => true,
        };
        // Nobody frees what packages of jobs would leave behind.
        if !may_keep || self.0.limits.stays.is_none() {
            return Err(Status::Denied);
        }
        let name = KeepName::new(self.name(), name).ok_or(Status::Invalid)?;
        let bytes = bytes.checked_next_multiple_of(PageSize::Small.bytes()).unwrap_or_default();
        let wanted = Keep { name, bytes, version };
        let had = self.0.keeps.borrow().iter().find(|(keep, _)| *keep == wanted).map(|it| it.1);
        if let Some(place) = had {
            return Ok(place);
        }
        let package = self.clone();
        // A task of its own: when the caller is dropped, the memory is still in order.
        self.0.core.spawn(async move { package.find_keep(wanted).await }).await
    }

    /// What the `region` call gives: the region of this name. `Denied` if the manifest does not
    /// name it, `NotFound` if there is none, `Exists` if two other packages of this core have it,
    /// `NoMemory` if the node has not enough for it any more; `Dead` when the package has ended.
    pub(super) async fn region(&self, name: &[u8]) -> Result<KeepPlace, Status> {
        let name = str::from_utf8(name).map_err(|_| Status::Invalid)?;
        if self.manifest().is_some_and(|manifest| !manifest.uses_region(name)) {
            return Err(Status::Denied);
        }
        let name = KeepName::region(name).ok_or(Status::Invalid)?;
        let had = self.0.keeps.borrow().iter().find(|(keep, _)| keep.name == name).map(|it| it.1);
        if let Some(place) = had {
            return Ok(place);
        }
        let package = self.clone();
        // A task of its own: when the caller is dropped, the memory is still in order.
        self.0.core.spawn(async move { package.find_region(name).await }).await
    }

    async fn find_region(&self, name: KeepName) -> Result<KeepPlace, Status> {
        let core = &self.0.core;
        let wanted = Keep { name, bytes: 0, version: 0 };
        let asked = core.ask_for_keep(wanted, Request::Keep).await?;
        let Reply::Kept { number, .. } = asked else { return Err(Status::Invalid) };
        let there = core.machine().board().keep(number as usize).ok_or(Status::NotFound)?;
        let space = &self.0.space;
        let at = space.begin_to_enter(there.bytes)?;
        let entered = self.enter_keep(number, at, there.bytes).await;
        space.has_grown();
        entered?;
        let Keep { bytes, version, .. } = there;
        let place = KeepPlace { at: Some(at), bytes, version, core: core.id(), is_found: true };
        self.0.keeps.borrow_mut().push((there, place));
        Ok(place)
    }

    async fn find_keep(&self, wanted: Keep) -> Result<KeepPlace, Status> {
        let core = &self.0.core;
        let Keep { bytes, .. } = wanted;
        let asked = core.ask_for_keep(wanted, Request::Keep).await?;
        let Reply::Kept { number, is_found, holder } = asked else { return Err(Status::Invalid) };
        let there = core.machine().board().keep(number as usize).ok_or(Status::NotFound)?;
        let place = KeepPlace {
            at: None,
            bytes: there.bytes,
            version: there.version,
            core: holder.unwrap_or(core.id()),
            is_found,
        };
        if holder.is_some() || there != wanted {
            return Ok(place);
        }
        let space = &self.0.space;
        let at = space.begin_to_keep(bytes)?;
        let entered = self.enter_keep(number, at, bytes).await;
        space.has_grown();
        if entered == Err(Status::Exists) {
            // Another package of this core has it.
            return Ok(place);
        }
        entered?;
        let place = KeepPlace { at: Some(at), ..place };
        self.0.keeps.borrow_mut().push((wanted, place));
        Ok(place)
    }

    async fn enter_keep(&self, number: u32, at: VirtAddr, bytes: u64) -> Result<(), Status> {
        for (piece, (at, _)) in (0..).zip(piece_places(at, bytes)) {
            let grant = self.0.core.enter_keep(number, piece, at).await?;
            self.0.space.with_user(|user| user.map(grant, at, Access::Write))??;
        }
        Ok(())
    }
}
