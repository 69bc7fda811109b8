//! Planned ends: a core is asked to leave, and does once it has nothing under way. Its services
//! are withdrawn, so that callers look elsewhere; calls that it works on come to their ends, and
//! their replies to the callers; its package ends. A call that it has not looked at then was not
//! made: its caller is told *gone*, not *dead*. If that takes too long, the core stays as it was.

use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Instant, RoleSet, Status};
use nile_platform::{CorePhase, Line, Machine, Manager as _};

use crate::control::Request;
use crate::core::Core;

/// How often a core that leaves looks whether it can.
const LOOK: Duration = Duration::from_millis(1);

/// How long the next incarnation may take to begin, and a core that stays to say so.
pub(crate) const BEGINNING: Duration = Duration::from_secs(10);

/// How long it is waited until others have claimed the buffers of the last answers.
const CLAIMING: Duration = Duration::from_millis(50);

/// Whether a core leaves, and since when nothing is under way.
#[derive(Default)]
pub(crate) struct Leaving(Cell<bool>, Cell<Option<Instant>>);

impl<M: Machine> Core<M> {
    /// Has another core leave once what it works on is done, which may take `patience`; then its
    /// next incarnation begins, at once or, if it is to be away, when it is called back. Waits for
    /// that. `Busy`: it has stayed, as what it works on was not done; `NotFound` (no such core),
    /// `Denied` (the core that manages the node), `Dead` (it has stopped, or is away).
    pub async fn leave_core(
        &self,
        core: CoreId,
        patience: Duration,
        is_away: bool,
    ) -> Result<(), Status> {
        let board = self.machine.board();
        if core.index() >= board.cores() {
            return Err(Status::NotFound);
        }
        let record = board.record(core);
        let mut before = (record.generation(), record.stays());
        self.ask_to_leave(core, patience, is_away).await?;
        let until = self.now() + patience;
        let limit = until + BEGINNING;
        let is_gone = || self.machine.manager().is_none_or(|manager| manager.is_gone(core));
        loop {
            let phase = record.phase();
            let is_over = match is_away {
                true => phase == CorePhase::Away && is_gone(),
                false => phase == CorePhase::Running && record.generation() != before.0,
            };
            if is_over {
                return Ok(());
            }
            if phase == CorePhase::Running && record.generation() != before.0 {
                // It has failed before it had left: its next incarnation is to leave.
                before = (record.generation(), record.stays());
                self.ask_to_leave(core, until.since(self.now()), is_away).await?;
            }
            let stays = record.stays() != before.1 && record.generation() == before.0;
            if stays || self.now() > limit {
                if is_away {
                    self.request(Request::CallBack { core }).await?;
                }
                return Err(if stays { Status::Busy } else { Status::Timeout });
            }
            self.sleep(LOOK).await;
        }
    }

    async fn ask_to_leave(
        &self,
        core: CoreId,
        patience: Duration,
        is_away: bool,
    ) -> Result<(), Status> {
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        self.request(Request::Leave { core, patience_ms, is_away }).await.map(drop)
    }

    /// Has a core that is away begin its next incarnation, and waits until it runs; one that is
    /// there is as it was. Fails as [`Core::leave_core`].
    pub async fn call_back_core(&self, core: CoreId) -> Result<(), Status> {
        self.request(Request::CallBack { core }).await?;
        let record = self.machine.board().record(core);
        let limit = self.now() + BEGINNING;
        while record.phase() != CorePhase::Running {
            if self.now() > limit {
                return Err(Status::Timeout);
            }
            self.sleep(LOOK).await;
        }
        Ok(())
    }

    /// What a core that is away is for when it comes back. `NotFound` (no such core), `Invalid` (it
    /// is not away).
    pub async fn assign_core(&self, core: CoreId, roles: RoleSet) -> Result<(), Status> {
        self.request(Request::Assign { core, roles }).await.map(drop)
    }

    /// Has another core drive a device of the node from its next incarnation on; both cores are
    /// away, or `Invalid`. `NotFound` (no such device or core), `Denied` (this device cannot be
    /// driven by another core), `NoTables`; then nothing has changed.
    pub async fn move_device(&self, line: Line, core: CoreId) -> Result<(), Status> {
        self.request(Request::Drive { line, core }).await.map(drop)
    }

    /// Has this core, which manages the node, end as planned within `patience`, and begin anew with
    /// the image that was loaded for it, if one was. Its services stay where they are found: they
    /// are nowhere else. `Busy`: it is to end already; `Denied`: it does not manage the node;
    /// `NoTables`: the image needs more page tables than there are.
    pub(crate) fn renew_own(&self, patience: Duration) -> Result<(), Status> {
        let manager = self.machine.manager().ok_or(Status::Denied)?;
        if self.leaving.0.get() {
            return Err(Status::Busy);
        }
        if let Some(images) = manager.images() {
            images.prepare()?;
        }
        self.begin_to_leave(patience);
        Ok(())
    }

    /// The management core asks this one to leave.
    pub(crate) fn begin_to_leave(&self, patience: Duration) {
        if self.leaving.0.replace(true) {
            return;
        }
        self.machine.board().record(self.id()).set_phase(CorePhase::Leaving);
        let (core, manages) = (self.clone(), self.manager.is_some());
        self.spawn(async move {
            let limit = core.now() + patience;
            if !manages {
                core.stl().withdraw().await;
            }
            // The loop looks after each pass whether the core may go.
            while core.now() < limit {
                if core.services.open_calls().0 + core.services.engaged() == 0 {
                    // It does not run for anybody who waits.
                    core.client.stop_packages();
                }
                core.sleep(LOOK).await;
            }
            core.leaving.0.set(false);
            if manages {
                core.unload_image(core.id());
            } else {
                core.stl().restore().await;
            }
            let record = core.machine.board().record(core.id());
            record.set_phase(CorePhase::Running);
            record.count_stay();
            let (calls, jobs) = (core.services.open_calls().0, core.services.engaged());
            let what = format_args!("it works on {calls} calls and {jobs} jobs");
            core.machine.log(format_args!("the core was to leave, and stays: {what}"));
        });
    }

    /// Whether this core leaves and has nothing under way: nothing that came was not looked at,
    /// or not answered; each answer has been taken, with its buffers, and no disk has any.
    pub(crate) fn may_leave(&self) -> bool {
        if !self.leaving.0.get() {
            return false;
        }
        let is_drained = self.services.is_drained() && self.disks_are_drained();
        if self.client.packages() > 0 || !is_drained {
            self.leaving.1.set(None);
            return false;
        }
        let since = self.leaving.1.get().unwrap_or_else(|| self.now());
        self.leaving.1.set(Some(since));
        let waits = || self.pool().is_some_and(|pool| pool.in_flight() > 0);
        self.now().since(since) > CLAIMING || !waits()
    }
}
