//! What the package calls, as the engine answers it.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Role;
use nile_abi::Status;
use nile_bosml::{Blob, Buffer};
use nile_job::{Fault, Job, JobId, Kind, Location, Split};
use nile_stl::node::{from_call, left_by_packages};
use nile_stl::{CallError, CallResult};

use super::attempt::{Attempt, Phase};
use super::budget::{self, Budget};
use super::desk::{Next, Ticket};
use super::drafts::{Draft, Writer};
use super::engine::Engine;
use super::finish::fault_of;
use super::gather::Given;
use super::loads::Loads;
use super::outputs::Kept;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::task::records::Fault as Blamed;
use nile_interfaces::task::records::{Block, Command, CommandKind, Output, Piece, Piled, Source};

impl Engine {
    /// The job of the package that runs.
    fn package_job(&self) -> CallResult<JobId> {
        let none = || CallError::new(Status::NotFound, "no job runs on this core");
        self.state.borrow().program.as_ref().map(|it| it.job).ok_or_else(none)
    }

    /// What the package is to do next.
    pub async fn next(self: &Rc<Self>, wait: bool) -> CallResult<Command> {
        self.has_asked();
        loop {
            let look = || {
                let job = match self.package_job() {
                    Ok(job) => job,
                    Err(error) => return Some(Err(error)),
                };
                match self.with_job(job, |it| it.desk.next(wait)).flatten() {
                    None if wait => None,
                    next => Some(Ok((job, next))),
                }
            };
            let (job, next) = self.changes.until(look).await?;
            let Some(next) = next else { return Ok(nothing(CommandKind::Nothing, 0)) };
            if let Some(command) = self.command(job, next) {
                return Ok(command);
            }
        }
    }

    /// The command that tells the package; none if nothing is left of what it is about.
    fn command(self: &Rc<Self>, job: JobId, next: Next) -> Option<Command> {
        match next {
            Next::Work(ticket) => self.work(job, ticket),
            Next::Stop(ticket) => {
                self.lose_work(job, Some(ticket), "");
                self.share();
                Some(nothing(CommandKind::Stop, ticket))
            }
            Next::Lost(ticket) => {
                self.lose_work(job, Some(ticket), "the package has let it go without a word");
                self.share();
                None
            }
            Next::End => {
                self.see_to_leave(job);
                Some(nothing(CommandKind::End, 0))
            }
        }
    }

    fn work(&self, job: JobId, ticket: Ticket) -> Option<Command> {
        let found = self.with_job(job, |it| {
            let attempt = it.attempt.clone().filter(|attempt| attempt.ticket == ticket);
            let cut = it.cut.clone().filter(|cut| cut.ticket == ticket);
            let bounds = it.worker.plan().map(|plan| plan.bounds.bytes.0.clone());
            (attempt, cut, bounds.unwrap_or_default(), it.worker.slices(), it.job())
        });
        let (attempt, cut, bounds, slices, job) = found?;
        let job = job?;
        let is_shared = self.stores.are_workers_elsewhere();
        let command = |kind| Command {
            arguments: job.arguments.clone(),
            reducers: job.reducers,
            inputs: job.input.len() as u32,
            memory: job.memory,
            ..nothing(kind, ticket)
        };
        if let Some(cut) = cut {
            let blocks = cut.samples();
            return Some(Command { blocks, shared: is_shared, ..command(CommandKind::Cut) });
        }
        let attempt = attempt?;
        let index = attempt.id.task.index;
        let Some(input) = &attempt.input else {
            let (maps, bounds) = (attempt.maps, Blob(bounds));
            return Some(Command { index, maps, bounds, slices, ..command(CommandKind::Reduce) });
        };
        let split = &input.split;
        let is_map = attempt.kind() == Kind::Map;
        let (blocks, is_bounded) = (split.blocks as usize, !bounds.is_empty());
        let budget = is_map.then(|| self.budget(&job, split, slices, is_bounded));
        let spill = budget.is_some_and(|it| it.spills(blocks));
        let keeps = budget.filter(|_| !spill).map_or(0, |it| it.keeps(blocks));
        let outputs = budget.map_or(0, |it| it.outputs());
        Some(Command {
            index,
            dataset: split.dataset.into(),
            first_block: split.block,
            blocks: split.blocks,
            bounds: Blob(if is_map { bounds } else { Vec::new() }),
            slices,
            spill,
            keeps: u32::try_from(keeps).unwrap_or(u32::MAX),
            outputs: u32::try_from(outputs).unwrap_or(u32::MAX),
            shared: is_map && is_shared,
            ..command(if is_map { CommandKind::Map } else { CommandKind::Sample })
        })
    }

