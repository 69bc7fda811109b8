//! What is told of jobs.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Instant, NodeId, Status};
use nile_job::{End, Epoch, JobId, Master, Part, Progress, Record, Standing};
use nile_stl::{CallError, CallResult, all};

use super::board::Board;
use super::cluster::SOON;
use super::hosted::{Account, Hosted};
use super::told;
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{
    JobEnd, JobEntry, JobPhase, PartEntry, PhaseEntry, ProgressEntry, WorkerEntry,
};

/// How long one waits for news of a job whose master is on another node.
const ELSEWHERE: Duration = Duration::from_millis(20);

/// Busy workers of a reply.
const MOST_WORKERS: usize = 256;

pub(super) fn unknown(id: JobId) -> CallError {
    CallError::new(Status::NotFound, format!("job {}: no such job", id.0))
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Hosted {
    /// How far it is, as far as this node knows.
    pub fn progress(&self, now: Instant, own: NodeId) -> ProgressEntry {
        let account = self.account.borrow();
        let master = self.master.borrow().as_ref().map(Master::progress);
        let mut entry = self.with(outline);
        let is_ending = self.is_ending();
        if !is_ending && self.has_lost_name.get() {
            (entry.ended, entry.parts) = (JobEnd::Failed, Vec::new());
            entry.error = format!(
                "{}: others have taken or removed the name before the job had ended",
                entry.output
            );
        }
        if let Some(said) = master.as_ref().or(account.last.as_ref()) {
            add_progress(&mut entry, said);
        }
        if is_ending {
            end_late(&mut entry);
        }
        if master.is_some() || is_ending && self.has_run() {
            // Other keepers do not know that what it has made cannot be seen yet.
            entry.master = Some(own.0);
        } else if self.turn.get().is_some() && entry.ended.is_open() {
            (entry.master, entry.phase) = (Some(own.0), JobPhase::Queued);
        }
        let until = account.ended.unwrap_or(now);
        entry.first_task_us = account.first_task.map(micros);
        entry.total_us = micros(until.since(account.since));
        entry.phases = phases(&account, until, entry.read);
        if entry.ended.is_open() {
            entry.error.clone_from(&account.trouble);
        }
        entry
    }

    /// Its line of the list.
    pub fn entry(&self, own: NodeId) -> JobEntry {
        let (mut outline, share, keeper) = self.with(|record| {
            let keeper = record.job.keepers.first().copied();
            (outline(record), record.job.share, keeper.unwrap_or(own))
        });
        let is_ending = self.is_ending() && self.has_run();
        if is_ending {
            end_late(&mut outline);
        }
        let master = self.master.borrow();
        if let Some(master) = master.as_ref().filter(|_| outline.ended.is_open()) {
            let progress = master.progress();
            (outline.maps_done, outline.maps) = progress.maps;
            (outline.reduces_done, outline.reduces) = progress.reduces;
        }
        let turn = self.turn.get();
        let phase = match (&*master, outline.ended) {
            (Some(master), JobEnd::Open) if !is_ending => told::phase(master.phase()),
            (None, JobEnd::Open) => turn.unwrap_or(outline.phase),
            _ => outline.phase,
        };
        let is_here = master.is_some() || turn.is_some() || is_ending;
        JobEntry {
            job: self.id.0,
            name: outline.name,
            output: outline.output,
            phase,
            master: is_here.then_some(own.0),
            ended: outline.ended,
            policy: told::policy(share),
            submitted_to: keeper.0,
            maps_done: outline.maps_done,
            maps: outline.maps,
            reduces_done: outline.reduces_done,
            reduces: outline.reduces,
        }
    }
}

/// Whoever is told that a job has ended wants to read what it has made: as long as that cannot be
/// seen, it ends.
fn end_late(entry: &mut ProgressEntry) {
    (entry.ended, entry.phase) = (JobEnd::Open, JobPhase::Ending);
}

/// What a record says.
fn outline(record: &Record) -> ProgressEntry {
    let job = &record.job;
    let mut entry = ProgressEntry {
        job: job.id.0,
        name: job.name.clone(),
        output: job.output.clone(),
        maps: record.splits.len() as u32,
        reduces: job.reducers,
        ..ProgressEntry::default()
    };
    match record.end() {
        None => {}
        Some(End::Published(parts)) => {
            entry.ended = JobEnd::Made;
            (entry.maps_done, entry.reduces_done) = (entry.maps, entry.reduces);
            let sum = |of: fn(&Part) -> u64| parts.iter().map(of).fold(0, u64::wrapping_add);
            (entry.records, entry.checksum) = (sum(|it| it.records), sum(|it| it.checksum));
            entry.written = sum(|it| it.bytes);
            let part =
                |it: &Part| PartEntry { node: it.at.node.0, bytes: it.bytes, records: it.records };
            entry.parts = parts.iter().map(part).collect();
        }
        Some(End::Failed(error)) => {
            entry.ended = JobEnd::Failed;
            let plain = |name: &String| name.split('@').next().unwrap_or_default().into();
            let input: Vec<String> = job.input.iter().map(plain).collect();
            entry.error = error.text(&input);
        }
    }
    if !entry.ended.is_open() {
        entry.phase = JobPhase::Over;
    }
    entry
}

fn add_progress(entry: &mut ProgressEntry, said: &Progress) {
    let counters = said.counters;
    if entry.ended.is_open() {
        entry.phase = told::phase(said.phase);
        (entry.maps_done, entry.maps) = said.maps;
        (entry.reduces_done, entry.reduces) = said.reduces;
        let worker =
            |(id, attempt, bytes): &(nile_job::WorkerId, nile_job::AttemptId, u64)| WorkerEntry {
                node: id.node.0,
                core: id.core.0,
                kind: told::kind(attempt.task.kind),
                task: attempt.task.index,
                attempt: attempt.number,
                bytes: *bytes,
            };
        entry.workers = said.running.iter().take(MOST_WORKERS).map(worker).collect();
    }
    (entry.read, entry.written, entry.spilled) =
        (counters.read, counters.written, counters.spilled);
    (entry.attempts, entry.retries) = (counters.attempts, counters.retries);
    (entry.second_tries, entry.local) = (counters.second_tries, counters.local);
    (entry.inherited, entry.imbalance) = (counters.inherited, counters.imbalance);
}

fn phases(account: &Account, until: Instant, read: u64) -> Vec<PhaseEntry> {
    let all = &account.phases;
    let entry = |(place, (phase, begun, before)): (usize, &(nile_job::Phase, Instant, u64))| {
        let (end, after) = match all.get(place + 1) {
            Some((_, begun, before)) => (*begun, *before),
            None => (until.max(*begun), read),
        };
        PhaseEntry {
            name: told::phase(*phase),
            us: micros(end.since(*begun)),
            bytes: after.saturating_sub(*before),
        }
    };
    let queued = account.begun.map(|begun| PhaseEntry {
        name: JobPhase::Queued,
        us: micros(begun.since(account.since)),
        bytes: 0,
    });
    let entries = all.iter().enumerate().map(entry).filter(|it| it.name != JobPhase::Over);
    queued.into_iter().chain(entries).collect()
}

impl Board {
    /// How far a job is, as far as this node knows, if it keeps its record. Its master's node may
    /// have died before all of its output could be seen, or never have known that it has ended: so
    /// who tells of the end sees to that first.
    pub fn progress_here(self: &Rc<Self>, id: JobId) -> Option<ProgressEntry> {
        let hosted = self.job(id)?;
        if !hosted.is_published.get() {
            self.publish(&hosted);
        }
        Some(hosted.progress(self.now(), self.cluster.node()))
    }

    /// How far a job is, by its master if it has one, wherever that is.
    pub async fn progress(self: &Rc<Self>, id: JobId) -> CallResult<ProgressEntry> {
        let own = self.cluster.node();
        let here = self.progress_here(id);
        if let Some(entry) = &here
            && (entry.master == Some(own.0) || !entry.ended.is_open() && !entry.phases.is_empty())
        {
            return Ok(entry.clone());
        }
        let nodes = self.cluster.nodes().await?;
        let ask = |client: JobClient| async move { client.progress_here(id.0).await };
        let there = self.ask_nodes(&nodes, ask).await.into_iter();
        let there = there.filter_map(|(node, entry)| Some((node, entry.ok()?)));
        // Who has the master knows most; then who knows of the end, and had it.
        let knows = |(node, it): &(NodeId, ProgressEntry)| {
            (it.master == Some(node.0), !it.ended.is_open(), it.phases.len(), it.attempts)
        };
        let all = there.chain(here.map(|entry| (own, entry)));
        all.max_by_key(knows).map(|it| it.1).ok_or_else(|| unknown(id))
    }

    /// How far a job is, when it has ended or come to more phases than `seen`, or after `wait`.
    pub async fn news(
        self: &Rc<Self>,
        id: JobId,
        seen: usize,
        wait: Duration,
    ) -> CallResult<ProgressEntry> {
        let until = |span| self.stl.host().sleep_until(self.now() + span);
        match self.job(id).filter(|it| it.is_told_here()) {
            Some(hosted) => hosted.news(seen, until(wait)).await,
            // Whoever asks again and again would do so as fast as it can.
            None => until(wait.min(ELSEWHERE)).await,
        }
        self.progress(id).await
    }

    /// Has a job's master, wherever that is, end it. `busy` while it has none.
    pub async fn cancel(self: &Rc<Self>, id: JobId) -> CallResult<()> {
        if self.cancel_here(id) {
            return Ok(());
        }
        let ask = |client: JobClient| async move { client.cancel_here(id.0).await };
        let there = self.ask_others(ask).await?;
        if there.contains(&Ok(true)) {
            return Ok(());
        }
        match self.ask_standing(id, 0).await {
            Some(Standing::Unknown) => Err(unknown(id)),
            Some(Standing::Ended(_)) => Ok(()),
            _ => {
                let message = format!("job {} has no master now: try again", id.0);
                Err(CallError::new(Status::Busy, message))
            }
        }
    }

    /// The same, if the master is here, or the end is known; whether it is.
    pub fn cancel_here(self: &Rc<Self>, id: JobId) -> bool {
        let Some(hosted) = self.job(id) else { return false };
        if hosted.turn.get().is_some() && hosted.is_open() {
            self.begin_master(&hosted, Epoch::FIRST);
        }
        let now = self.now();
        let has_master = {
            let master = &mut *hosted.master.borrow_mut();
            master.iter_mut().for_each(|master| master.cancel(now));
            master.is_some()
        };
        self.kick(&hosted);
        has_master || !hosted.is_open()
    }

    /// The jobs of this node, in the order of their numbers.
    pub fn list_here(&self) -> Vec<JobEntry> {
        let own = self.cluster.node();
        self.jobs().iter().map(|hosted| hosted.entry(own)).collect()
    }

    /// The jobs of all nodes that answer, each once.
    pub async fn list(&self) -> Vec<JobEntry> {
        let ask = |client: JobClient| async move {
            let mut all: Vec<JobEntry> = Vec::new();
            loop {
                let more = client.list_here(all.last().map_or(0, |it| it.job)).await?;
                if more.is_empty() {
                    return Ok(all);
                }
                all.extend(more);
            }
        };
        let there = self.ask_others(ask).await.unwrap_or_default();
        let mut all = self.list_here();
        all.extend(there.into_iter().filter_map(Result::ok).flatten());
        // Who knows of the end, then who has the master.
        nile_order::sort_by_key(&mut all, |it| (it.job, it.ended.is_open(), it.master.is_none()));
        all.dedup_by_key(|it| it.job);
        all
    }

    /// How a job stands, by all who can be asked. None if nobody knows now. `keepers` are two of
    /// those who keep its record, or the only one ([`nile_job::Job::keepers_in_manifest`]): that
    /// they do not know the job says that it is over. If it is 0, all nodes have to say so.
    pub async fn ask_standing(self: &Rc<Self>, id: JobId, keepers: u32) -> Option<Standing> {
        let own = self.standing(id);
        if let Some(Standing::Ended(_) | Standing::Open(_)) = own {
            return own;
        }
        let mut strangers: Vec<NodeId> = own.iter().map(|_| self.cluster.node()).collect();
        let nodes = self.cluster.nodes().await.ok()?;
        let answers = self.ask_nodes(&nodes, |client| async move {
            let standing = client.standing_here(id.0).await?;
            Ok(standing.map(|standing| Standing::decode(&standing.0)).transpose()?)
        });
        let mut open = None;
        for (node, answer) in answers.await {
            match answer {
                Ok(Some(Standing::Unknown)) => strangers.push(node),
                Ok(Some(Standing::Open(epoch))) => {
                    open = open.max(Some(epoch));
                }
                Ok(ended @ Some(_)) => return ended,
                Ok(None) | Err(_) => {}
            }
        }
        if let Some(epoch) = open {
            return Some(Standing::Open(epoch));
        }
        let named = [keepers >> 16, keepers & 0xffff].map(NodeId);
        let mut named = named.iter().filter(|node| node.0 != 0);
        let all_say_so = match keepers {
            0 => nodes.iter().all(|node| strangers.contains(node)),
            _ => named.all(|node| strangers.contains(node)),
        };
        all_say_so.then_some(Standing::Unknown)
    }

    /// How a job stands, for a worker that has to know what to do: not known is open.
    pub async fn standing_or_open(self: &Rc<Self>, id: JobId, keepers: u32) -> Standing {
        self.ask_standing(id, keepers).await.unwrap_or(Standing::Open(Epoch::NONE))
    }

    async fn ask_others<T, F>(&self, ask: impl Fn(JobClient) -> F) -> CallResult<Vec<CallResult<T>>>
    where
        F: Future<Output = CallResult<T>>,
    {
        let nodes = self.cluster.nodes().await?;
        Ok(self.ask_nodes(&nodes, ask).await.into_iter().map(|it| it.1).collect())
    }

    /// Asks the job services of other nodes, side by side.
    pub(super) async fn ask_nodes<T, F>(
        &self,
        nodes: &[NodeId],
        ask: impl Fn(JobClient) -> F,
    ) -> Vec<(NodeId, CallResult<T>)>
    where
        F: Future<Output = CallResult<T>>,
    {
        let stl = self.stl.with_patience(SOON);
        let others = nodes.iter().filter(|node| **node != self.cluster.node());
        let calls = others.map(|node| {
            let (stl, at, ask) = (stl.clone(), self.cluster.at(*node, CoreId::BOOT), &ask);
            async move {
                let answer = match JobClient::find_at(&stl, at).await {
                    Ok(client) => ask(client).await,
                    Err(error) => Err(error),
                };
                (*node, answer)
            }
        });
        all(calls).await
    }
}
