//! The store on its disk: does for it what it wants done, one step after the other, and wakes
//! whoever waits for the end of something.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_order::SortedMap;
use nile_seal::disk::Cipher;
use nile_stl::node::{Buffer, PoolDisk};
use nile_stl::{CallError, CallResult, Stl};
use nile_store::label::LABEL_BYTES;
use nile_store::{
    Action, Block, Checksum, DiskFailed, Error, Extent, Home, Label, LabelError, Range, Recovery,
    Step, Store, Ticket, UNIT,
};
use nile_sync::OneShot;

use super::medium::Medium;
use nile_interfaces::dataset::records::DiskFault;

/// The extent of a disk that datasets are on.
const EXTENT: &str = "datasets";

/// How often it is looked whether a step has ended.
const BETWEEN: Duration = Duration::from_millis(1);

/// A store and its disk.
pub struct Keeper {
    pub stl: Stl,
    pub medium: Medium,
    store: RefCell<Store>,
    /// Where ends are left for those who wait for them.
    waiting: RefCell<SortedMap<Ticket, OneShot<Result<(), Error>>>>,
    is_driven: Cell<bool>,
    /// When the disk failed.
    failed: Cell<Option<Instant>>,
    /// Blocks that are on their way to the disk.
    writing: Cell<u32>,
}

/// Why a disk has no store that can be used.
#[derive(Clone)]
pub struct Unusable {
    pub fault: DiskFault,
    pub error: CallError,
}

impl From<CallError> for Unusable {
    fn from(error: CallError) -> Unusable {
        Unusable { fault: DiskFault::Device, error }
    }
}

impl Unusable {
    fn new(medium: &Medium, fault: DiskFault, error: &dyn core::fmt::Display) -> Unusable {
        let error = CallError::new(Status::Failed, format!("{}: {error}", medium.name()));
        Unusable { fault, error }
    }
}

/// Whose a store is to be, and what it is opened with.
pub struct Own {
    pub home: Home,
    pub checksum: Checksum,
    /// A number that was never here before.
    pub seed: u64,
    /// What disks of this node are encrypted with, and the number that labels know that by.
    pub key: Option<(Cipher, u64)>,
    /// Whether a new one is not encrypted all the same.
    pub is_plain: bool,
}

impl Own {
    /// Takes a disk for this node's.
    fn take(&self, label: &mut Label) -> Result<(), LabelError> {
        label.take(self.home, self.key.as_ref().map(|(_, check)| *check), self.is_plain)
    }

    /// What is on the disk of this label is encrypted with this, if it is.
    fn cipher(&self, label: &Label) -> Option<Arc<Cipher>> {
        let key = self.key.as_ref().filter(|_| label.is_sealed());
        key.map(|(cipher, _)| Arc::new(cipher.clone()))
    }
}

/// The label of a disk, which is this node's.
async fn label(medium: &Medium, own: &Own) -> Result<Label, Unusable> {
    let label = Label::read(&first(medium).await?, medium.bytes(), own.checksum);
    let taken = label.and_then(|mut label| own.take(&mut label).map(|()| label));
    taken.map_err(|error| {
        let fault = match error {
            LabelError::Truncated { .. } => DiskFault::Cut,
            LabelError::Version(_) => DiskFault::Version,
            LabelError::Home { .. } => DiskFault::Foreign,
            LabelError::Key { .. } => DiskFault::Key,
            _ => DiskFault::Label,
        };
        Unusable::new(medium, fault, &error)
    })
}

/// The bytes that the label has; zeros where the disk is too short for them.
async fn first(medium: &Medium) -> CallResult<Vec<u8>> {
    let there = medium.bytes().min(LABEL_BYTES) / UNIT * UNIT;
    let mut bytes = medium.read_bytes(0, there as usize).await?;
    bytes.resize(LABEL_BYTES as usize, 0);
    Ok(bytes)
}

