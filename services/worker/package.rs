//! The package of a job on this core: started when there is something for it to do, started again
//! when it has died, ended when it does not listen or the job is over.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CorePhase, Instant, Status};
use nile_job::{Fault, JobId, Split};
use nile_stl::node::{PackageEnd, PackageLimits, PackageSource, RunningPackage};
use nile_stl::{CallError, CallResult};

use super::attempt::{Attempt, Input};
use super::desk::Ticket;
use super::engine::Engine;
use super::stores::Named;
use crate::cluster::{Store, first};

/// How long a package has to let go what is off, or to end, before it is stopped.
const LISTENS: Duration = Duration::from_secs(1);

/// How long another package may take to give back what it had.
const CLEARING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// The most bytes of memory that a job's package may have, besides buffers of the pool.
const MOST_MEMORY: u64 = 256 << 20;

/// How many packages' files are kept.
const MOST_FILES: usize = 4;

/// The most bytes of a package's file.
const MOST_FILE: usize = 16 << 20;

/// A package that runs.
pub struct Program {
    /// Of which job.
    pub job: JobId,
    pub(super) running: Rc<dyn RunningPackage>,
    /// Whether it has asked what to do.
    has_asked: bool,
    /// When it has called last, or when that call was over, and how many calls last.
    pub(super) heard: Instant,
    pub(super) calls: u32,
}

