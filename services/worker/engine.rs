//! The engine of a worker core: does what the machines of its jobs want done.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Instant, Window};
use nile_job::worker::Action;
use nile_job::{
    AttemptId, Failure, Fault, Job, JobId, Kind, Settings, Summary, ToWorker, Work, Worker,
    WorkerId,
};
use nile_order::SortedMap;
use nile_stl::node::{Handle, Pool, in_call};
use nile_stl::{CallResult, Stl};
use nile_sync::Notify;

use super::attempt::{Attempt, Held, Input, Part, Phase};
use super::cuts::Cut;
use super::deliver::Wanted;
use super::desk::{Desk, Ticket};
use super::gather::{Fetches, Gather};
use super::loads::Loads;
use super::package::Program;
use super::peers::Peers;
use super::stores::{Named, Stores};
use super::turns::{Claim, Turns};
use crate::alarm::Alarm;

/// Handles that are remembered before it is looked which of them are on their way still.
const MOST_GIVEN: usize = 64;

/// Buffers that a package may have been given and not claimed before it gets no others.
const MOST_UNCLAIMED: usize = 128;

/// The most buffers of a piece: each is sent by the piece's number and its place in it.
pub const PLACES: u64 = 1 << 12;

/// Blocks of a split that are read ahead.
const AHEAD: u32 = 4;

/// How late a message may be said again: by then the core is awake as a rule, or what it says was
/// heard.
const AGAIN_SLACK: Duration = Duration::from_millis(100);

/// When something is said again that is due.
fn again(due: Instant) -> Window {
    Window::within(due, AGAIN_SLACK)
}

/// The engine.
pub struct Engine {
    /// This core's transport layer.
    pub stl: Stl,
    /// The node's buffers.
    pub pool: Pool,
    /// The cluster's stores.
    pub stores: Stores,
    /// Other workers, and masters.
    pub peers: Peers,
    /// Who waits for anything here.
    pub changes: Notify,
    /// Buffers that are packed here for other nodes, or on their way there.
    pub sending: Cell<usize>,
    /// The jobs, and the package.
    pub state: RefCell<State>,
    alarm: Alarm,
    is_ticking: Cell<bool>,
}

/// What changes.
#[derive(Default)]
pub struct State {
    /// The jobs that this core has a machine for.
    pub jobs: SortedMap<JobId, JobState>,
    /// The package that runs here.
    pub program: Option<Program>,
    /// Which job has the core.
    pub turns: Turns,
    /// The files of the last packages that were datasets, and which ones those were.
    pub codes: Vec<(Named, Rc<[u8]>)>,
    /// Pieces that were asked for.
    pub fetches: Fetches,
    /// Blocks that other nodes were asked for, and those that have come.
    pub parcels: SortedMap<u64, Option<nile_stl::node::Buffer>>,
    /// Pieces that are on their way to others: the number of who has asked, and whether it has
    /// begun.
    pub delivering: SortedMap<Wanted, (u64, bool)>,
    /// Deliveries that failed, and whose askers do not know that yet.
    pub spoiled: SortedMap<Wanted, u64>,
    /// Handles that the package was given and may not have claimed.
    given: Vec<Handle>,
    machines: u32,
    numbers: u64,
}

/// A job on this core.
pub struct JobState {
    /// Its part of the protocol.
    pub worker: Worker,
    /// What its package does.
    pub desk: Desk,
    /// The attempt that runs.
    pub attempt: Option<Rc<Attempt>>,
    /// The one that comes next.
    expected: Option<Rc<Attempt>>,
    /// What map attempts have made.
    pub held: SortedMap<AttemptId, Rc<Held>>,
    /// What nobody needs, but somebody may still look at.
    pub dropped: Vec<Rc<Held>>,
    /// Parts of the output.
    pub parts: SortedMap<AttemptId, Part>,
    /// Bounds that are cut here.
    pub cut: Option<Rc<Cut>>,
    /// Its claim to the core.
    pub claim: Claim,
    /// Where the blocks of input datasets end, as far as is known.
    pub ends: Rc<RefCell<SortedMap<u16, Vec<u64>>>>,
    job: Option<Rc<Job>>,
    /// Whether somebody sees to its package.
    pub is_kept: bool,
}