/// Whether a disk has a store.
pub async fn is_formatted(medium: &Medium, own: &Own) -> Result<bool, Unusable> {
    Ok(label(medium, own).await?.find(EXTENT).is_some())
}

/// Gives a disk an empty store, whatever it has.
pub async fn format(mut medium: Medium, own: &Own) -> Result<(), Unusable> {
    let mut label = Label::anew(&first(&medium).await?, medium.bytes(), own.checksum);
    let taken = own.take(&mut label);
    taken.map_err(|error| Unusable::new(&medium, DiskFault::Device, &error))?;
    medium.cipher = own.cipher(&label);
    add(&medium, &mut label, own).await?;
    for step in label.renew(own.checksum) {
        medium.step(step).await?;
    }
    Ok(())
}

/// Adds the extent with an empty store.
async fn add(medium: &Medium, label: &mut Label, own: &Own) -> Result<Extent, Unusable> {
    let added = label.add(EXTENT, None, own.seed, own.checksum);
    let (extent, steps) =
        added.map_err(|error| Unusable::new(medium, DiskFault::Device, &error))?;
    for step in steps {
        medium.step(step).await?;
    }
    Ok(extent)
}

/// A block on its way to the disk, until this is dropped.
struct Writing<'k>(&'k Keeper);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.set(self.0.writing.get() - 1);
    }
}

impl Keeper {
    /// Mounts the store of a disk; a blank one is given an empty store first.
    pub async fn mount(stl: &Stl, mut medium: Medium, own: &Own) -> Result<Rc<Keeper>, Unusable> {
        let mut label = label(&medium, own).await?;
        medium.cipher = own.cipher(&label);
        let extent = match label.find(EXTENT) {
            Some(extent) => *extent,
            None => add(&medium, &mut label, own).await?,
        };
        let mut recovery = Recovery::new(own.home.node, extent, own.checksum);
        while let Some(range) = recovery.next() {
            recovery.take(&medium.read_bytes(range.at, range.bytes as usize).await?);
        }
        let store = recovery.finish();
        let store = store.map_err(|error| Unusable::new(&medium, DiskFault::Log, &error))?;
        let store = RefCell::new(store);
        for step in label.renew(own.checksum) {
            medium.step(step).await?;
        }
        let keeper = Rc::new(Keeper {
            stl: stl.clone(),
            medium,
            store,
            waiting: RefCell::default(),
            is_driven: Cell::new(false),
            failed: Cell::new(None),
            writing: Cell::new(0),
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

    /// Writes a block of `bytes` bytes to its place.
    pub async fn write(&self, to: Range, buffer: Buffer, bytes: usize) -> CallResult<Block> {
        self.writing.set(self.writing.get() + 1);
        let _writing = Writing(self);
        self.medium.write(to, buffer, bytes).await
    }

    /// When its disk failed, so that nothing can be written until it is mounted again; or when that
    /// was tried last.
    pub fn failed(&self) -> Option<Instant> {
        self.failed.get()
    }

    /// It is to be mounted again, from now on.
    pub fn put_off(&self) {
        self.failed.set(Some(self.stl.host().now()));
    }

    /// Has nothing more done to the disk: all that waits fails, and what is under way has ended.
    pub async fn retire(self: &Rc<Self>) {
        self.with(Store::retire);
        self.drive();
        while self.is_driven.get() || self.writing.get() > 0 {
            self.stl.host().pause(BETWEEN).await;
        }
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
        let is_needed = !matches!(step, Step::Discard(_));
        let done = self.medium.step(step).await;
        if let Err(error) = &done
            && is_needed
        {
            self.put_off();
            self.stl.host().log(format_args!("the store is to be opened again: {error}"));
        }
        self.with(|store| store.completed(done.map_err(|_| DiskFailed)));
    }

    fn end(&self, ticket: Ticket, end: Result<(), Error>) {
        if let Some(waiting) = self.waiting.borrow_mut().remove(&ticket) {
            waiting.give(end);
        }
    }
}
