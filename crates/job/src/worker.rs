//! One worker core in one job: runs one attempt after the other, keeps what its attempts have
//! made, and fetches the pieces of a reduce attempt from other workers. It obeys the last master
//! that it has heard of, and no other.
//!
//! * `orders`: what the master says; `fetch`: the pieces of a reduce attempt.

mod fetch;
mod orders;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_order::SortedMap;

use crate::end::{Failure, Fault, Summary};
use crate::id::{AttemptId, Epoch, JobId, Kind, PieceId, Session, WorkerId};
use crate::job::{Job, MOST_SAMPLE};
use crate::lane::Lane;
use crate::message::{Location, Note, Peer, Plan, RunningAttempt, ToMaster, Work};
use crate::record::Standing;
use crate::settings::Settings;
use fetch::Gathering;

/// Bytes of what is told of a failure.
const MOST_TEXT: usize = 1 << 10;

/// What the worker's engine has to do. Names of attempts are never given twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send this to the job service of this node.
    Send(NodeId, ToMaster),
    /// Send this to another worker.
    Peer(WorkerId, Peer),
    /// Run this attempt, as [`Worker::go`] allowed, and say by [`Worker::done`] or
    /// [`Worker::failed`] what came of it. No other of the job runs.
    Start(AttemptId, Work),
    /// This attempt comes after the one that runs: some of its input may be read by then. Not all
    /// attempts are said to come, and one that was said to may not.
    Expect(AttemptId, Work),
    /// The running attempt is not wanted: stop it, drop what it has made, and say
    /// [`Worker::stopped`], if its end has not been said yet.
    Stop(AttemptId),
    /// Bring this piece, which is here, to another worker's attempt.
    Deliver {
        /// The piece.
        piece: PieceId,
        /// Whose attempt it is for.
        to: WorkerId,
        /// The attempt.
        by: AttemptId,
    },
    /// The running reduce attempt has all pieces of the next slice: of the first one, when it is
    /// said for the first time. After the last one it can write its part to the end.
    Gathered(AttemptId),
    /// The output or the part of this attempt is not needed any more.
    Drop(AttemptId),
    /// The part of this attempt is now of the job's output.
    Commit(AttemptId),
    /// Ask the job's record how the job stands and say it by [`Worker::resolve`]. An answer may be
    /// lost: the worker asks again.
    Ask,
    /// The worker has nothing of this job any more and can be dropped.
    Over,
}

/// What a worker core has of a job. Sans-IO: after each call, [`Worker::poll`] gives what is to be
/// done, until there is nothing, and [`Worker::next_due`] when [`Worker::act`] is to be called.
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    machine: u32,
    job_id: JobId,
    settings: Settings,
    epoch: Epoch,
    session: Session,
    master: NodeId,
    lane: Lane<Note>,
    job: Option<Job>,
    plan: Option<Plan>,
    held: SortedMap<AttemptId, Held>,
    core: Core,
    /// What runs as soon as the attempt before has ended, the next one first.
    next: VecDeque<Next>,
    /// When the master was heard last, or the record asked.
    heard: Instant,
    /// When the machine is dropped though the master has not said that it knows of the end.
    over: Option<Instant>,
    is_dropped: bool,
    actions: VecDeque<Action>,
}

/// An output, or a part.
#[derive(Debug)]
struct Held {
    /// The plan by which it is partitioned.
    plan: Epoch,
    summary: Summary,
}

/// What the core does.
#[derive(Debug)]
enum Core {
    Idle,
    Running(Run),
    /// An attempt is to end and has not said yet that it did.
    Stopping(AttemptId),
}

/// An attempt that waits for the core, and what it was already told.
#[derive(Debug)]
struct Next {
    attempt: AttemptId,
    work: Work,
    outputs: Vec<Location>,
}

#[derive(Debug)]
struct Run {
    attempt: AttemptId,
    /// The pieces, if it is a reduce attempt.
    gathering: Option<Gathering>,
    bytes: u64,
}

