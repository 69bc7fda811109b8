//! Memory of a package's that another package has, too: the ring of a channel. It begins as one
//! package's; the other one then joins it: on another core by `Request::Join`, on the same core in
//! its own slot. Each gives it back when its end of the channel is closed, or with all its memory;
//! when both have, it is free.

use nile_abi::{ChannelId, Status, VirtAddr};
use nile_platform::user::Access;
use nile_platform::{Grant, Machine, User};

use super::Package;
use super::space::Space;
use crate::control::{Reply, Request};
use crate::core::Core;

/// Keeps a package that ends from giving its memory back, as long as it is there.
pub(crate) struct Hold<M: Machine>(Package<M>);

impl<M: Machine> Drop for Hold<M> {
    fn drop(&mut self) {
        self.0.0.space.has_grown();
    }
}

impl<M: Machine> Package<M> {
    /// The core that it runs on.
    pub(crate) fn core(&self) -> &Core<M> {
        &self.0.core
    }

    /// Keeps its memory where it is. `Dead` when it is being given back.
    pub(crate) fn hold(&self) -> Result<Hold<M>, Status> {
        self.0.space.begin_to_hold()?;
        Ok(Hold(self.clone()))
    }

    /// Gives the package zeroed memory in one piece that other cores may join: `bytes` bytes or
    /// more, less than 2 MiB. Fails as [`Package::grow`] does. To be finished once begun.
    pub(crate) async fn share(&self, bytes: u64) -> Result<(VirtAddr, Grant), Status> {
        let _hold = self.hold()?;
        let (at, bytes) = self.0.space.begin_to_share(bytes)?;
        let result = self.0.space.share(at, bytes).await;
        self.0.space.has_grown();
        result.map(|grant| (at, grant))
    }

    /// Gives the package memory that another package of this core shares, as long as that
    /// `is_there`. `NotFound` when it is not any more; else fails as [`Package::grow`] does. To be
    /// finished once begun.
    pub(crate) async fn join_neighbour(
        &self,
        grant: Grant,
        is_there: impl Fn() -> bool,
    ) -> Result<VirtAddr, Status> {
        let _hold = self.hold()?;
        let (at, bytes) = self.0.space.begin_to_share(grant.bytes)?;
        let result = self.0.space.join_neighbour(at, bytes, grant, is_there).await;
        self.0.space.has_grown();
        result.map(|()| at)
    }

    /// Gives the package memory that another core shares by a channel of which this one has the
    /// receiving end. `NotFound` if that core is gone, or the channel closed; else fails as
    /// [`Package::grow`] does. To be finished once begun.
    pub(crate) async fn join(&self, channel: ChannelId, grant: Grant) -> Result<VirtAddr, Status> {
        let _hold = self.hold()?;
        let (at, bytes) = self.0.space.begin_to_share(grant.bytes)?;
        let result = self.0.space.join(at, bytes, channel, grant).await;
        self.0.space.has_grown();
        result.map(|()| at)
    }
}

impl<M: Machine> Core<M> {
    /// Enters memory of the core that sends on a channel, of which this core has the receiving end,
    /// in the kernel half of this core's tables. `NotFound` if that core is gone, or the channel
    /// closed; `NoTables`.
    pub(crate) async fn join_grant(&self, channel: ChannelId, grant: Grant) -> Result<(), Status> {
        loop {
            match self.request(Request::Join { channel, grant }).await {
                // The management core's next incarnation may not know that it is entered.
                Err(Status::Dead) => {}
                Ok(Reply::Granted { .. }) => return Ok(()),
                Ok(_) => return Err(Status::Invalid),
                Err(status) => return Err(status),
            }
        }
    }
}

impl<M: Machine> Hold<M> {
    /// Gives back the `bytes` bytes that the package shares at `at`, and reaches no more.
    pub(crate) async fn unshare(&self, at: VirtAddr, bytes: u64) {
        self.0.0.space.unshare(at, bytes).await;
    }
}

impl<M: Machine> Space<M> {
    async fn unshare(&self, at: VirtAddr, bytes: u64) {
        let forget = || {
            // It is there as long as the package is held.
            let _ = self.with_user(|user| user.unmap(at));
        };
        self.core().empty_place(at, forget).await;
        self.has_shared(at, bytes);
    }

    async fn share(&self, at: VirtAddr, bytes: u64) -> Result<Grant, Status> {
        self.reserve(bytes)?;
        let entered = async {
            let frame = self.core().allocate_run(bytes).await?;
            let grant = frame.move_to_user(at, Access::Write).await?;
            self.with_user(|user| user.map(grant, at, Access::Write))??;
            Ok(grant)
        };
        entered.await.inspect_err(|_| self.unreserve(bytes))
    }

    async fn join_neighbour(
        &self,
        at: VirtAddr,
        bytes: u64,
        grant: Grant,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Status> {
        self.reserve(bytes)?;
        let entered = async {
            self.core().enter_beside(grant, at, is_there).await?;
            self.with_user(|user| user.map(grant, at, Access::Write))??;
            Ok(())
        };
        entered.await.inspect_err(|_| self.unreserve(bytes))
    }

    async fn join(
        &self,
        at: VirtAddr,
        bytes: u64,
        channel: ChannelId,
        grant: Grant,
    ) -> Result<(), Status> {
        self.reserve(bytes)?;
        let entered = async {
            self.core().join_grant(channel, grant).await?;
            self.core().move_to_user(grant, at, Access::Write).await?;
            self.with_user(|user| user.map(grant, at, Access::Write))??;
            Ok(())
        };
        entered.await.inspect_err(|_| self.unreserve(bytes))
    }
}
