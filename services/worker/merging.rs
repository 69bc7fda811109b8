//! Room for merging: a reduce attempt begins to read its runs when there are buffers for all of
//! them at once.
//!
//! The front of each run takes a buffer, and without all fronts nothing comes out. If the attempts
//! of several cores took theirs one by one, each could have some of them and wait for ever for
//! what others have. So an attempt waits with none until it can have all, holds them, and gives
//! one back for each block that is read. What it waits for later, others give back: whoever was
//! last to have all has all that it needs.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Status;
use nile_job::Fault;
use nile_stl::node::left_by_packages;
use nile_stl::{CallError, CallResult};

use super::attempt::Attempt;
use super::budget::{Merging, WRITING};
use super::engine::Engine;
use super::stores::BUFFER_PATIENCE;

/// How long until it is looked again whether there is room.
const LOOK: Duration = Duration::from_millis(5);

impl Engine {
    /// Waits until there is room for the runs of an attempt that its package was told of, before
    /// the first of them is read. A package that reads some before it is told of others has to be
    /// done with those, or to take its chance.
    ///
    /// `NotFound` if the attempt is off, or fails: runs for which the pool has no room at all, or
    /// a pool of which nobody gives anything back.
    pub(super) async fn make_room(self: &Rc<Self>, attempt: &Rc<Attempt>) -> CallResult<()> {
        if attempt.has_room.get() {
            return Ok(());
        }
        let runs = attempt.runs.borrow().len();
        let pool = Merging {
            buffers: self.pool.capacity().saturating_sub(left_by_packages(&self.pool)),
            workers: self.workers_of_node(),
            runs,
        };
        let Some(ahead) = pool.ahead() else {
            let least = ((runs + WRITING) * self.pool.buffer_size()).div_ceil(1 << 20);
            let text = format!(
                "{runs} sorted runs are to be merged, and the pool has only {} buffers: give nodes \
                 a pool with more memory, {least} MiB at least, or with smaller buffers",
                pool.buffers
            );
            let error = CallError::new(Status::NoMemory, text);
            return Err(self.fail_for(attempt, Fault::Space, error));
        };
        for loads in attempt.runs.borrow().iter() {
            loads.borrow_mut().read_ahead(ahead);
        }
        let fronts = runs * (1 + ahead as usize);
        let (mut last, mut since) = (usize::MAX, self.now());
        while attempt.is_working() {
            let free = self.pool.free_buffers().saturating_sub(left_by_packages(&self.pool));
            if free >= fronts + WRITING && self.take_room(attempt, fronts) {
                return Ok(());
            }
            if free != last {
                (last, since) = (free, self.now());
            } else if self.now() > since + BUFFER_PATIENCE {
                let text = format!(
                    "{runs} sorted runs are to be merged, and of the pool's {} buffers no more \
                     than {free} are free: give nodes a pool with more memory",
                    pool.buffers
                );
                let error = CallError::new(Status::NoMemory, text);
                return Err(self.fail_for(attempt, Fault::Space, error));
            }
            self.stl.host().pause(LOOK).await;
        }
        Err(CallError::new(Status::NotFound, "the attempt is off"))
    }

    /// Takes buffers for so many fronts, if there are as many, and a few to write with; whether
    /// that was so.
    fn take_room(&self, attempt: &Attempt, fronts: usize) -> bool {
        let taken: Option<Vec<_>> = (0..fronts + WRITING).map(|_| self.pool.alloc()).collect();
        let Some(mut taken) = taken else { return false };
        taken.truncate(fronts);
        *attempt.room.borrow_mut() = taken;
        attempt.has_room.set(true);
        true
    }
}