impl Engine {
    /// The engine of the core of `stl`, which has no jobs yet.
    pub fn new(stl: &Stl, pool: Pool) -> Engine {
        Engine {
            stl: stl.clone(),
            pool,
            stores: Stores::new(stl),
            peers: Peers::new(stl),
            changes: Notify::default(),
            sending: Cell::new(0),
            state: RefCell::default(),
            alarm: Alarm::default(),
            is_ticking: Cell::new(false),
        }
    }

    /// This core.
    pub fn core(&self) -> CoreId {
        self.stl.host().core()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// A number that no other incarnation of this core has given before. Behind it are
    /// [`PLACES`] others that are not given, for what belongs to it.
    pub fn number(&self) -> u64 {
        let state = &mut *self.state.borrow_mut();
        state.numbers += PLACES;
        u64::from(self.stl.host().generation().0) << 40 | state.numbers
    }

    /// A buffer's handle for the package.
    pub fn give(&self, buffer: nile_stl::node::Buffer, bytes: usize) -> nile_bosml::Buffer {
        let handle = buffer.into_handle(bytes);
        let given = &mut self.state.borrow_mut().given;
        if given.len() >= MOST_GIVEN {
            given.retain(|handle| self.pool.is_in_flight(*handle));
        }
        given.push(handle);
        in_call(handle)
    }

    /// Whether the package has left very many of the buffers that it was given where they are.
    pub fn has_unclaimed(&self) -> bool {
        let given = &mut self.state.borrow_mut().given;
        if given.len() >= MOST_UNCLAIMED {
            given.retain(|handle| self.pool.is_in_flight(*handle));
        }
        given.len() >= MOST_UNCLAIMED
    }

    /// The package is no more: what it was given and has not claimed is free.
    pub fn take_back(&self) {
        let given = core::mem::take(&mut self.state.borrow_mut().given);
        given.into_iter().for_each(|handle| drop(self.pool.claim(handle)));
    }

    /// Which worker this core is now.
    pub async fn identity(&self) -> CallResult<WorkerId> {
        let host = self.stl.host();
        let (node, life) = self.peers.own().await?;
        Ok(WorkerId { node, life, core: host.core(), generation: host.generation() })
    }

    /// A message of a master.
    pub async fn orders(self: &Rc<Self>, message: &[u8]) -> CallResult<()> {
        let message = ToWorker::decode(message)?;
        let (id, job) = (self.identity().await?, message.job);
        {
            let state = &mut *self.state.borrow_mut();
            let is_former = |it: &JobState| it.worker.id() != id || it.worker.is_dropped();
            if state.jobs.get(&job).is_some_and(is_former) {
                // Of another life of the node: nobody knows its attempts any more.
                state.remove(job, self.now());
            }
            if !state.jobs.contains_key(&job) {
                state.machines += 1;
                let now = self.stl.host().now();
                let worker = Worker::new(now, id, state.machines, job, Settings::default());
                state.jobs.insert(job, JobState::new(worker));
            }
        }
        self.tick();
        self.with(job, |worker, now| worker.receive(now, message));
        self.pump(job);
        Ok(())
    }

    /// The machine of a job, if there is one.
    pub fn with<T>(&self, job: JobId, act: impl FnOnce(&mut Worker, Instant) -> T) -> Option<T> {
        let now = self.now();
        self.state.borrow_mut().jobs.get_mut(&job).map(|it| act(&mut it.worker, now))
    }

    /// What is known of a job here.
    pub fn with_job<T>(&self, job: JobId, act: impl FnOnce(&mut JobState) -> T) -> Option<T> {
        self.state.borrow_mut().jobs.get_mut(&job).map(act)
    }

    /// Does what a job's machine wants done.
    pub fn pump(self: &Rc<Self>, job: JobId) {
        while let Some(action) = self.with(job, |worker, _| worker.poll()).flatten() {
            self.act(job, action);
        }
        let mut due = None;
        let mut cuts = Vec::new();
        for (job, it) in &mut self.state.borrow_mut().jobs {
            if it.worker.is_over() && it.attempt.is_none() {
                // Who cuts bounds has no attempt.
                let cut = it.desk.working().filter(|ticket| it.desk.call_off(*ticket));
                cuts.extend(cut.map(|ticket| (*job, ticket)));
                it.desk.close();
            }
            if it.expected.as_ref().is_some_and(|next| !it.worker.expects(next.id)) {
                it.forget_expected();
            }
            due = [due, it.worker.next_due()].into_iter().flatten().min();
        }
        cuts.into_iter().for_each(|(job, ticket)| self.see_to_end(job, ticket));
        self.alarm.plan(due.map(again));
        self.changes.notify();
        self.share();
    }

    /// Has the task that keeps time look whose turn it is when that may change.
    pub(super) fn plan_turn(&self) {
        self.alarm.plan(self.turn_due().map(Window::at));
    }

    /// Has the machines told when their time comes, while there are any.
    fn tick(self: &Rc<Self>) {
        if self.is_ticking.replace(true) {
            return;
        }
        self.peers.listen(self);
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            loop {
                let jobs: Vec<JobId> = engine.state.borrow().jobs.keys().copied().collect();
                if jobs.is_empty() {
                    break;
                }
                let mut due = None;
                for job in jobs {
                    let is_due = |worker: &mut Worker, now| match worker.next_due() {
                        Some(at) if at <= now => worker.act(now),
                        _ => {}
                    };
                    engine.with(job, is_due);
                    engine.pump(job);
                    let next = engine.with(job, |worker, _| worker.next_due()).flatten();
                    due = [due, next].into_iter().flatten().min();
                }
                engine.see_to_patience();
                engine.share();
                let turn = engine.turn_due().map(Window::at);
                let due = [due.map(again), turn].into_iter().flatten().reduce(Window::first_of);
                engine.alarm.wait(&engine.stl, due, |_| core::task::Poll::Pending).await;
            }
            engine.is_ticking.set(false);
            engine.changes.notify();
        }));
    }

    /// Whether there are jobs.
    pub fn has_jobs(&self) -> bool {
        self.is_ticking.get()
    }

    fn act(self: &Rc<Self>, job: JobId, action: Action) {
        match action {
            Action::Send(node, message) => self.peers.tell_master(self, node, message),
            Action::Peer(to, message) => self.ask_peer(job, to, message),
            Action::Start(attempt, work) => self.begin(job, attempt, work),
            Action::Expect(attempt, work) => self.expect(job, attempt, work),
            Action::Stop(attempt) => self.call_off(job, attempt),
            Action::Deliver { piece, to, by } => self.deliver(job, piece, to, by),
            Action::Gathered(by) => {
                if let Some(attempt) = self.attempt(job, by) {
                    attempt.gather.borrow_mut().close_slice();
                }
            }
            Action::Drop(attempt) => self.discard(job, attempt),
            Action::Commit(attempt) => self.confirm(job, attempt),
            Action::Ask => self.peers.ask_record(self, job),
            Action::Over => self.over(job),
        }
    }

    /// The attempt of this name, if it runs.
    pub fn attempt(&self, job: JobId, id: AttemptId) -> Option<Rc<Attempt>> {
        let state = self.state.borrow();
        state.jobs.get(&job)?.attempt.clone().filter(|it| it.id == id)
    }

    /// What comes next may be read by now.
    fn expect(self: &Rc<Self>, job_id: JobId, id: AttemptId, work: Work) {
        let ticket = self.number();
        self.with_job(job_id, |it| {
            it.forget_expected();
            // What is wrong with it is told when it begins.
            it.expected = it.make_attempt(job_id, id, ticket, work).ok();
        });
        self.read_on(job_id);
    }

    /// Reads on into the next split while the present one has nothing more to be read ahead.
    pub fn read_on(self: &Rc<Self>, job: JobId) {
        let both = self.with_job(job, |it| it.attempt.clone().zip(it.expected.clone()));
        let Some((attempt, expected)) = both.flatten() else { return };
        if let (Some(now), Some(next)) = (&attempt.input, &expected.input) {
            let spare = now.loads.borrow().spare();
            for index in next.loads.borrow_mut().expect(spare) {
                self.read_block(&expected, index);
            }
        }
    }

    fn begin(self: &Rc<Self>, job_id: JobId, id: AttemptId, work: Work) {
        let ticket = self.number();
        let made = self.with_job(job_id, |it| match it.expected.take() {
            Some(expected) if expected.id == id => Ok(expected),
            other => {
                it.expected = other;
                it.make_attempt(job_id, id, ticket, work)
            }
        });
        let attempt = match made {
            Some(Ok(attempt)) => attempt,
            Some(Err(failure)) => {
                self.with(job_id, |worker, now| worker.failed(now, id, failure));
                return;
            }
            None => return,
        };
        // What the package asks for first can come meanwhile.
        if let Some(input) = &attempt.input {
            for index in input.loads.borrow_mut().want(0) {
                self.read_block(&attempt, index);
            }
        }
        self.with_job(job_id, |it| {
            it.desk.queue(attempt.ticket);
            it.attempt = Some(attempt);
        });
        self.keep_package(job_id);
    }

    /// An attempt is not wanted any more.
    fn call_off(self: &Rc<Self>, job: JobId, id: AttemptId) {
        let Some(attempt) = self.attempt(job, id) else { return };
        attempt.is_off.set(true);
        let is_held = self.with_job(job, |it| it.desk.call_off(attempt.ticket));
        if is_held == Some(true) {
            self.see_to_end(job, attempt.ticket);
        } else if attempt.phase.get() == Phase::Working {
            self.settle(&attempt, |worker, now| worker.stopped(now, id));
        }
        // Else what makes it durable looks.
    }

    /// An attempt came to nothing, though the package may not know yet.
    pub fn fail(self: &Rc<Self>, attempt: &Rc<Attempt>, fault: Fault, text: alloc::string::String) {
        let (job, id) = (attempt.job_id, attempt.id);
        let is_held = self.with_job(job, |it| it.desk.call_off(attempt.ticket));
        if is_held == Some(true) {
            self.see_to_end(job, attempt.ticket);
        }
        self.settle(attempt, |worker, now| worker.failed(now, id, Failure { fault, text }));
    }

    /// An attempt is over: frees what it has and has its end told.
    pub fn settle(self: &Rc<Self>, attempt: &Rc<Attempt>, end: impl FnOnce(&mut Worker, Instant)) {
        if attempt.phase.replace(Phase::Over) == Phase::Over {
            return;
        }
        attempt.clear();
        let (job, id) = (attempt.job_id, attempt.id);
        self.state.borrow_mut().fetches.forget_all(job, id);
        self.with_job(job, |it| {
            if it.attempt.as_ref().is_some_and(|it| it.id == id) {
                it.attempt = None;
            }
            end(&mut it.worker, self.now());
        });
        self.pump(job);
    }

    /// An attempt is done; `keep` puts away what it has made, before anybody hears of it.
    pub fn done(
        self: &Rc<Self>,
        attempt: &Rc<Attempt>,
        summary: Summary,
        keep: impl FnOnce(&mut JobState),
    ) {
        let id = attempt.id;
        self.with_job(attempt.job_id, keep);
        self.settle(attempt, |worker, now| worker.done(now, id, summary));
    }

    /// What an attempt has made is not needed any more.
    fn discard(self: &Rc<Self>, job: JobId, id: AttemptId) {
        let part = self.with_job(job, |it| {
            if let Some(held) = it.held.remove(&id)
                && held.is_shared.get()
                && !it.worker.is_over()
            {
                // A package of this node may be looking at it.
                it.dropped.push(held);
            }
            it.parts.remove(&id)
        });
        if let Some(part) = part.flatten() {
            self.decide(part, false);
        }
    }

    /// A part is of the job's output.
    fn confirm(self: &Rc<Self>, job: JobId, id: AttemptId) {
        if let Some(part) = self.with_job(job, |it| it.parts.remove(&id)).flatten() {
            self.decide(part, true);
        }
    }

    /// Nothing is left to do for a job.
    fn over(self: &Rc<Self>, job: JobId) {
        self.with_job(job, |it| it.desk.close());
        let is_kept = self.with_job(job, |it| it.is_kept).unwrap_or(false);
        // Else whoever sees to the package forgets it, when that has ended.
        if !is_kept {
            self.state.borrow_mut().remove(job, self.now());
        }
    }
}