    /// What is known of this node's pool now, for this job, which may have bounds.
    fn budget(&self, job: &Job, split: &Split, slices: u32, bounded: bool) -> Budget {
        let size = self.pool.buffer_size() as u64;
        let most = job.memory.map(|bytes| bytes.div_ceil(size));
        let block = job.bytes.checked_div(job.blocks.into()).unwrap_or(0);
        // Who cuts bounds keeps what it reads, in another order. Pairs of others take more.
        let output = if bounded { block } else { block + block * 12 / 100 };
        let all = u64::from(job.blocks) * output.div_ceil(size).max(1);
        // Of several jobs none has the pool for its own.
        let open = self.state.borrow().jobs.values().filter(|it| !it.worker.is_over()).count();
        let all = if open > 1 { 0 } else { all };
        Budget {
            capacity: self.pool.capacity(),
            free: self.pool.free_buffers(),
            most: most.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
            workers: self.workers_of_node(),
            reserve: left_by_packages(&self.pool),
            coming: self.stores.are_workers_elsewhere().then(|| {
                let blocks = (job.blocks as usize, split.blocks as usize);
                let pieces = job.reducers.saturating_mul(slices) as usize;
                budget::coming(blocks, pieces, slices, self.workers_of_node())
            }),
            all: usize::try_from(all).unwrap_or(usize::MAX),
            maps: job.blocks.div_ceil(split.blocks.max(1)) as usize,
        }
    }

    /// Worker cores of this node.
    pub(super) fn workers_of_node(&self) -> usize {
        let Ok(node) = self.stl.node() else { return 0 };
        let cores = (0..self.stl.host().cores() as u16).map(nile_abi::CoreId);
        let roles = cores.filter_map(|core| node.state_of(core)).map(|it| it.roles);
        roles.filter(|roles| roles.contains(Role::Worker)).count()
    }

    /// The attempt of a ticket. `NotFound` if it is off.
    fn attempt_of(&self, ticket: Ticket) -> CallResult<Rc<Attempt>> {
        let gone = || CallError::new(Status::NotFound, "the attempt is off");
        let job = self.package_job()?;
        let attempt = self.with_job(job, |it| it.attempt.clone()).flatten();
        attempt.filter(|it| it.ticket == ticket && it.is_working()).ok_or_else(gone)
    }

    /// Waits for something that an attempt needs, unless it is off.
    async fn wait_for<T>(
        &self,
        attempt: &Attempt,
        mut look: impl FnMut() -> Option<T>,
    ) -> CallResult<T> {
        let look = || match attempt.is_working() {
            true => look().map(Ok),
            false => Some(Err(CallError::new(Status::NotFound, "the attempt is off"))),
        };
        self.changes.until(look).await
    }

    /// `Busy` for a package that is to give buffers back before it gets others: it has not taken
    /// those that it was given, or it has more than its share while those who receive go short.
    fn check_buffers(&self) -> CallResult<()> {
        let state = self.state.borrow();
        let held = state.program.as_ref().map_or(0, |it| it.running.buffers());
        drop(state);
        let share = self.pool.capacity() / (2 * self.workers_of_node().max(1));
        let is_short = self.pool.about_free() < self.pool.reserve() && held > share;
        if is_short || self.has_unclaimed() {
            let text = format!("the package keeps {held} buffers, and others need them");
            return Err(CallError::new(Status::Busy, text));
        }
        Ok(())
    }

