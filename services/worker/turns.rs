//! Which job has this core. Masters give tasks to all workers of the cluster; a core that is wanted
//! by several jobs has a task of one of them after the other, in the order of scheduling policies
//! ([`nile_policy`]): the job is the subject, and a task its turn. A task that runs is not
//! interrupted: only who comes next is decided.
//!
//! A core has the package of one job at a time. It stays while no other job's turn has come, and
//! [`LINGER`] longer than its task: what its master says next is on its way by then.
//!
//! An attempt that waits may wait for what another job's attempt on this core would give: buffers,
//! or an output that is made again by a core which a task of that job has. So whoever waits in one
//! call for longer than [`PATIENCE`] while others want the core gives way, and is done again later.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::time::Duration;

use nile_abi::Instant;
use nile_job::{JobId, Share};
use nile_order::SortedMap;
use nile_policy::policies::{EarliestDeadline, Fair, Fifo};
use nile_policy::{ClassId, Next, Parameters, Scheduler, Stop, Subject, Token, Turn};

use super::attempt::Phase;
use super::engine::{Engine, JobState, State};

/// How long a core that others want waits for the next task of the job that it has.
const LINGER: Duration = Duration::from_millis(20);

/// How long an attempt may wait in one call while others want its core; twice as long each time
/// that it was too short.
const PATIENCE: Duration = Duration::from_secs(2);

/// Policies are made for slices of milliseconds, and think of what has waited for a tenth of a
/// second as starving. Tasks take so many times longer: policies are shown a slower clock.
const SLOWER: u32 = 64;

/// The turns of a core.
pub struct Turns {
    scheduler: Scheduler<()>,
    classes: [ClassId; 3],
    /// The job that has the core.
    present: Option<Present>,
    /// One that has given way: another comes next.
    gave_way: Option<JobId>,
}

#[derive(Clone, Copy)]
struct Present {
    job: JobId,
    turn: Turn,
    since: Instant,
    /// When its task had ended.
    ended: Option<Instant>,
}

/// What the scheduler knows of a job.
#[derive(Default)]
pub struct Claim {
    subject: Option<Subject>,
    token: Option<Token>,
    /// Whether bounds are to be cut here.
    pub cuts: bool,
    /// How often it has given way.
    ways: u32,
}

impl Default for Turns {
    fn default() -> Turns {
        let mut scheduler = Scheduler::default();
        let classes = [
            scheduler.install("fair", Fair::PRIORITY, Box::new(Fair::default())),
            scheduler.install(
                "earliest_deadline",
                EarliestDeadline::PRIORITY,
                Box::new(EarliestDeadline::default()),
            ),
            scheduler.install("fifo", Fifo::PRIORITY, Box::new(Fifo)),
        ];
        Turns { scheduler, classes, present: None, gave_way: None }
    }
}

fn clock(now: Instant) -> Instant {
    Instant::from_nanos(now.as_nanos() / u64::from(SLOWER))
}

impl Turns {
    /// Has the scheduler know of a job that wants the core for the first time.
    fn meet(&mut self, claim: &mut Claim, share: Share, subject: Subject, now: Instant) {
        let [fair, earliest_deadline, fifo] = self.classes;
        let (class, parameters) = match share {
            Share::Fair { weight } => (fair, Parameters::none().with("weight", weight.into())),
            Share::EarliestDeadline { deadline_ms } => {
                let micros = deadline_ms.saturating_mul(1000) / u64::from(SLOWER);
                let micros = i64::try_from(micros.max(1)).unwrap_or(i64::MAX);
                (earliest_deadline, Parameters::none().with("deadline_us", micros))
            }
            Share::Fifo => (fifo, Parameters::none()),
        };
        // One that is refused is a job like any other.
        let _ = self.scheduler.bind(subject, class, &parameters, clock(now));
        claim.subject = Some(subject);
    }

    /// The present turn is over.
    fn end(&mut self, now: Instant) {
        if let Some(Present { turn, since, ended, .. }) = self.present.take() {
            let end = clock(ended.unwrap_or(now));
            self.scheduler.ran(turn, clock(since), end, Stop::Yields);
        }
    }

    /// A job is gone.
    pub fn forget(&mut self, job: JobId, claim: &Claim, now: Instant) {
        if self.present.is_some_and(|it| it.job == job) {
            self.end(now);
        }
        if let Some(subject) = claim.subject {
            self.scheduler.forget(subject);
        }
    }
}

impl State {
    fn others_want(&self, job: JobId) -> bool {
        self.jobs.iter().any(|(id, it)| *id != job && it.wants_core())
    }

    /// Until when the core waits for another task of the job that has it, though others want it.
    fn lingers_until(&self, present: &Present) -> Option<Instant> {
        let it = self.jobs.get(&present.job)?;
        let goes_on = self.turns.gave_way != Some(present.job) && !it.worker.is_over();
        let lingers = goes_on && !it.wants_core() && self.others_want(present.job);
        lingers.then(|| present.ended.map(|ended| ended + LINGER)).flatten()
    }