impl State {
    /// Forgets a job.
    pub fn remove(&mut self, job: JobId, now: Instant) {
        if let Some(former) = self.jobs.remove(&job) {
            self.turns.forget(job, &former.claim, now);
            former.end();
        }
    }
}

impl JobState {
    fn new(worker: Worker) -> JobState {
        JobState {
            worker,
            desk: Desk::default(),
            attempt: None,
            expected: None,
            held: SortedMap::new(),
            dropped: Vec::new(),
            parts: SortedMap::new(),
            cut: None,
            claim: Claim::default(),
            ends: Rc::default(),
            job: None,
            is_kept: false,
        }
    }

    /// What was to come next does not.
    fn forget_expected(&mut self) {
        if let Some(attempt) = self.expected.take() {
            attempt.is_off.set(true);
            attempt.phase.set(Phase::Over);
            attempt.clear();
        }
    }

    /// It is forgotten: who waits for something of it waits for nothing.
    pub fn end(mut self) {
        self.forget_expected();
        if let Some(attempt) = &self.attempt {
            attempt.is_off.set(true);
            attempt.phase.set(Phase::Over);
            attempt.clear();
        }
    }

    /// The job, once its master has said what it is.
    pub fn job(&mut self) -> Option<Rc<Job>> {
        if self.job.is_none() {
            self.job = self.worker.job().cloned().map(Rc::new);
        }
        self.job.clone()
    }