    /// A block of a split.
    pub async fn block(self: &Rc<Self>, ticket: Ticket, index: u32) -> CallResult<Block> {
        let attempt = self.attempt_of(ticket)?;
        self.check_buffers()?;
        let Some(input) = &attempt.input else { return Err(no_input()) };
        if index >= input.split.blocks {
            return Err(CallError::new(Status::Invalid, "the split ends before that block"));
        }
        let at = self.offset(&attempt, input.split.block + index).await?;
        for index in input.loads.borrow_mut().want(index) {
            self.read_block(&attempt, index);
        }
        self.read_on(attempt.job_id);
        let loads = &input.loads;
        let read = self.wait_for(&attempt, || loads.borrow_mut().take(index)).await?;
        let more = index + 1 < input.split.blocks;
        match read {
            Ok((buffer, bytes)) => {
                attempt.read.set(attempt.read.get() + bytes as u64);
                let read = attempt.read.get();
                self.with(attempt.job_id, |worker, _| worker.progress(attempt.id, read));
                Ok(self.block_for_package(buffer, bytes, at, more))
            }
            Err(error) => Err(self.fail_for(&attempt, Fault::Input, error)),
        }
    }

    /// A call fails, and with it the attempt.
    pub(super) fn fail_for(
        self: &Rc<Self>,
        attempt: &Rc<Attempt>,
        fault: Fault,
        error: CallError,
    ) -> CallError {
        self.fail(attempt, fault_of(&error, fault), format!("{error}"));
        CallError::new(Status::NotFound, format!("the attempt has failed: {error}"))
    }

    fn block_for_package(
        &self,
        buffer: nile_stl::node::Buffer,
        bytes: usize,
        at: u64,
        more: bool,
    ) -> Block {
        let buffer = self.give(buffer, self.pool.buffer_size());
        Block { buffer, bytes: bytes as u32, at, more }
    }

    /// Bytes behind a split.
    pub async fn beyond(
        self: &Rc<Self>,
        ticket: Ticket,
        skip: u64,
        bytes: u32,
    ) -> CallResult<Piece> {
        let attempt = self.attempt_of(ticket)?;
        let Some(input) = &attempt.input else { return Err(no_input()) };
        let end = self.offset(&attempt, input.split.block + input.split.blocks).await?;
        match self.read_piece(input, end.saturating_add(skip), bytes).await {
            Ok(bytes) => Ok(Piece { bytes: Blob(bytes) }),
            Err(error) => Err(self.fail_for(&attempt, Fault::Input, error)),
        }
    }

    /// What a sample attempt has found.
    pub fn sampled(&self, ticket: Ticket, sample: &[u8]) -> CallResult<()> {
        let attempt = self.attempt_of(ticket)?;
        *attempt.sample.borrow_mut() = sample.into();
        Ok(())
    }

    /// Keeps an output.
    pub fn keep(&self, ticket: Ticket, mut output: Output) -> CallResult<()> {
        // Claimed first: whatever is wrong with it, the buffers are not the package's any more.
        let handles = core::mem::take(&mut output.buffers);
        let claimed: Vec<_> =
            handles.into_iter().map(|handle| self.pool.claim(from_call(handle))).collect();
        let buffers: Result<Vec<_>, _> = claimed.into_iter().collect();
        let invalid = |text: String| CallError::new(Status::Invalid, text);
        let buffers = buffers.map_err(|error| invalid(format!("{error}")))?;
        let attempt = self.attempt_of(ticket)?;
        if attempt.kind() != Kind::Map {
            return Err(invalid(String::from("only map attempts keep outputs")));
        }
        let slices = self.with_job(attempt.job_id, |it| it.worker.slices()).unwrap_or(1);
        let pieces = attempt.job.reducers.saturating_mul(slices);
        let kept = Kept::new(output, buffers, pieces).map_err(invalid)?;
        attempt.made.borrow_mut().keep(kept);
        Ok(())
    }

