//! Keeps: memory that a package's next incarnation finds again, on whichever core that is; and
//! regions, which packages of several cores have at once. Which there are is on the board, so the
//! next incarnation of this core knows them, too.
//!
//! A keep has its memory piece by piece, when a core first asks for the piece, and until it is
//! dropped. One core has it at a time, in its user half; a region each that wants it.

use alloc::vec::Vec;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, KeepName, PageSize, PhysAddr, Status, VirtAddr};
use nile_platform::board::{Keep, MOST_KEEPS};
use nile_platform::{Board, Grant, Machine, Manager as _};

use super::Manager;
use crate::control::Reply;

/// The memory of a keep that has been needed so far.
fn grants(board: &Board, number: usize, keep: Keep) -> impl Iterator<Item = Grant> + '_ {
    keep.pieces().enumerate().filter_map(move |(piece, bytes)| {
        Some(Grant { start: board.keep_piece(number, piece)?, bytes })
    })
}

/// A piece of memory that the node shares with other domains. `Denied` if it does not.
fn shared<M: Machine>(machine: &M, start: PhysAddr) -> Result<Grant, Status> {
    let grant = Grant { start, bytes: PageSize::Large.bytes() };
    let is_so = machine.manager().is_some_and(|manager| manager.shares(grant));
    is_so.then_some(grant).ok_or(Status::Denied)
}

fn find(board: &Board, name: KeepName) -> Option<(usize, Keep)> {
    board.keeps().find(|(_, keep)| keep.name == name)
}

impl<M: Machine> Manager<M> {
    /// An earlier incarnation of this core has given these out.
    pub(super) fn recover_keeps(&mut self, machine: &M) {
        let board = machine.board();
        for (number, keep) in board.keeps() {
            for grant in grants(board, number, keep) {
                let kept = match keep.is_shared() {
                    true => self.memory.keep_share(grant.start),
                    false => self.memory.keep(grant),
                };
                if let Err(status) = kept {
                    machine.log(format_args!("the keep {} is damaged: {status}", keep.name));
                }
            }
        }
    }

    /// The keep or region that the record of `core` wants; it is made if there is none of this
    /// name, unless it is a region that is wanted with whatever bytes it has. `Busy` while a core
    /// has yet to let go of a keep; `NoMemory` if there are too many, or the node has not so much
    /// for a region; `NotFound`.
    pub(super) fn find_keep(&mut self, machine: &M, core: CoreId) -> Result<Reply, Status> {
        let board = machine.board();
        let wanted = board.record(core).wanted_keep().ok_or(Status::Invalid)?;
        let is_region = wanted.name.as_region().is_some();
        if (wanted.bytes == 0 && !is_region)
            || wanted.bytes > Keep::MOST_BYTES
            || !wanted.bytes.is_multiple_of(PageSize::Small.bytes())
        {
            return Err(Status::Invalid);
        }
        if let Some((number, keep)) = find(board, wanted.name) {
            let number = number as u32;
            if is_region {
                return Ok(Reply::Kept { number, is_found: true, holder: None });
            }
            let mut holder = None;
            for grant in grants(board, number as usize, keep) {
                if self.memory.is_unsettled(grant) {
                    return Err(Status::Busy);
                }
                holder = holder.or(self.memory.holder(grant));
            }
            let holder = holder.filter(|holder| *holder != core);
            return Ok(Reply::Kept { number, is_found: true, holder });
        }
        if wanted.bytes == 0 {
            return Err(Status::NotFound);
        }
        if is_region && wanted.bytes > self.memory.free_bytes() {
            return Err(Status::NoMemory);
        }
        let free = (0..MOST_KEEPS).find(|number| board.keep(*number).is_none());
        let number = free.ok_or(Status::NoMemory)?;
        board.set_keep(number, Some(wanted));
        Ok(Reply::Kept { number: number as u32, is_found: false, holder: None })
    }

    /// Enters a piece of a keep in the user half of `core`, at `at`.
    pub(super) fn enter_keep(
        &mut self,
        machine: &M,
        core: CoreId,
        (number, piece): (u32, u32),
        at: VirtAddr,
    ) -> Result<Reply, Status> {
        let board = machine.board();
        let (number, piece) = (number as usize, piece as usize);
        let keep = board.keep(number).ok_or(Status::NotFound)?;
        let bytes = keep.pieces().nth(piece).ok_or(Status::NotFound)?;
        let grant = match board.keep_piece(number, piece) {
            // A supervisor may have changed its mind.
            Some(start) if keep.is_shared() => shared(machine, start)?,
            Some(start) => Grant { start, bytes },
            // It was being made when an earlier incarnation of this core ended.
            None if keep.is_shared() => return Err(Status::NotFound),
            None => {
                let grant = match bytes == PageSize::Large.bytes() {
                    true => self.memory.take_frame(PageSize::Large, core)?,
                    false => self.memory.take_run(bytes)?,
                };
                if let Some(manager) = machine.manager() {
                    manager.zero(grant);
                }
                board.set_keep_piece(number, piece, grant.start);
                self.memory.keep(grant)?;
                grant
            }
        };
        self.memory.enter_kept(grant, core, at, keep.name.as_region().is_some())?;
        Ok(Reply::Granted { grant })
    }