impl Worker {
    /// A worker that hears of a job. `machine` is not 0, and higher than that of any other machine
    /// that this incarnation of the core had for the job: after the end a late message may make
    /// another one, which must not do again what the former did.
    pub fn new(now: Instant, id: WorkerId, machine: u32, job: JobId, settings: Settings) -> Worker {
        Worker {
            id,
            machine,
            job_id: job,
            settings,
            epoch: Epoch::NONE,
            session: Session::default(),
            master: NodeId::default(),
            lane: Lane::default(),
            job: None,
            plan: None,
            held: SortedMap::new(),
            core: Core::Idle,
            next: VecDeque::new(),
            heard: now,
            over: None,
            is_dropped: false,
            actions: VecDeque::new(),
        }
    }

    /// Which worker it is.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The job, which is known before the first attempt starts.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// The bounds of partitions, which are known before the first attempt that needs them starts.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// How many slices each partition has.
    pub fn slices(&self) -> u32 {
        self.plan.as_ref().map_or(1, |plan| plan.bounds.slices)
    }

    /// The epoch of the master that it obeys.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether it has heard that the job is over, and runs nothing but what is still to stop.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether it has nothing of the job any more, and hears nothing.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped
    }

    /// The attempts whose outputs or parts it keeps.
    pub fn held(&self) -> impl Iterator<Item = AttemptId> {
        self.held.keys().copied()
    }

    /// The attempt that runs, or that is to stop and has not.
    pub fn running(&self) -> Option<AttemptId> {
        match &self.core {
            Core::Idle => None,
            Core::Running(run) => Some(run.attempt),
            Core::Stopping(attempt) => Some(*attempt),
        }
    }

    /// Whether an attempt waits for nothing but the core.
    pub fn wants(&self) -> bool {
        matches!(self.core, Core::Idle) && !self.next.is_empty()
    }

    /// The core is this job's: the attempt that waits for it starts.
    pub fn go(&mut self, now: Instant) {
        if matches!(self.core, Core::Idle)
            && let Some(next) = self.next.pop_front()
        {
            self.start(now, next);
            self.flush(now);
        }
    }

    /// The running attempt waits for what does not come while others want the core: it is stopped,
    /// and the master, which hears of that, has its task done again.
    pub fn give_way(&mut self, now: Instant) {
        if matches!(self.core, Core::Running(_)) {
            self.stop();
            self.flush(now);
        }
    }

    /// Whether this attempt waits for another one's end, or for the core.
    pub fn expects(&self, attempt: AttemptId) -> bool {
        self.next.iter().any(|next| next.attempt == attempt)
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `act` is to be called.
    pub fn next_due(&self) -> Option<Instant> {
        if self.is_dropped {
            return None;
        }
        let asks = self.over.unwrap_or(self.heard + self.settings.orphan);
        let fetches = match &self.core {
            Core::Running(Run { gathering: Some(gathering), .. }) => gathering.due(),
            _ => None,
        };
        [Some(asks), self.lane.due(), fetches].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn act(&mut self, now: Instant) {
        if self.over.is_some_and(|over| over <= now) {
            // What is still to stop is waited for.
            self.over = Some(now + self.settings.closing);
            self.drop_out();
        } else if self.over.is_none() && self.heard + self.settings.orphan <= now {
            self.heard = now;
            self.actions.push_back(Action::Ask);
        }
        self.fetch(now);
        self.flush(now);
    }

    /// How far the running attempt is: bytes that it has read.
    pub fn progress(&mut self, attempt: AttemptId, bytes: u64) {
        if let Core::Running(run) = &mut self.core
            && run.attempt == attempt
        {
            run.bytes = run.bytes.max(bytes);
        }
    }

    /// An attempt is done; a part is durable on this node. The engine keeps what it made until
    /// it is told otherwise.
    ///
    /// A sample that does not fit a message is the code's failure.
    pub fn done(&mut self, now: Instant, attempt: AttemptId, summary: Summary) {
        let bytes = summary.sample.0.len();
        if bytes > MOST_SAMPLE {
            let text = format!("a sample of {bytes} bytes, but {MOST_SAMPLE} fit a message");
            return self.failed(now, attempt, Failure { fault: Fault::Code, text });
        }
        match &self.core {
            Core::Running(run) if run.attempt == attempt => {
                if attempt.task.kind != Kind::Sample {
                    let plan = self.plan.as_ref().map_or(Epoch::NONE, |plan| plan.epoch);
                    // Samples are told once and never again: only the first message has them.
                    let kept = Summary { sample: Default::default(), ..summary.clone() };
                    self.held.insert(attempt, Held { plan, summary: kept });
                }
                self.lane.push(Note::Done { attempt, summary });
                self.rest(now);
            }
            Core::Stopping(stopping) if *stopping == attempt => {
                // It was quicker than its end.
                self.actions.push_back(Action::Drop(attempt));
                self.lane.push(Note::Stopped(attempt));
                self.rest(now);
            }
            _ => {}
        }
        self.flush(now);
    }

    /// An attempt came to nothing; it has left nothing behind.
    pub fn failed(&mut self, now: Instant, attempt: AttemptId, mut failure: Failure) {
        failure.text.truncate(failure.text.floor_char_boundary(MOST_TEXT));
        match &self.core {
            Core::Running(run) if run.attempt == attempt => {
                self.lane.push(Note::Failed { attempt, failure });
                self.rest(now);
            }
            _ => self.stopped(now, attempt),
        }
        self.flush(now);
    }

    /// An attempt was stopped, and has left nothing behind.
    pub fn stopped(&mut self, now: Instant, attempt: AttemptId) {
        if matches!(&self.core, Core::Stopping(stopping) if *stopping == attempt) {
            self.lane.push(Note::Stopped(attempt));
            self.rest(now);
        }
        self.flush(now);
    }

    /// Nothing runs any more.
    fn rest(&mut self, now: Instant) {
        self.core = Core::Idle;
        if self.over.is_some() {
            self.finish_over(now);
        }
    }

    fn start(&mut self, now: Instant, next: Next) {
        let Next { attempt, work, outputs } = next;
        let gathering = match work {
            Work::Pieces(maps) => Some(Gathering::new(maps, self.slices(), &outputs)),
            Work::Split(_) => None,
        };
        self.core = Core::Running(Run { attempt, gathering, bytes: 0 });
        self.actions.push_back(Action::Start(attempt, work));
        self.fetch(now);
    }

    /// What the job's record says.
    pub fn resolve(&mut self, now: Instant, standing: Standing) {
        match standing {
            // A later master will find this worker by itself.
            Standing::Open(_) => {}
            Standing::Ended(crate::End::Published(parts)) if self.over.is_none() => {
                let mine = parts.iter().filter(|part| part.at == self.id);
                self.end(now, mine.map(|part| part.attempt).collect());
            }
            Standing::Ended(_) | Standing::Unknown if self.over.is_none() => {
                self.end(now, Default::default());
            }
            _ => {}
        }
        self.flush(now);
    }

    /// Says what there is to say.
    fn flush(&mut self, now: Instant) {
        if self.epoch == Epoch::NONE || self.is_dropped {
            return;
        }
        if let Some(notes) = self.lane.fill(now, self.settings.patience) {
            let running = match &self.core {
                Core::Running(run) => {
                    Some(RunningAttempt { attempt: run.attempt, bytes: run.bytes })
                }
                _ => None,
            };
            let message = ToMaster {
                job: self.job_id,
                epoch: self.epoch,
                session: self.session,
                worker: self.id,
                machine: self.machine,
                running,
                notes,
            };
            self.actions.push_back(Action::Send(self.master, message));
        }
    }
}