    /// The draft that an attempt writes to.
    async fn writer(self: &Rc<Self>, attempt: &Rc<Attempt>) -> CallResult<Rc<Writer>> {
        if let Some(writer) = &*attempt.writer.borrow() {
            return Ok(writer.clone());
        }
        let job = attempt.job_id.0;
        let writer = if attempt.kind() == Kind::Map {
            let name = format!(".scratch/{job}/{}/{}", self.core(), attempt.ticket);
            Writer::create(self, Draft { name: &name, version: (1, 0), owner: Decider::Here }).await
        } else {
            self.part_draft(attempt).await
        };
        let writer = match writer {
            Ok(writer) => writer,
            Err(error) => return Err(self.fail_for(attempt, Fault::Space, error)),
        };
        if attempt.phase.get() == Phase::Over {
            writer.abort();
            return Err(CallError::new(Status::NotFound, "the attempt is off"));
        }
        *attempt.writer.borrow_mut() = Some(writer.clone());
        Ok(writer)
    }

    /// Adds a block to a part, or to a run of a partition.
    pub async fn write(
        self: &Rc<Self>,
        ticket: Ticket,
        partition: Option<u32>,
        buffer: Buffer,
    ) -> CallResult<()> {
        let invalid = |text: &str| CallError::new(Status::Invalid, String::from(text));
        let buffer = self.pool.claim(from_call(buffer));
        let buffer = buffer.map_err(|error| invalid(&format!("{error}")))?;
        let bytes = buffer.len();
        let attempt = self.attempt_of(ticket)?;
        let expected = if partition.is_some() { Kind::Map } else { Kind::Reduce };
        if attempt.kind() != expected || bytes == 0 {
            return Err(invalid("runs are of map attempts, parts of reduce attempts; not empty"));
        }
        let writer = self.writer(&attempt).await?;
        if let Some(partition) = partition {
            let (store, draft) = writer.place();
            let is_partition = partition < attempt.job.reducers;
            let made = &mut *attempt.made.borrow_mut();
            is_partition
                .then(|| made.spill(store, draft, partition, bytes as u64))
                .flatten()
                .ok_or_else(|| invalid("partitions of runs are in their order"))?;
        }
        match writer.put(buffer, bytes).await {
            Ok(()) => Ok(()),
            Err(_) if !attempt.is_working() => {
                Err(CallError::new(Status::NotFound, "the attempt is off"))
            }
            Err(error) => Err(self.fail_for(&attempt, Fault::Space, error)),
        }
    }

    /// What a reduce attempt takes next.
    pub async fn source(self: &Rc<Self>, ticket: Ticket) -> CallResult<Source> {
        let attempt = self.attempt_of(ticket)?;
        self.check_buffers()?;
        let gather = &attempt.gather;
        let given = self.wait_for(&attempt, || gather.borrow_mut().next()).await?;
        if given.is_none() {
            let slice = gather.borrow().present();
            self.with(attempt.job_id, |worker, now| worker.takes(now, attempt.id, slice));
            self.pump(attempt.job_id);
        }
        let read = gather.borrow().bytes();
        self.with(attempt.job_id, |worker, _| worker.progress(attempt.id, read));
        Ok(match given {
            None => Source::All,
            Some(Given::Shared(map, output)) => {
                let Output { buffers, pieces, note, .. } = output;
                Source::Shared(Piled { map, buffers, pieces, note })
            }
            Some(Given::Own(map, output, buffers)) => {
                let Output { pieces, note, .. } = output;
                Source::Own(Piled { map, buffers: self.give_all(buffers), pieces, note })
            }
            Some(Given::Run(map, run, entry)) => {
                let loads = Loads::new(entry.blocks, 0);
                attempt.runs.borrow_mut().push(Rc::new(RefCell::new(loads)));
                Source::Run { map, run, bytes: entry.bytes }
            }
        })
    }

    /// Handles of buffers for the package.
    fn give_all(&self, buffers: Vec<nile_stl::node::Buffer>) -> Vec<Buffer> {
        let give = |buffer: nile_stl::node::Buffer| {
            let bytes = buffer.len();
            self.give(buffer, bytes)
        };
        buffers.into_iter().map(give).collect()
    }

