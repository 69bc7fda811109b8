//! The task service: what a package of a job calls on its own core. The engine of the worker
//! service does what it says.

use alloc::rc::Rc;
use core::cell::OnceCell;
use core::ops::Deref;

use nile_abi::Status;
use nile_bosml::{Blob, Buffer, Bytes};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use crate::worker::Engine;
use nile_interfaces::task::TaskKernel;
use nile_interfaces::task::records::{Block, Command, Fault, Output, Piece, Source};

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

#[service(on = worker, keywords(task = 5, job = 3))]
impl TaskKernel for Task {
    async fn next(&self, caller: &Caller, wait: bool) -> CallResult<Command> {
        self.engine(caller)?.next(wait).await
    }

    async fn block(&self, caller: &Caller, ticket: u64, index: u32) -> CallResult<Block> {
        self.engine(caller)?.block(ticket, index).await
    }

    async fn beyond(
        &self,
        caller: &Caller,
        ticket: u64,
        skip: u64,
        bytes: u32,
    ) -> CallResult<Piece> {
        self.engine(caller)?.beyond(ticket, skip, bytes).await
    }

    async fn sampled(&self, caller: &Caller, ticket: u64, sample: Bytes<'_>) -> CallResult<()> {
        self.engine(caller)?.sampled(ticket, &sample.0)
    }

    async fn sample(&self, caller: &Caller, ticket: u64, index: u32) -> CallResult<Piece> {
        let bytes = Blob(self.engine(caller)?.sample(ticket, index)?);
        Ok(Piece { bytes })
    }

    async fn cut(
        &self,
        caller: &Caller,
        ticket: u64,
        bounds: Bytes<'_>,
        slices: u32,
    ) -> CallResult<()> {
        self.engine(caller)?.package_has_cut(ticket, &bounds.0, slices)
    }

    async fn keep(&self, caller: &Caller, ticket: u64, output: Output) -> CallResult<()> {
        self.engine(caller)?.keep(ticket, output)
    }

    async fn spill(
        &self,
        caller: &Caller,
        ticket: u64,
        partition: u32,
        buffer: Buffer,
    ) -> CallResult<()> {
        self.engine(caller)?.write(ticket, Some(partition), buffer).await
    }

    async fn source(&self, caller: &Caller, ticket: u64) -> CallResult<Source> {
        self.engine(caller)?.source(ticket).await
    }

    async fn run(&self, caller: &Caller, ticket: u64, run: u64, index: u32) -> CallResult<Block> {
        self.engine(caller)?.run(ticket, run, index).await
    }

    async fn write(&self, caller: &Caller, ticket: u64, buffer: Buffer) -> CallResult<()> {
        self.engine(caller)?.write(ticket, None, buffer).await
    }

    async fn done(
        &self,
        caller: &Caller,
        ticket: u64,
        records: u64,
        checksum: u64,
    ) -> CallResult<()> {
        self.engine(caller)?.package_is_done(ticket, records, checksum)
    }

    async fn failed(
        &self,
        caller: &Caller,
        ticket: u64,
        fault: Fault,
        text: &str,
    ) -> CallResult<()> {
        self.engine(caller)?.package_has_failed(ticket, fault, text)
    }
}
