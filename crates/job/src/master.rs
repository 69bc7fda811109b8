//! The application master: gives a job's tasks to workers, where their input is if it can, has
//! them run again where workers are lost, and ends the job once.
//!
//! * `tasks`: what has become of each task; `queue`: tasks and workers that wait.
//! * `crew`: the workers, and a session with each.
//! * `schedule`: who does what next; `notes`: what workers say; `faults`: what is lost.
//! * `phases`: from the first sample to the end.

mod crew;
mod faults;
mod notes;
mod phases;
mod queue;
mod schedule;
mod tasks;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_order::{SortedMap, SortedSet};

use crate::end::{End, Failure, Fault, JobError, Summary};
use crate::id::{AttemptId, Epoch, Kind, TaskId, WorkerId};
use crate::job::{Job, MOST_BOUNDS, Split};
use crate::message::{Bounds, Location, Order, Plan, ToWorker};
use crate::progress::{Counters, Phase, Progress};
use crate::settings::Settings;
use crate::spans::{Outcome, Spans};
use crew::{Crew, Header, State};
use queue::Queue;
use tasks::Tasks;

/// What the master's engine has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send this to a worker.
    Send(WorkerId, ToWorker),
    /// Have the job's code cut bounds from these samples, which came from this many splits, and
    /// say them by [`Master::cut`], or [`Master::cut_failed`].
    Cut(Vec<Vec<u8>>),
    /// Ask the job's record for this end and say the verdict by [`Master::decided`]. An answer may
    /// be lost: the master asks again.
    Decide(End),
    /// The job has ended in this way, and every worker that lives knows it or will ask the record.
    /// The master can be dropped.
    Over(End),
    /// The job has a later master. This one can be dropped.
    Superseded(Epoch),
}

/// The master of one job in one epoch. Sans-IO: after each call, [`Master::poll`] gives what is to
/// be done, until there is nothing, and [`Master::next_due`] when [`Master::act`] is to be called.
#[derive(Debug)]
pub struct Master {
    job: Job,
    epoch: Epoch,
    node: NodeId,
    splits: Vec<Split>,
    settings: Settings,
    /// When it began.
    since: Instant,
    stage: Stage,
    tasks: Tasks,
    queue: Queue,
    crew: Crew,
    plan: Option<Plan>,
    /// What workers have from former masters' time, until it is decided which plan is followed.
    heirlooms: Vec<(usize, AttemptId, Epoch, Summary)>,
    /// Outputs of map tasks, in the order in which they were made, some of them lost since.
    outputs: Vec<Location>,
    /// Map tasks whose output is lost and not yet asked for again.
    lost: SortedSet<u32>,
    /// Other tasks that are to be queued.
    unplaced: SortedSet<TaskId>,
    /// Splits that cannot be read now.
    parked: SortedSet<TaskId>,
    /// When they are looked at again.
    recheck: Option<Instant>,
    /// Attempts that run, the oldest first.
    running: SortedSet<(Instant, AttemptId)>,
    /// How many map attempts run.
    mapping: usize,
    /// Workers that were told to end an attempt and have not said that they did.
    stopping: SortedSet<usize>,
    /// Reduce attempts that run.
    reducing: SortedMap<AttemptId, usize>,
    dead: SortedSet<NodeId>,
    /// Since when there is no worker.
    idle_since: Option<Instant>,
    samples: Vec<Vec<u8>>,
    actions: VecDeque<Action>,
    counters: Counters,
    spans: Spans,
}

/// How far the job is.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Workers say what they have from former masters' time, until this moment.
    Inheriting(Instant),
    Sampling,
    Cutting,
    Mapping,
    Reducing,
    /// The record is asked for this end, and again at this moment.
    Deciding(End, Instant),
    /// Workers are told the end, until this moment.
    Closing(End, Instant),
    /// Nothing is left to do.
    Over,
}

