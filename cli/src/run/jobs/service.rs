//! The nodes' service `job`, called by its client. Any node's can be asked; one that is gone or
//! does not know the job is followed by the next.

use std::time::{Duration, Instant};

use nile_abi::{NodeId, Status};
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{JobEnd, PhaseEntry, ProgressEntry, SpanEntry, TimelineEntry};
use nile_stl::CallResult;

use super::{Attempt, End, Jobs, Phase, Request, State, Timeline};
use crate::data::service;
use crate::data::stores::Stores;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::clients::Clients;
use crate::peer::known::{self, Target};

/// What the service is called.
const SERVICE: &str = "job";

/// How long one node may take to answer before the next is asked.
const ANSWER: Duration = Duration::from_secs(3);

/// How long one may take to begin a job: it looks around first, and may wait for workers that come
/// back and for nodes that do not answer.
const BEGUN: Duration = Duration::from_secs(30);

/// How long all of them may take to find a job's new master.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it is waited before all are asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// The service, on whichever node it can be asked.
pub struct Service<'s> {
    stores: &'s mut Stores,
    /// The instance that answered last.
    last: Option<Target>,
}

impl<'s> Service<'s> {
    /// Finds it, on one of the nodes that a job is kept to if it can be; a wrong request if no node
    /// offers it.
    pub fn open(stores: &'s mut Stores, on: &[NodeId]) -> Result<Service<'s>, Failure> {
        let all = service::find::<JobClient>(&mut stores.session)?;
        let none = || Failure::request("no node of the cluster runs jobs");
        let doubts = &stores.session.doubts;
        let all = all.ok_or_else(none)?;
        let rank = |target: &&Target| (doubts.has(target.node), !on.contains(&target.node));
        let last = all.iter().min_by_key(rank).copied();
        Ok(Service { stores, last })
    }

    fn call<T>(
        &mut self,
        target: Target,
        patience: Duration,
        ask: impl AsyncFn(&JobClient) -> CallResult<T>,
    ) -> Result<Result<T, CallFailed>, Failure> {
        let work = async |clients: Clients| ask(&clients.at(target)).await;
        let end = self.stores.session.peer.work(patience, work)?;
        Ok(end.map_err(CallFailed::from))
    }

    /// The instance that answered last, if it is there still, or another one: of its node last,
    /// which has just begun anew and may not know the others yet.
    fn present(&self) -> Option<Target> {
        let all = instances(self.stores);
        let last = self.last?;
        let doubts = &self.stores.session.doubts;
        let rank = |it: &&Target| (**it != last, doubts.has(it.node), it.node == last.node);
        all.iter().min_by_key(rank).copied()
    }

    /// When what of a job ran that has ended.
    pub fn timeline(&mut self, job: u64) -> Result<Timeline, Failure> {
        let mut all = Timeline::default();
        loop {
            let from = all.attempts.len() as u32;
            let more = self.ask(async |client| client.timeline(job, from).await)?;
            if add_times(&mut all, more) {
                return Ok(all);
            }
        }
    }

    /// Asks one node after the other until one knows the answer.
    fn ask<T>(&mut self, ask: impl AsyncFn(&JobClient) -> CallResult<T>) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut targets = instances(self.stores);
            // The one that answered last first, and those last that do not answer.
            let doubts = self.stores.session.doubts.clone();
            targets.sort_by_key(|it| (Some(*it) != self.last, doubts.has(it.node)));
            let mut why = format!("no node runs the service {SERVICE} any more");
            for target in targets {
                match self.call(target, ANSWER, &ask)? {
                    Ok(reply) => {
                        self.last = Some(target);
                        return Ok(reply);
                    }
                    Err(failed) if is_elsewhere(&failed) => {
                        if failed.status == Status::Timeout {
                            doubts.add(target.node);
                        }
                        why = format!("{}: {failed}", target.place());
                    }
                    Err(failed) => {
                        return Err(Failure::failed(format!("{}: {failed}", target.place())));
                    }
                }
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(why));
            }
            self.rest(PAUSE)?;
        }
    }
}

