//! The store on its disk: does for it what it wants done, one step after the other, and wakes
//! whoever waits for the end of something.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use nile_abi::{NodeId, Status};
use nile_order::SortedMap;
use nile_stl::node::PoolDisk;
use nile_stl::{CallError, CallResult, Stl};
use nile_store::label::LABEL_BYTES;
use nile_store::{Action, Checksum, DiskFailed, Error, Label, Recovery, Step, Store, Ticket};
use nile_sync::OneShot;

use super::medium::Medium;

/// The extent of a disk that datasets are on.
const EXTENT: &str = "datasets";

/// A store and its disk.
pub struct Keeper {
    pub stl: Stl,
    pub medium: Medium,
    store: RefCell<Store>,
    /// Where ends are left for those who wait for them.
    waiting: RefCell<SortedMap<Ticket, OneShot<Result<(), Error>>>>,
    is_driven: Cell<bool>,
}

/// Whether a disk has a store.
pub async fn is_formatted(medium: &Medium, checksum: Checksum) -> CallResult<bool> {
    let label = medium.read_bytes(0, LABEL_BYTES as usize).await?;
    // What is damaged is a matter of those who want to use it.
    let label = Label::read(&label, medium.bytes(), checksum);
    Ok(label.is_ok_and(|label| label.find(EXTENT).is_some()))
}

impl Keeper {
    /// Mounts the store of a disk; a blank one is given an empty store first. `seed` is a number
    /// that was never here before.
    pub async fn mount(
        stl: &Stl,
        medium: Medium,
        node: NodeId,
        checksum: Checksum,
        seed: u64,
    ) -> CallResult<Rc<Keeper>> {
        let failed = |error: &dyn core::fmt::Display| {
            CallError::new(Status::Failed, format!("{}: {error}", medium.name()))
        };
        let label = medium.read_bytes(0, LABEL_BYTES as usize).await?;
        let mut label =
            Label::read(&label, medium.bytes(), checksum).map_err(|error| failed(&error))?;
        let extent = match label.find(EXTENT) {
            Some(extent) => *extent,
            None => {
                let added = label.add(EXTENT, None, seed, checksum);
                let (extent, steps) = added.map_err(|error| failed(&error))?;
                for step in steps {
                    medium.step(step).await?;
                }
                extent
            }
        };
        let mut recovery = Recovery::new(node, extent, checksum);
        while let Some(range) = recovery.next() {
            recovery.take(&medium.read_bytes(range.at, range.bytes as usize).await?);
        }
        let store = RefCell::new(recovery.finish().map_err(|error| failed(&error))?);
        for step in label.renew(checksum) {
            medium.step(step).await?;
        }
        let keeper = Rc::new(Keeper {
            stl: stl.clone(),
            medium,
            store,
            waiting: RefCell::default(),
            is_driven: Cell::new(false),
        });
        keeper.drive();
        Ok(keeper)
    }

    /// A file that a program of this machine has handed to this node. `NotFound` if there is none.
    pub fn file(&self, name: u64) -> CallResult<PoolDisk> {
        let missing = "this node has no such file of another program, or no longer";
        self.stl.node()?.file(name).ok_or_else(|| CallError::new(Status::NotFound, missing))
    }

    /// Asks the store, or changes what it has in memory.
    pub fn with<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        act(&mut self.store.borrow_mut())
    }

    /// Begins something that changes the disk, and waits until it has ended. Whoever stops waiting
    /// does not stop it.
    pub async fn change(
        self: &Rc<Self>,
        begin: impl FnOnce(&mut Store) -> Result<Ticket, Error>,
    ) -> Result<(), Error> {
        let ticket = self.with(begin)?;
        let end = OneShot::default();
        self.waiting.borrow_mut().insert(ticket, end.clone());
        self.drive();
        end.await
    }

    /// Does what the store wants, in a task of its own.
    fn drive(self: &Rc<Self>) {
        if self.is_driven.replace(true) {
            return;
        }
        let keeper = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            while let Some(action) = keeper.with(Store::poll) {
                match action {
                    Action::Disk(step) => keeper.step(step).await,
                    Action::Done(ticket, end) => keeper.end(ticket, end),
                }
            }
            keeper.is_driven.set(false);
        }));
    }

    async fn step(&self, step: Step) {
        let done = self.medium.step(step).await;
        if let Err(error) = &done {
            self.stl.host().log(format_args!("datasets cannot be written any more: {error}"));
        }
        self.with(|store| store.completed(done.map_err(|_| DiskFailed)));
    }

    fn end(&self, ticket: Ticket, end: Result<(), Error>) {
        if let Some(waiting) = self.waiting.borrow_mut().remove(&ticket) {
            waiting.give(end);
        }
    }
}