    /// A block of a run.
    pub async fn run(self: &Rc<Self>, ticket: Ticket, run: u64, index: u32) -> CallResult<Block> {
        let attempt = self.attempt_of(ticket)?;
        self.check_buffers()?;
        let known = attempt.gather.borrow().run(run);
        let place = usize::try_from(run).unwrap_or(usize::MAX);
        let loads = attempt.runs.borrow().get(place).cloned();
        let (Some(at), Some(loads)) = (known, loads) else {
            return Err(CallError::new(Status::Invalid, "there is no such run"));
        };
        if index >= at.entry.blocks {
            return Err(CallError::new(Status::Invalid, "the run ends before that block"));
        }
        self.make_room(&attempt).await?;
        for index in loads.borrow_mut().want(index) {
            // The block takes what was held for it.
            drop(attempt.room.borrow_mut().pop());
            self.read_run(&attempt, at, &loads, index);
        }
        let read = self.wait_for(&attempt, || loads.borrow_mut().take(index)).await?;
        let more = index + 1 < at.entry.blocks;
        match read {
            // Where it is in the run nobody needs to know of blocks that are taken in order.
            Ok((buffer, bytes)) => Ok(self.block_for_package(buffer, bytes, 0, more)),
            Err(error) => {
                if error.status != Status::Busy {
                    // A store that began anew, with its core, has no drafts any more.
                    let location = Location { output: at.output, at: at.from };
                    let by = attempt.id;
                    self.with(attempt.job_id, |it, now| it.unreadable(now, location, by));
                }
                Err(self.fail_for(&attempt, Fault::Input, error))
            }
        }
    }

    /// An attempt is done, as far as the package is concerned.
    pub fn package_is_done(
        self: &Rc<Self>,
        ticket: Ticket,
        records: u64,
        checksum: u64,
    ) -> CallResult<()> {
        let attempt = self.attempt_of(ticket)?;
        attempt.phase.set(Phase::Finishing);
        self.with_job(attempt.job_id, |it| it.desk.let_go(ticket));
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            engine.finish(&attempt, records, checksum).await;
        }));
        Ok(())
    }

    /// What the package did has come to nothing.
    pub fn package_has_failed(
        self: &Rc<Self>,
        ticket: Ticket,
        fault: Blamed,
        text: &str,
    ) -> CallResult<()> {
        let job = self.package_job()?;
        let text = if text.is_empty() { "the job's code gave an error" } else { text };
        let cut = self.with_job(job, |it| it.cut.clone().filter(|cut| cut.ticket == ticket));
        if let Some(cut) = cut.flatten() {
            self.with_job(job, |it| it.desk.let_go(ticket));
            cut.fail(CallError::new(Status::Failed, String::from(text)));
            self.changes.notify();
            self.share();
            return Ok(());
        }
        let attempt = self.attempt_of(ticket)?;
        self.with_job(job, |it| it.desk.let_go(ticket));
        match fault {
            Blamed::Space => self.fail(&attempt, Fault::Space, text.into()),
            Blamed::Input if self.lost_source(&attempt).is_some() => {
                self.fail(&attempt, Fault::Input, text.into());
            }
            // What cannot be read the engine knows by itself. What was read and is not as the code
            // wants it is the same on every node.
            Blamed::Input | Blamed::Code => self.fail_by_code(&attempt, text),
        }
        Ok(())
    }
}

fn no_input() -> CallError {
    CallError::new(Status::Invalid, "a reduce attempt has no split")
}

/// A command about nothing.
pub fn nothing(kind: CommandKind, ticket: Ticket) -> Command {
    Command {
        kind,
        ticket,
        arguments: Vec::new(),
        index: 0,
        maps: 0,
        reducers: 0,
        slices: 1,
        inputs: 0,
        dataset: 0,
        first_block: 0,
        blocks: 0,
        bounds: Blob::default(),
        spill: false,
        keeps: 0,
        outputs: 0,
        shared: false,
        memory: None,
    }
}