impl Master {
    /// The master of `epoch`, on `node`, of a job over these splits. The epoch is one that the
    /// job's record has given it.
    pub fn new(
        now: Instant,
        node: NodeId,
        epoch: Epoch,
        job: Job,
        splits: Vec<Split>,
        settings: Settings,
    ) -> Master {
        let samples = if job.is_sampled() { job.samples as usize } else { 0 };
        let tasks = Tasks::new(samples, splits.len(), job.reducers);
        let mut master = Master {
            job,
            epoch,
            node,
            splits,
            settings,
            since: now,
            stage: Stage::Inheriting(now + settings.settle),
            tasks,
            queue: Queue::default(),
            crew: Crew::default(),
            plan: None,
            heirlooms: Vec::new(),
            outputs: Vec::new(),
            lost: SortedSet::new(),
            unplaced: SortedSet::new(),
            parked: SortedSet::new(),
            recheck: None,
            running: SortedSet::new(),
            mapping: 0,
            stopping: SortedSet::new(),
            reducing: SortedMap::new(),
            dead: SortedSet::new(),
            idle_since: Some(now),
            samples: Vec::new(),
            actions: VecDeque::new(),
            counters: Counters::default(),
            spans: Spans::default(),
        };
        // Before the first master there was nothing.
        if epoch == Epoch::FIRST {
            master.inherit(now);
        }
        master
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `act` is to be called.
    pub fn next_due(&self) -> Option<Instant> {
        let stage = match &self.stage {
            Stage::Over => return None,
            Stage::Inheriting(at) | Stage::Deciding(_, at) | Stage::Closing(_, at) => Some(*at),
            _ => self.idle_since.map(|since| since + self.settings.block_patience),
        };
        let queue = self.queue.due(self.locality());
        [stage, queue, self.crew.due(), self.recheck, self.straggler_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due.
    pub fn act(&mut self, now: Instant) {
        while let Some(slot) = self.crew.expired(now) {
            let mate = &self.crew.mates[slot];
            let is_silent = mate.heard + self.settings.lost <= now;
            if is_silent && !matches!(mate.state, State::Joining | State::Over | State::Gone) {
                self.counters.lost_workers += 1;
                self.release(now, slot);
                self.crew.begin(now, slot);
            }
        }
        self.recheck(now);
        self.turn(now);
    }

    /// A worker core can be used for the job: it has no other.
    pub fn join(&mut self, now: Instant, id: WorkerId) {
        match self.crew.slot(&id) {
            _ if self.stage == Stage::Over => return,
            None => drop(self.crew.add(now, id)),
            // It was held for dead, and was not.
            Some(slot) if self.crew.mates[slot].state == State::Gone => self.crew.begin(now, slot),
            Some(_) => {}
        }
        self.idle_since = None;
        self.turn(now);
    }

    /// A worker can be used no more: its incarnation has ended, or it is withdrawn.
    pub fn leave(&mut self, now: Instant, id: WorkerId) {
        if let Some(slot) = self.crew.slot(&id) {
            self.dismiss(now, slot);
        }
        self.turn(now);
    }

    /// A node lives, or is dead, by what gossip says. Nodes of which nothing was said live. The
    /// workers of one that died are gone; those of one that lives have to join.
    pub fn node(&mut self, now: Instant, node: NodeId, lives: bool) {
        if lives {
            self.dead.remove(&node);
            self.recheck = self.recheck.map(|_| now);
            self.recheck(now);
        } else if self.dead.insert(node) {
            for slot in self.crew.on(node) {
                self.dismiss(now, slot);
            }
        }
        self.turn(now);
    }

    /// Whether it waits for bounds, as [`Action::Cut`] asked.
    pub fn is_cutting(&self) -> bool {
        self.stage == Stage::Cutting
    }

    /// The bounds that the job's code has cut, as [`Action::Cut`] asked.
    pub fn cut(&mut self, now: Instant, bounds: Bounds) {
        if self.stage == Stage::Cutting && bounds.bytes.0.len() > MOST_BOUNDS {
            let bytes = bounds.bytes.0.len();
            let text = format!("bounds of {bytes} bytes, but {MOST_BOUNDS} fit a message");
            return self.cut_failed(now, Failure { fault: Fault::Code, text });
        } else if self.stage == Stage::Cutting {
            self.plan = Some(Plan { epoch: self.epoch, bounds });
            self.start_mapping(now);
        }
        self.turn(now);
    }

    /// The job's code has cut no bounds, as [`Action::Cut`] asked.
    pub fn cut_failed(&mut self, now: Instant, failure: Failure) {
        if self.stage == Stage::Cutting {
            let task = TaskId { kind: Kind::Sample, index: 0 };
            self.decide(now, End::Failed(JobError::Task { task, failure }));
        }
        self.turn(now);
    }

    /// The job is to end without output, if it has not ended yet.
    pub fn cancel(&mut self, now: Instant) {
        self.decide(now, End::Failed(JobError::Cancelled));
        self.turn(now);
    }

    /// How far the job is.
    pub fn progress(&self) -> Progress {
        let done = |kind| self.tasks.count(kind) - self.tasks.left(kind);
        let running = self.crew.mates.iter().filter_map(|mate| match mate.state {
            State::Busy(attempt) => Some((mate.id, attempt, mate.read)),
            _ => None,
        });
        Progress {
            phase: self.phase(),
            maps: (done(Kind::Map) as u32, self.tasks.count(Kind::Map) as u32),
            reduces: (done(Kind::Reduce) as u32, self.tasks.count(Kind::Reduce) as u32),
            running: running.collect(),
            counters: self.counters(),
        }
    }

    /// What is done now, as in [`Master::progress`].
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Inheriting(_) => Phase::Inheriting,
            Stage::Sampling | Stage::Cutting => Phase::Sampling,
            Stage::Mapping => Phase::Mapping,
            Stage::Reducing => Phase::Reducing,
            Stage::Deciding(..) | Stage::Closing(..) => Phase::Ending,
            Stage::Over => Phase::Over,
        }
    }

    /// What was counted, as in [`Master::progress`].
    pub fn counters(&self) -> Counters {
        Counters { steps: self.counters.steps + self.queue.steps, ..self.counters }
    }

    /// The attempts of this master in time.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The attempt that a worker had is over, if it had one.
    fn end_span(&mut self, now: Instant, slot: usize, outcome: Outcome) {
        let mate = &mut self.crew.mates[slot];
        if let Some(place) = mate.span.take() {
            self.spans.end(now, place, outcome, mate.read);
        }
    }

    /// After each call: the stage goes on if it can, tasks are given, messages are sent.
    fn turn(&mut self, now: Instant) {
        self.advance(now);
        self.schedule(now);
        let header = Header { job: self.job.id, epoch: self.epoch, master: self.node };
        for slot in self.crew.take_touched() {
            self.tell_outputs(slot);
            if let Some(message) = self.crew.message(now, slot, header, &self.settings) {
                self.actions.push_back(Action::Send(self.crew.mates[slot].id, message));
            }
        }
    }

    /// Ends this master: nothing that it knows matters any more.
    fn retire(&mut self, last: Action) {
        self.stage = Stage::Over;
        self.actions.clear();
        self.actions.push_back(last);
        self.counters.steps += self.queue.steps;
        self.crew = Crew::default();
        self.queue = Queue::default();
        self.running.clear();
        self.reducing.clear();
        (self.recheck, self.idle_since) = (None, None);
    }

    /// Has a reduce attempt told of outputs that it does not know, some at a time.
    fn tell_outputs(&mut self, slot: usize) {
        /// Outputs of an order.
        const MOST: usize = 256;
        let mate = &mut self.crew.mates[slot];
        let State::Busy(AttemptId { task: TaskId { kind: Kind::Reduce, .. }, .. }) = mate.state
        else {
            return;
        };
        if !mate.lane.is_empty() {
            return;
        }
        let mut news = Vec::new();
        while mate.told < self.outputs.len() && news.len() < MOST {
            let location = self.outputs[mate.told];
            let done = &self.tasks.get(location.output.task).done;
            if done.as_ref().is_some_and(|done| done.attempt == location.output) {
                news.push(location);
            }
            mate.told += 1;
        }
        if !news.is_empty() {
            mate.lane.push(Order::Outputs(news));
        }
    }
}
