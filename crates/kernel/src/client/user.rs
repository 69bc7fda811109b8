//! A core's user half as its client keeps it: how grants get there from the kernel half and how
//! they go back, whatever becomes of the management core meanwhile.

use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::call::UserSlot;
use nile_abi::{Status, VirtAddr};
use nile_order::SortedMap;
use nile_platform::user::Access;
use nile_platform::{Grant, Machine};

use super::{BUSY_BACKOFF, PATIENCE};
use crate::control::{self, Reply, Request};
use crate::core::Core;

/// The grants in the user half of this core's tables. What two packages have is there twice.
#[derive(Default)]
pub struct UserGrants(RefCell<SortedMap<(Grant, VirtAddr), Access>>);

impl UserGrants {
    /// What a new incarnation of the management core is told of them.
    pub fn told(&self) -> Vec<Request> {
        let grants = self.0.borrow();
        let told = |((grant, at), access): (&(Grant, VirtAddr), &Access)| Request::HoldsUser {
            grant: *grant,
            at: *at,
            access: *access,
        };
        grants.iter().map(told).collect()
    }
}

impl<M: Machine> Core<M> {
    /// What is in a slot of this core's tables, in the order of the addresses.
    pub(crate) fn user_grants(&self, slot: UserSlot) -> Vec<(VirtAddr, Grant, Access)> {
        let grants = self.client.users.0.borrow();
        let here = grants.iter().filter(|((_, at), _)| is_in(slot, *at));
        let mut all: Vec<_> = here.map(|((grant, at), how)| (*at, *grant, *how)).collect();
        nile_order::sort_by_key(&mut all, |(at, ..)| *at);
        all
    }

    /// Moves a grant, of which this core has no [`Region`] any more, from the kernel half of its
    /// tables to the user half. When that fails, the grant is given back.
    pub(crate) async fn move_to_user(
        &self,
        grant: Grant,
        at: VirtAddr,
        access: Access,
    ) -> Result<(), Status> {
        self.client.regions.borrow_mut().remove(&grant.start);
        self.client.leaving.borrow_mut().insert(grant);
        // To a next incarnation this core has said that the kernel half has it.
        let result = self.map_user(grant, at, access, || true).await;
        self.client.leaving.borrow_mut().remove(&grant);
        match result {
            Ok(()) => {
                self.client.users.0.borrow_mut().insert((grant, at), access);
                self.machine.detach(grant);
                // If the management core restarts meanwhile, what this core then says of all its
                // memory says this, too.
                let _ = self.request(Request::Invalidated { grant }).await;
            }
            // What is left of it is the management core's to know.
            Err(_) => drop(self.take_back(grant).await),
        }
        result
    }

    /// Enters a grant that this core has in one slot of its user half in another one as well, at
    /// `at`, to be written: as long as it `is_there`, which ends before the grant is given back.
    /// `NotFound` when it is not any more; else fails as [`Core::move_to_user`] does.
    pub(crate) async fn enter_beside(
        &self,
        grant: Grant,
        at: VirtAddr,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Status> {
        self.map_user(grant, at, Access::Write, is_there).await?;
        self.client.users.0.borrow_mut().insert((grant, at), Access::Write);
        Ok(())
    }

    async fn map_user(
        &self,
        grant: Grant,
        at: VirtAddr,
        access: Access,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Status> {
        let deadline = self.now() + PATIENCE;
        while is_there() {
            let Err(status) = self.ask_present(Request::MapUser { grant, at, access }).await else {
                return Ok(());
            };
            if status == Status::Dead {
                continue;
            }
            self.machine.flush();
            self.client.post(self, Request::Flushed.encode(control::UNANSWERED));
            match status {
                Status::Busy if self.now() < deadline => self.sleep(BUSY_BACKOFF).await,
                Status::Busy => return Err(Status::Timeout),
                status => return Err(status),
            }
        }
        Err(Status::NotFound)
    }

    /// A piece of a keep in the user half, at `at`. `Exists` if another core has it, `Timeout` if
    /// one lets go of it for long.
    pub(crate) async fn enter_keep(
        &self,
        number: u32,
        piece: u32,
        at: VirtAddr,
    ) -> Result<Grant, Status> {
        let deadline = self.now() + PATIENCE;
        loop {
            match self.ask_present(Request::EnterKeep { number, piece, at }).await {
                // Its next incarnation takes out of the user half what this core does not know.
                Err(Status::Dead) => {}
                Err(Status::Busy) if self.now() < deadline => self.sleep(BUSY_BACKOFF).await,
                Err(Status::Busy) => return Err(Status::Timeout),
                Err(status) => return Err(status),
                Ok(Reply::Granted { grant }) => {
                    self.client.users.0.borrow_mut().insert((grant, at), Access::Write);
                    return Ok(grant);
                }
                Ok(_) => return Err(Status::Invalid),
            }
        }
    }

    /// Takes a slot's memory out of this core's tables but for what `stays`, lets `forget` drop the
    /// translations of it, and gives it back.
    pub(crate) async fn empty_slot(
        &self,
        slot: UserSlot,
        stays: impl Fn(VirtAddr, Access) -> bool,
        forget: impl FnOnce(),
    ) {
        self.take_out(|at, access| is_in(slot, at) && !stays(at, access), forget).await;
    }

    /// The same with what is at one place of the user half.
    pub(crate) async fn empty_place(&self, at: VirtAddr, forget: impl FnOnce()) {
        self.take_out(|place, _| place == at, forget).await;
    }

    async fn take_out(&self, leaves: impl Fn(VirtAddr, Access) -> bool, forget: impl FnOnce()) {
        let _turn = self.client.empties.take().await;
        let (mut back, mut beside) = (Vec::new(), Vec::new());
        loop {
            let leaves = |((_, at), access): &(&(Grant, VirtAddr), &Access)| leaves(*at, **access);
            let next = self.client.users.0.borrow().iter().find(leaves).map(|(place, _)| *place);
            let Some((grant, at)) = next else { break };
            match self.ask_present(Request::Release { grant, at: Some(at) }).await {
                // The next incarnation has learned that the user half has it.
                Err(Status::Dead) => continue,
                Err(Status::Busy) => {
                    self.sleep(BUSY_BACKOFF).await;
                    continue;
                }
                // Nobody has it any more: a core that is told that has nothing to say.
                Err(_) => {}
                Ok(Reply::Granted { .. }) => {
                    self.client.leaving.borrow_mut().insert(grant);
                    back.push(grant);
                }
                // Another package of this core has it, too.
                Ok(_) => beside.push(grant),
            }
            self.client.users.0.borrow_mut().remove(&(grant, at));
        }
        forget();
        for grant in beside {
            // A next incarnation of the management core knows the other place alone.
            let _ = self.request(Request::Invalidated { grant }).await;
        }
        for grant in back {
            if let Err(status) = self.forget(grant).await {
                self.machine.log(format_args!("{grant:?} is not given back: {status}"));
            }
        }
    }

    /// Asks, and believes the answer only if it is the present incarnation's: else `Dead`. Unlike
    /// an answer that came before the incarnation's end, it is then known to its successor.
    async fn ask_present(&self, request: Request) -> Result<Reply, Status> {
        let asked = self.client.bound_to(&self.machine);
        let result = self.ask(request).await;
        if self.client.bound_to(&self.machine) == asked { result } else { Err(Status::Dead) }
    }
}

fn is_in(slot: UserSlot, at: VirtAddr) -> bool {
    UserSlot::of(at, 1) == Some(slot)
}