    fn make_attempt(
        &mut self,
        job_id: JobId,
        id: AttemptId,
        ticket: Ticket,
        work: Work,
    ) -> Result<Rc<Attempt>, Failure> {
        let failed = |fault, text: &str| Failure { fault, text: text.into() };
        let unknown = || failed(Fault::Code, "nobody has said what the job is");
        let job = self.job().ok_or_else(unknown)?;
        let (input, maps) = match work {
            Work::Pieces(maps) => (None, maps),
            Work::Split(split) => {
                let name = job.input.get(usize::from(split.dataset));
                let named = name.and_then(|name| Named::parse(name));
                let wrong = || failed(Fault::Input, "the split is of no version of a dataset");
                let named = named.ok_or_else(wrong)?;
                let ahead = if id.task.kind == Kind::Map { AHEAD } else { 0 };
                let loads = Rc::new(RefCell::new(Loads::new(split.blocks, ahead)));
                (Some(Input { split, named, loads }), 0)
            }
        };
        Ok(Rc::new(Attempt {
            job_id,
            job,
            id,
            ticket,
            phase: Cell::new(Phase::Working),
            is_off: Cell::new(false),
            read: Cell::new(0),
            input,
            made: RefCell::default(),
            sample: RefCell::default(),
            gather: RefCell::new(Gather::new(self.worker.slices())),
            runs: RefCell::default(),
            has_room: Cell::new(false),
            room: RefCell::default(),
            writer: RefCell::default(),
            maps,
        }))
    }
}