    /// Makes a region of memory that the node shares with other domains, and which begins at
    /// `start`: whole 2 MiB. This one may be there. `Exists` if another one of this name is,
    /// `Invalid` for memory of the node's own, `Denied` for what the supervisor does not let it
    /// have.
    pub(crate) fn make_share(
        &mut self,
        machine: &M,
        wanted: Keep,
        start: PhysAddr,
    ) -> Result<(), Status> {
        let board = machine.board();
        if wanted.bytes > Keep::MOST_BYTES || !wanted.bytes.is_multiple_of(PageSize::Large.bytes())
        {
            return Err(Status::Invalid);
        }
        let place = |piece: usize| PhysAddr(start.0 + piece as u64 * PageSize::Large.bytes());
        let count = wanted.pieces().count();
        (0..count).try_for_each(|piece| shared(machine, place(piece)).map(drop))?;
        let number = match find(board, wanted.name) {
            Some((number, there)) => {
                let is_this = board.keep_piece(number, 0).is_none_or(|it| it == start);
                let number =
                    Some(number).filter(|_| there == wanted && is_this).ok_or(Status::Exists)?;
                // An earlier incarnation of this core ended while it made it.
                let lacks = |piece: &usize| board.keep_piece(number, *piece).is_none();
                self.keep_shares((0..count).filter(lacks).map(place))?;
                number
            }
            None => {
                let free = (0..MOST_KEEPS).find(|number| board.keep(*number).is_none());
                let number = free.ok_or(Status::NoMemory)?;
                self.keep_shares((0..count).map(place))?;
                board.set_keep(number, Some(wanted));
                number
            }
        };
        for piece in 0..count {
            board.set_keep_piece(number, piece, place(piece));
        }
        Ok(())
    }

    /// All of these or none.
    fn keep_shares(
        &mut self,
        places: impl Iterator<Item = PhysAddr> + Clone,
    ) -> Result<(), Status> {
        for (kept, place) in places.clone().enumerate() {
            if let Err(status) = self.memory.keep_share(place) {
                let bytes = PageSize::Large.bytes();
                let mut kept = places.take(kept).map(|start| Grant { start, bytes });
                kept.try_for_each(|grant| self.memory.drop_kept(grant))?;
                return Err(status);
            }
        }
        Ok(())
    }

    /// Makes the regions that a node's configuration asks for and that are not there.
    pub(super) fn make_regions(&self, machine: &M) {
        let board = machine.board();
        for (name, bytes) in &self.regions {
            let free = (0..MOST_KEEPS).find(|number| board.keep(*number).is_none());
            let (None, Some(number)) = (find(board, *name), free) else { continue };
            board.set_keep(number, Some(Keep { name: *name, bytes: *bytes, version: 0 }));
        }
    }

    /// Who has the region with this number: a core, and the slot of its package.
    pub(crate) fn region_users(&self, machine: &M, number: usize) -> Vec<(CoreId, UserSlot)> {
        let board = machine.board();
        let Some(keep) = board.keep(number) else { return Vec::new() };
        let first = grants(board, number, keep).next();
        first.map(|first| self.memory.user_holders(first)).unwrap_or_default()
    }

    /// Forgets the keep that the record of `core` wants gone, and frees its memory.
    pub(super) fn drop_keep(&mut self, machine: &M, core: CoreId) -> Result<Reply, Status> {
        let board = machine.board();
        let wanted = board.record(core).wanted_keep().ok_or(Status::Invalid)?;
        let (number, keep) = find(board, wanted.name).ok_or(Status::NotFound)?;
        for grant in grants(board, number, keep) {
            if self.memory.is_unsettled(grant) {
                return Err(Status::Busy);
            }
            if self.memory.holder(grant).is_some() {
                return Err(Status::Exists);
            }
        }
        let grants: Vec<Grant> = grants(board, number, keep).collect();
        // Should this incarnation end now, its memory is lost, and not twice given out.
        board.set_keep(number, None);
        grants.into_iter().try_for_each(|grant| self.memory.drop_kept(grant))?;
        Ok(Reply::Done)
    }
}