    /// The job whose turn has come, if the core is free.
    fn next_turn(&mut self, now: Instant) -> Option<JobId> {
        if let Some(present) = self.turns.present {
            if self.jobs.get(&present.job).is_some_and(JobState::has_core) {
                return None;
            }
            let present = Present { ended: present.ended.or(Some(now)), ..present };
            self.turns.present = Some(present);
            if self.lingers_until(&present).is_some_and(|until| now < until) {
                return None;
            }
            self.turns.end(now);
        }
        let gave_way = self.turns.gave_way.filter(|job| self.others_want(*job));
        self.turns.gave_way = gave_way;
        let State { jobs, turns, .. } = self;
        for id in jobs.keys().copied().collect::<alloc::vec::Vec<_>>() {
            let free = free_subject(jobs);
            let Some(it) = jobs.get_mut(&id) else { continue };
            let wants = it.wants_core() && gave_way != Some(id);
            let share = it.job().map_or(Share::default(), |job| job.share);
            if it.claim.subject.is_none() && wants {
                turns.meet(&mut it.claim, share, free, now);
            }
            match (it.claim.subject, it.claim.token) {
                (Some(subject), None) if wants => {
                    it.claim.token = Some(turns.scheduler.enqueue(subject, (), clock(now)));
                }
                (_, Some(token)) if !wants => {
                    turns.scheduler.remove(token);
                    it.claim.token = None;
                }
                _ => {}
            }
        }
        let Next::Run(picked) = turns.scheduler.next(clock(now)) else { return None };
        let subject = picked.turn.subject;
        let (job, it) = jobs.iter_mut().find(|(_, it)| it.claim.subject == Some(subject))?;
        it.claim.token = None;
        turns.gave_way = None;
        turns.present = Some(Present { job: *job, turn: picked.turn, since: now, ended: None });
        Some(*job)
    }
}

/// A number for a subject that no job has.
fn free_subject(jobs: &SortedMap<JobId, JobState>) -> Subject {
    let is_free = |it: &u32| jobs.values().all(|job| job.claim.subject != Some(Subject(*it)));
    Subject((0..).find(is_free).unwrap_or(u32::MAX))
}

impl JobState {
    /// Whether something of it waits for the core alone.
    fn wants_core(&self) -> bool {
        let cuts = self.claim.cuts && !self.worker.is_over();
        (cuts || self.worker.wants()) && !self.desk.is_busy()
    }

    /// Whether something of it runs, or has not let go of the package yet.
    fn has_core(&self) -> bool {
        self.attempt.is_some() || self.worker.running().is_some() || self.desk.is_busy()
    }
}

impl Engine {
    /// Gives the core, if it is free, to the job whose turn has come.
    pub fn share(self: &Rc<Self>) {
        let now = self.now();
        let next = self.state.borrow_mut().next_turn(now);
        self.plan_turn();
        let Some(job) = next else { return };
        self.make_way_for(job);
        let cut = self.with_job(job, |it| {
            let cuts = core::mem::take(&mut it.claim.cuts);
            it.cut.as_ref().filter(|_| cuts).map(|cut| cut.ticket)
        });
        match cut.flatten() {
            Some(ticket) => {
                self.with_job(job, |it| it.desk.queue(ticket));
                self.keep_package(job);
            }
            None => {
                self.with(job, |worker, now| worker.go(now));
                self.pump(job);
            }
        }
    }

    /// Has the package of another job end.
    fn make_way_for(self: &Rc<Self>, job: JobId) {
        let other = self.state.borrow().program.as_ref().map(|it| it.job);
        if let Some(other) = other.filter(|other| *other != job) {
            self.with_job(other, |it| it.desk.leave());
            self.see_to_leave(other);
            self.changes.notify();
        }
    }

    /// A job's package has started, whose turn may be over by now.
    pub(super) fn leave_if_late(self: &Rc<Self>, job: JobId) {
        let present = self.state.borrow().turns.present.map(|it| it.job);
        if let Some(present) = present.filter(|present| *present != job) {
            self.make_way_for(present);
        }
    }

    /// Whoever waits too long while others want the core gives way.
    pub(super) fn see_to_patience(self: &Rc<Self>) {
        let now = self.now();
        if self.gives_way_at().is_some_and(|at| at <= now) {
            let mut state = self.state.borrow_mut();
            let Some(job) = state.turns.present.map(|it| it.job) else { return };
            state.turns.gave_way = Some(job);
            if let Some(it) = state.jobs.get_mut(&job) {
                it.claim.ways += 1;
                it.worker.give_way(now);
            }
            drop(state);
            self.stl.host().log(format_args!("{job}: what waits on this core gives way to others"));
            self.pump(job);
        }
    }

    /// When the attempt that has the core gives way, if nothing comes of what it waits for.
    fn gives_way_at(&self) -> Option<Instant> {
        let state = self.state.borrow();
        let present = state.turns.present?;
        let it = state.jobs.get(&present.job).filter(|_| state.others_want(present.job))?;
        let attempt = it.attempt.as_ref()?;
        let waits = attempt.phase.get() == Phase::Working && !attempt.is_off.get();
        let patience = PATIENCE * (1 << it.claim.ways.min(6));
        let program = state.program.as_ref().filter(|it| it.job == present.job && waits)?;
        // One that computes does not wait: it is looked again whether it does.
        let since = if program.calls > 0 { program.heard } else { self.now() };
        Some(since.max(present.since) + patience)
    }

    /// When it is to be looked whose turn it is.
    pub(super) fn turn_due(&self) -> Option<Instant> {
        let lingers = {
            let state = self.state.borrow();
            state.turns.present.and_then(|it| state.lingers_until(&it))
        };
        [lingers, self.gives_way_at()].into_iter().flatten().min()
    }
}