impl Engine {
    /// Sees to it that a job has a package when it needs one, until it is over.
    pub fn keep_package(self: &Rc<Self>, job: JobId) {
        let is_kept = self.with_job(job, |it| core::mem::replace(&mut it.is_kept, true));
        if is_kept != Some(false) {
            self.changes.notify();
            return;
        }
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            while engine.is_needed(job).await {
                match engine.start(job).await {
                    Ok(running) => {
                        let end = running.ended().await;
                        engine.ended(job, &end);
                    }
                    Err(error) => {
                        engine.cannot_start(job, &format!("the package does not start: {error}"));
                    }
                }
            }
            engine.state.borrow_mut().remove(job, engine.now());
            engine.changes.notify();
            engine.share();
        }));
    }

    /// Waits until a job needs a package; `false` when it is over.
    async fn is_needed(&self, job: JobId) -> bool {
        let look = || {
            let state = self.state.borrow();
            let Some(it) = state.jobs.get(&job) else { return Some(false) };
            if it.worker.is_dropped() {
                return Some(false);
            }
            it.desk.has_work().then_some(true)
        };
        self.changes.until(look).await
    }

    /// Starts a job's package.
    async fn start(self: &Rc<Self>, id: JobId) -> CallResult<Rc<dyn RunningPackage>> {
        let node = self.stl.node()?;
        // What is not known yet is asked for before the first attempt: who else there is.
        self.stores.everywhere().await?;
        let job = self.with_job(id, |it| it.job()).flatten();
        let job = job.ok_or_else(|| CallError::new(Status::NotFound, "the job is over"))?;
        let source = match Named::parse(&job.package) {
            Some(named) => PackageSource::File(self.file(&named).await?),
            None => PackageSource::Named(&job.package),
        };
        let limits = PackageLimits { memory_bytes: MOST_MEMORY, ..PackageLimits::default() };
        let until = self.now() + CLEARING;
        let running = loop {
            let is_there = self.state.borrow().program.is_some();
            let started = match is_there {
                true => Err(Status::Exists),
                false => node.run_package(source.clone(), &[], limits),
            };
            match started {
                // The one of the job before is about to end, or its memory is not given back yet.
                Err(Status::Exists) if self.now() < until => {
                    self.stl.host().sleep_until(self.now() + LOOK).await;
                }
                Err(Status::NotFound) => {
                    let message = format!("this node has no package {}", job.package);
                    return Err(CallError::new(Status::NotFound, message));
                }
                result => break result?,
            }
        };
        let (job_id, heard) = (id, self.now());
        let program =
            Program { job: job_id, running: running.clone(), has_asked: false, heard, calls: 0 };
        self.state.borrow_mut().program = Some(program);
        self.see_to_progress(&job, running.clone());
        self.leave_if_late(id);
        self.changes.notify();
        Ok(running)
    }

    /// A package's file, which is a dataset. The last ones are kept: jobs of one package follow
    /// each other, those that share the core come again, and a dataset's version never changes.
    async fn file(&self, named: &Named) -> CallResult<Rc<[u8]>> {
        let known = |(known, _): &&(Named, Rc<[u8]>)| known == named;
        if let Some((_, file)) = self.state.borrow().codes.iter().find(known) {
            return Ok(file.clone());
        }
        let missing = CallError::new(Status::NotFound, format!("no node has {}", named.name));
        let stores = self.stores.everywhere().await?;
        let found = first(stores, missing, async |store| self.file_of(named, &store).await);
        let file = Rc::from(found.await?);
        let codes = &mut self.state.borrow_mut().codes;
        if codes.len() == MOST_FILES {
            codes.remove(0);
        }
        codes.push((named.clone(), Rc::clone(&file)));
        Ok(file)
    }

    /// The file of the package that is the dataset `name`.
    pub(crate) async fn file_named(self: &Rc<Self>, name: &str) -> CallResult<Rc<[u8]>> {
        // It may be on other nodes alone, and this core may have had no job yet.
        let _expected = self.peers.expect(self).await;
        let missing = CallError::new(Status::NotFound, format!("no node has {name}"));
        let stores = self.stores.everywhere().await?;
        let found = first(stores, missing, async |store| store.client.look_up(name).await).await?;
        self.file(&Named { name: name.into(), epoch: found.epoch, attempt: found.attempt }).await
    }

    /// A package's file, as a store has it.
    async fn file_of(&self, named: &Named, at: &Store) -> CallResult<Vec<u8>> {
        let Named { name, epoch, attempt } = named;
        let (mut file, mut number) = (Vec::new(), 0);
        loop {
            let blocks = at.client.blocks(name, *epoch, *attempt, number).await?;
            if blocks.is_empty() {
                return Ok(file);
            }
            for _ in blocks {
                let (buffer, bytes) = self.block_of(named, number, at, &|| true).await?;
                if file.len() + bytes > MOST_FILE {
                    let message = format!("{name}: more than {MOST_FILE} bytes");
                    return Err(CallError::new(Status::NoMemory, message));
                }
                file.extend_from_slice(&buffer[..bytes]);
                number += 1;
            }
        }
    }

    /// The package is no more: what it worked on has failed.
    fn ended(self: &Rc<Self>, job: JobId, end: &PackageEnd) {
        let program = self.state.borrow_mut().program.take();
        self.take_back();
        let name = self.with_job(job, |it| it.job().map(|job| job.package.clone())).flatten();
        let text = match end.code {
            Some(0) => String::from("ended before its job did"),
            _ => format!("ended: {}", end.text),
        };
        let text = format!("the package {} {text}", plain(&name.unwrap_or_default()));
        if program.is_some_and(|program| program.has_asked) {
            self.lose(job, &text);
        } else {
            // The next one would do no better.
            self.cannot_start(job, &text);
        }
    }

    /// The package asks what to do.
    pub fn has_asked(&self) {
        if let Some(program) = &mut self.state.borrow_mut().program {
            program.has_asked = true;
        }
    }

    fn cannot_start(self: &Rc<Self>, job: JobId, text: &str) {
        // What waits for a package came to nothing, too.
        let queued = self.with_job(job, |it| it.desk.take_queued()).flatten();
        self.lose_work(job, queued, text);
        self.lose(job, text);
    }

    /// What the package worked on is lost.
    fn lose(self: &Rc<Self>, job: JobId, text: &str) {
        let working = self.with_job(job, |it| it.desk.died()).flatten();
        self.lose_work(job, working, text);
        self.changes.notify();
        self.share();
    }

    /// What the package worked on came to nothing; or it was off, and is now over.
    pub fn lose_work(self: &Rc<Self>, job: JobId, ticket: Option<Ticket>, text: &str) {
        let found = self.with_job(job, |it| {
            let is_it = |known: Ticket| Some(known) == ticket;
            (
                it.attempt.clone().filter(|attempt| is_it(attempt.ticket)),
                it.cut.clone().filter(|cut| is_it(cut.ticket)),
            )
        });
        let Some((attempt, cut)) = found else { return };
        if let Some(cut) = cut {
            cut.fail(CallError::new(Status::Failed, String::from(text)));
        }
        let Some(attempt) = attempt else { return };
        if attempt.is_off.get() {
            let id = attempt.id;
            self.settle(&attempt, |worker, now| worker.stopped(now, id));
        } else {
            self.fail_by_code(&attempt, text);
        }
    }

    /// An attempt came to nothing by the job's code, which reads some of the input or none; or
    /// because this core is to leave, which stops the package, and is nobody's fault.
    pub fn fail_by_code(self: &Rc<Self>, attempt: &Rc<Attempt>, text: &str) {
        let own = self.stl.host().core();
        let state = self.stl.node().ok().and_then(|node| node.state_of(own));
        if state.is_some_and(|it| it.phase == CorePhase::Leaving) {
            return self.fail(attempt, Fault::Input, format!("core {own} leaves: {text}"));
        }
        let text = match &attempt.input {
            Some(Input { split, named, .. }) => {
                let Split { block, blocks, .. } = *split;
                let which = match blocks {
                    1 => format!("block {block}"),
                    _ => format!("blocks {block} to {}", u64::from(block) + u64::from(blocks) - 1),
                };
                format!("{text} ({which} of {})", named.name)
            }
            None => String::from(text),
        };
        self.fail(attempt, Fault::Code, text);
    }

    /// Stops the package if it does not let go in time what is off.
    pub fn see_to_end(self: &Rc<Self>, job: JobId, ticket: Ticket) {
        let engine = self.clone();
        self.later(move |state| {
            let has = state.jobs.get(&job).is_some_and(|it| it.desk.has(ticket));
            if has {
                engine.stop_program(state, job);
            }
        });
    }

    /// Stops the package if it does not end in time, though the job is over or another one has the
    /// core. If that job's turn comes again, it is started again.
    pub fn see_to_leave(self: &Rc<Self>, job: JobId) {
        let running = self.state.borrow().program.as_ref().map(|it| it.running.clone());
        let engine = self.clone();
        self.later(move |state| {
            let is_it = |it: &Rc<dyn RunningPackage>| {
                let working = state.jobs.get(&job).is_some_and(|it| it.desk.is_busy());
                let now = state.program.as_ref().map(|it| &it.running);
                !working && now.is_some_and(|now| Rc::ptr_eq(now, it))
            };
            if running.as_ref().is_some_and(is_it) {
                engine.stop_program(state, job);
            }
        });
    }

    fn stop_program(&self, state: &super::engine::State, job: JobId) {
        if let Some(program) = state.program.as_ref().filter(|it| it.job == job) {
            self.stl.host().log(format_args!("{job}: its package does not listen, and is ended"));
            program.running.stop();
        }
    }

    /// Looks again when a package had time enough.
    fn later(self: &Rc<Self>, look: impl FnOnce(&super::engine::State) + 'static) {
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            engine.stl.host().pause(LISTENS).await;
            look(&engine.state.borrow());
        }));
    }
}

/// What a package is called, whatever the dataset that it came in.
pub(crate) fn plain(package: &str) -> &str {
    let shipped = package.strip_prefix(".packages/").and_then(|it| it.rsplit_once('-'));
    shipped.map_or(package, |(name, _)| name)
}
