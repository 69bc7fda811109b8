//! What a package of a job calls on its own core (docs/jobs.md): it asks for the next command, and
//! takes and gives buffers of the node's pool for it. It needs `uses pool` in its manifest.
//!
//! Buffers go by handles: the package claims what it is given and passes what it gives. *Views* are
//! handles of buffers that others of this node keep: they are looked at and not claimed.
//!
//! One error is part of the way things go, of every call but `next`: `not_found`. The ticket's
//! attempt is off, or was never there. The package drops the work, and calls `next`; what it passed
//! with the call is free. One that computes for long calls `next(false)` now and then: others get
//! their turn sooner, and each call says that the work goes on (docs/jobs.md, "Slow tasks").
//!
//! A call with wrong arguments is `invalid`; the attempt goes on. [`records`]: what calls carry.

pub mod records;

use alloc::rc::Rc;
use core::cell::OnceCell;
use core::ops::Deref;

use nile_abi::Status;
use nile_bosml::{Blob, Buffer, Bytes};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use crate::worker::Engine;
use records::{Block, Command, Output, Piece, Source};

/// The tasks of this core's package: the engine of the worker service has them.
pub struct Task {
    stl: Stl,
    engine: OnceCell<Rc<Engine>>,
}

impl Start for Task {
    fn start(stl: &Stl) -> Task {
        Task { stl: stl.acting_as(Binder::Operator), engine: OnceCell::new() }
    }
}

impl Task {
    /// The engine, for this core's package: it hears that the package calls.
    fn engine(&self, caller: &Caller) -> CallResult<Called<'_>> {
        Ok(Called::new(self.find_engine(caller)?))
    }

    fn find_engine(&self, caller: &Caller) -> CallResult<&Rc<Engine>> {
        let own = self.stl.host().core();
        if !caller.is_package() || caller.core != own {
            return Err(CallError::new(Status::Denied, "tasks are for the package of their core"));
        }
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let missing = || CallError::new(Status::NotFound, "no worker service with a pool is here");
        let engine = self.stl.shared(|| Err(missing()))?;
        Ok(self.engine.get_or_init(|| engine))
    }
}

/// The engine while a call of the package lasts.
struct Called<'e>(&'e Rc<Engine>);

impl Called<'_> {
    fn new(engine: &Rc<Engine>) -> Called<'_> {
        engine.hears(true);
        Called(engine)
    }
}

impl Deref for Called<'_> {
    type Target = Rc<Engine>;

    fn deref(&self) -> &Rc<Engine> {
        self.0
    }
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        self.0.hears(false);
    }
}

/// The tasks that a job gives to the package of a worker core.
#[service(
    subsystem = "jobs",
    capability = "tasks",
    layer = high,
    on = worker,
    keywords(task = 5, job = 3)
)]
impl Task {
    /// What to do next. A package that has nothing to do waits for it; one that asks without
    /// waiting goes on with what it does, unless that is off.
    #[stl_k(reply = "command")]
    async fn next(&self, caller: &Caller, wait: bool) -> CallResult<Command> {
        self.engine(caller)?.next(wait).await
    }

    /// The block of this place in the split, from 0; `invalid` behind the last.
    #[stl_k(reply = "block")]
    async fn block(&self, caller: &Caller, ticket: u64, index: u32) -> CallResult<Block> {
        self.engine(caller)?.block(ticket, index).await
    }

    /// At most so many bytes that follow the split in its dataset, for records that begin in it;
    /// fewer where a block ends, none at the dataset's end. `skip` of them are left out.
    #[stl_k(reply = "piece")]
    async fn beyond(
        &self,
        caller: &Caller,
        ticket: u64,
        skip: u64,
        #[range(1..=49152)] bytes: u32,
    ) -> CallResult<Piece> {
        self.engine(caller)?.beyond(ticket, skip, bytes).await
    }

    /// A sample of the split of at most 16 KiB.
    #[stl_k]
    async fn sampled(
        &self,
        caller: &Caller,
        ticket: u64,
        #[range(0..=16384)] sample: Bytes<'_>,
    ) -> CallResult<()> {
        self.engine(caller)?.sampled(ticket, &sample.0)
    }

    /// The sample of this place, from 0, of those that bounds are cut from.
    #[stl_k(reply = "piece")]
    async fn sample(&self, caller: &Caller, ticket: u64, index: u32) -> CallResult<Piece> {
        let bytes = Blob(self.engine(caller)?.sample(ticket, index)?);
        Ok(Piece { bytes })
    }

    /// The bounds that were cut, and how many slices each partition is taken in; the cut is done.
    /// With more than one, the `partition` of a range is that of a slice: the first partition's
    /// slices, then those of the next one.
    #[stl_k]
    async fn cut(
        &self,
        caller: &Caller,
        ticket: u64,
        #[range(0..=32768)] bounds: Bytes<'_>,
        slices: u32,
    ) -> CallResult<()> {
        self.engine(caller)?.package_has_cut(ticket, &bounds.0, slices)
    }

    /// Keeps an output of a map attempt in memory. An attempt may have several: they add up.
    #[stl_k]
    async fn keep(&self, caller: &Caller, ticket: u64, output: Output) -> CallResult<()> {
        self.engine(caller)?.keep(ticket, output)
    }

    /// Adds bytes to a partition's sorted run of a map attempt; partitions in their order. At most
    /// a few buffers are on their way to the disk at a time.
    #[stl_k]
    async fn spill(
        &self,
        caller: &Caller,
        ticket: u64,
        partition: u32,
        buffer: Buffer,
    ) -> CallResult<()> {
        self.engine(caller)?.write(ticket, Some(partition), buffer).await
    }

    /// What a reduce attempt takes next of the slice that it is at; waits for it. After the last of
    /// that it goes on to the next slice.
    #[stl_k(reply = "source")]
    async fn source(&self, caller: &Caller, ticket: u64) -> CallResult<Source> {
        self.engine(caller)?.source(ticket).await
    }

    /// The block of this place in a run, from 0, in their order; `invalid` behind the last.
    #[stl_k(reply = "block")]
    async fn run(&self, caller: &Caller, ticket: u64, run: u64, index: u32) -> CallResult<Block> {
        self.engine(caller)?.run(ticket, run, index).await
    }

    /// Adds a block to the part of a reduce attempt. At most a few are on their way to the disk at
    /// a time.
    #[stl_k]
    async fn write(&self, caller: &Caller, ticket: u64, buffer: Buffer) -> CallResult<()> {
        self.engine(caller)?.write(ticket, None, buffer).await
    }

    /// An attempt is done, over so many records with checksums of this sum: of its input, or of a
    /// reduce attempt its output. It does not wait; what is still on its way goes on by itself.
    #[stl_k]
    async fn done(
        &self,
        caller: &Caller,
        ticket: u64,
        records: u64,
        checksum: u64,
    ) -> CallResult<()> {
        self.engine(caller)?.package_is_done(ticket, records, checksum)
    }

    /// An attempt or a cut has come to nothing: 0 the code, 1 its input, 2 the disk's
    /// space is at fault.
    #[stl_k]
    async fn failed(
        &self,
        caller: &Caller,
        ticket: u64,
        #[range(0..=2)] fault: u32,
        text: &str,
    ) -> CallResult<()> {
        self.engine(caller)?.package_has_failed(ticket, fault, text)
    }
}