/// Whether another node may know.
fn is_elsewhere(failed: &CallFailed) -> bool {
    use Status::{Busy, Dead, Gone, NotFound, Panicked, Timeout};
    matches!(failed.status, Dead | Timeout | NotFound | Panicked | Busy | Gone)
}

fn instances(stores: &Stores) -> Vec<Target> {
    let all = known::instances(stores.session.peer.known());
    all.into_iter().filter(|(_, it)| it.name == SERVICE).map(|(target, _)| target).collect()
}

impl Jobs for Service<'_> {
    fn submit(&mut self, request: &Request) -> Result<u64, Failure> {
        let deadline = Instant::now() + self.stores.session.patience;
        loop {
            let is_late = Instant::now() >= deadline;
            let Some(target) = self.present() else {
                if is_late {
                    return Err(Failure::failed(format!("no node runs the service {SERVICE} now")));
                }
                self.rest(PAUSE)?;
                continue;
            };
            self.last = Some(target);
            match self.call(target, BEGUN, async |client| client.submit(request.clone()).await)? {
                Ok(job) => return Ok(job),
                // A node that has just begun reads first which jobs it keeps; one whose managing
                // core has left has not begun it.
                Err(failed)
                    if (failed.status == Status::Busy || failed.was_not_made()) && !is_late =>
                {
                    self.rest(PAUSE)?;
                }
                Err(failed) => return Err(refused(request, &failed)),
            }
        }
    }

    fn news(&mut self, job: u64, seen: usize, wait: Duration) -> Result<State, Failure> {
        let (seen, wait) = (seen as u32, wait.as_millis() as u32);
        self.ask(async |client| client.news(job, seen, wait).await).map(state)
    }

    fn cancel(&mut self, job: u64) -> Result<(), Failure> {
        self.ask(async |client| client.cancel(job).await)
    }

    fn rest(&mut self, span: Duration) -> Result<(), Failure> {
        self.stores.session.peer.until(span, |_| false).map(drop)
    }

    fn insist(&mut self) {
        self.stores.session.peer.insist();
    }
}

/// Why a job was not begun.
fn refused(request: &Request, failed: &CallFailed) -> Failure {
    let message = format!("{}: {failed}", request.name);
    match failed.status {
        Status::Invalid | Status::NotFound | Status::Exists => Failure::Request(message),
        _ => Failure::Failed(message),
    }
}

/// Adds what the service says of a job's times; whether that is all.
fn add_times(all: &mut Timeline, more: TimelineEntry) -> bool {
    let micros = Duration::from_micros;
    all.until = micros(more.until_us);
    let phase = |it: SpanEntry| (it.name.name(), micros(it.begun_us), micros(it.ended_us));
    all.phases = more.phases.into_iter().map(phase).collect();
    all.lost = more.lost.into();
    // A reply without news would be asked for without end.
    let is_over = more.attempts.is_empty();
    all.attempts.extend(more.attempts.into_iter().map(|it| Attempt {
        node: it.node,
        core: it.core,
        kind: it.kind.name(),
        task: it.task.into(),
        number: it.attempt.into(),
        begun: micros(it.begun_us),
        ended: micros(it.ended_us),
        outcome: it.outcome.name(),
        read: it.read,
    }));
    is_over || all.attempts.len() >= more.kept as usize
}

/// What the service says of a job.
fn state(now: ProgressEntry) -> State {
    let micros = Duration::from_micros;
    let phase =
        |it: PhaseEntry| Phase { name: it.name.name(), took: micros(it.us), bytes: it.bytes };
    let (end, waits) = match now.ended {
        JobEnd::Open => (None, now.error),
        JobEnd::Made => {
            (Some(End::Done { records: now.records, checksum: now.checksum }), String::new())
        }
        JobEnd::Failed => (Some(End::Failed(now.error)), String::new()),
    };
    State {
        phase: now.phase,
        maps: (now.maps_done, now.maps),
        reduces: (now.reduces_done, now.reduces),
        bytes: now.read.saturating_add(now.written),
        retries: now.retries,
        spilled: now.spilled,
        imbalance: f64::from(now.imbalance) / 1000.0,
        phases: now.phases.into_iter().map(phase).collect(),
        first_task: now.first_task_us.map(micros),
        waits,
        end,
    }
}
