//! Bytes for other nodes that the job's code makes of outputs.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_abi::Status;
use nile_job::JobId;
use nile_stl::node::{Buffer, from_call};
use nile_stl::{CallError, CallResult};

use super::attempt::Held;
use super::desk::Ticket;
use super::engine::Engine;
use super::work::nothing;
use crate::task::records::{Command, kind};

/// An export that the package is to make.
pub struct Export {
    held: Rc<Held>,
    /// Which of its outputs.
    index: usize,
    partition: u32,
    buffers: RefCell<Vec<Buffer>>,
    /// Whether it has succeeded, once it has ended.
    end: Cell<Option<bool>>,
}

impl Export {
    /// It came to nothing.
    pub fn fail(&self) {
        self.end.set(Some(false));
    }
}

impl Engine {
    /// Has the package make the bytes of a partition of an output; waits for them.
    pub async fn export(
        self: &Rc<Self>,
        job: JobId,
        held: &Rc<Held>,
        index: usize,
        partition: u32,
    ) -> CallResult<Vec<Buffer>> {
        let ticket = self.number();
        let (buffers, end) = (RefCell::default(), Cell::new(None));
        let export = Rc::new(Export { held: held.clone(), index, partition, buffers, end });
        let begun = self.with_job(job, |it| {
            it.exports.insert(ticket, export.clone());
            it.desk.export(ticket);
        });
        let over = || CallError::new(Status::NotFound, "the job is over");
        begun.ok_or_else(over)?;
        self.keep_package(job);
        self.changes.tell();
        if self.changes.until(|| export.end.get()).await {
            return Ok(export.buffers.take());
        }
        let text = format!("{job}: its code could not export partition {partition}");
        Err(CallError::new(Status::Failed, text))
    }

    /// The command that has the package make an export.
    pub fn export_command(&self, job: JobId, ticket: Ticket) -> Option<Command> {
        let (export, job) = self.with_job(job, |it| {
            let bounds = it.worker.plan().map(|plan| plan.bounds.clone());
            Some((it.exports.get(&ticket).cloned()?, (it.job()?, bounds.unwrap_or_default())))
        })??;
        let (job, bounds) = job;
        let kept = export.held.made.kept().get(export.index)?;
        Some(Command {
            arguments: job.arguments.clone(),
            index: export.partition,
            reducers: job.reducers,
            inputs: job.input.len() as u32,
            memory: job.memory,
            bounds: nile_bosml::Blob(bounds),
            output: kept.view(&self.pool, export.partition),
            ..nothing(kind::EXPORT, ticket)
        })
    }

    /// The package adds bytes to an export.
    pub fn exported(&self, ticket: Ticket, buffer: nile_bosml::Buffer) -> CallResult<()> {
        let invalid = |error| CallError::new(Status::Invalid, format!("{error}"));
        let buffer = self.pool.claim(from_call(buffer)).map_err(invalid)?;
        let export = self.export_of(ticket)?.1;
        export.buffers.borrow_mut().push(buffer);
        Ok(())
    }

    /// An export is whole.
    pub fn finished(&self, ticket: Ticket) -> CallResult<()> {
        let (job, export) = self.export_of(ticket)?;
        self.with_job(job, |it| {
            it.desk.finish(ticket);
            it.exports.remove(&ticket);
        });
        export.end.set(Some(true));
        self.changes.tell();
        Ok(())
    }

    fn export_of(&self, ticket: Ticket) -> CallResult<(JobId, Rc<Export>)> {
        let state = self.state.borrow();
        let job = state.program.as_ref().map(|it| it.job);
        let known = job.and_then(|job| Some((job, state.jobs.get(&job)?)));
        let export = known.and_then(|(job, it)| Some((job, it.exports.get(&ticket)?.clone())));
        export.ok_or_else(|| CallError::new(Status::NotFound, String::from("no such export")))
    }
}
