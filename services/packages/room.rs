//! A worker core as jobs see it: nobody finds its worker while packages have the core.

use core::cell::Cell;

use nile_abi::Status;
use nile_stl::{CallError, CallResult, Stl};
use nile_sync::Lock;

use crate::worker::REGISTRATION;

/// How many packages have this core.
pub struct Room {
    stl: Stl,
    packages: Cell<usize>,
    /// The first takes the core from jobs, the last gives it back, one at a time.
    lock: Lock,
}

impl Room {
    /// Jobs have the core.
    pub fn new(stl: &Stl) -> Room {
        Room { stl: stl.clone(), packages: Cell::new(0), lock: Lock::default() }
    }

    /// A package comes; the first takes the core from jobs. `Busy` if the core has no worker yet.
    pub async fn enter(&self) -> CallResult<()> {
        let _turn = self.lock.take().await;
        if self.packages.get() == 0
            && let Err(error) = self.stl.hide(REGISTRATION.name()).await
        {
            return Err(match error.status {
                Status::NotFound => CallError::new(Status::Busy, "the core has just begun"),
                _ => error,
            });
        }
        self.packages.set(self.packages.get() + 1);
        Ok(())
    }

    /// One goes that has come; after the last jobs have the core again.
    pub async fn leave(&self) {
        let _turn = self.lock.take().await;
        self.packages.set(self.packages.get() - 1);
        if self.packages.get() == 0
            && let Err(error) = self.stl.show(REGISTRATION.name()).await
        {
            self.stl.host().log(format_args!("the core is not given back to jobs: {error}"));
        }
    }
}
